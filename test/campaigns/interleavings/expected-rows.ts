import { isDeepStrictEqual } from 'node:util'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import { toFieldDefinition, type FieldDefinition } from '../../../shared/contract/schemas/custom-field.ts'
import { expectedEnd } from '../../model/import-model.ts'
import type { Subscriber, SubscriberTable } from '../../model/subscriber-table.ts'
import { tableOf } from '../observed-end.ts'
import type { Fixture } from './fixtures.ts'
import { present } from '../../helpers/present.ts'

/** The list as an import leaves it that nothing disturbs, by the model of the rules: one table for each content. */
export async function expectedTable(
  collections: Collections,
  importId: number,
  contents: string[],
): Promise<SubscriberTable[]> {
  const { mailing_list_id: listId, options } = present(
    await collections.imports.findOne({ _id: importId }),
    `import ${importId}`,
  )
  const fields = await fieldsOf(collections, listId)
  const existing = await readTable(collections, listId, fields)
  const list = { hasFormat: false, hasConfirmed: false, fields, primaryKey: null, timeZone: 'UTC' }
  return contents.map((content) => {
    const bytes = Buffer.from(content)
    return expectedEnd({ bytes, isInline: true, options, list, existing, quota: null }).table
  })
}

/**
 * Names the differences between the list and the model's table, for the contents that fit best. Emails that requests
 * wrote (`touched`) and rows over the subscriber limit may differ.
 */
export async function rowFaults(
  collections: Collections,
  fixture: Fixture,
  { touched, overLimit }: { touched: ReadonlySet<string>; overLimit: number },
): Promise<string[]> {
  const fields = await fieldsOf(collections, fixture.listId)
  const found = await readTable(collections, fixture.listId, fields)
  const faults = fixture.expected.map((expected) => {
    const differences: string[] = []
    let missing = 0
    for (const identity of new Set([...expected.keys(), ...found.keys()])) {
      if (touched.has(identity)) continue
      const [wanted, came] = [expected.get(identity), found.get(identity)]
      if (wanted === undefined) differences.push(`${identity} is on the list, and in no file`)
      else if (came === undefined) missing += 1
      else if (!isDeepStrictEqual(shownOf(came, fields), shownOf(wanted, fields)))
        differences.push(
          `${JSON.stringify(shownOf(came, fields))} should be ${JSON.stringify(shownOf(wanted, fields))}`,
        )
    }
    // A touched one may be over the limit as well.
    const isMissing = missing > overLimit || missing + touched.size < overLimit
    if (isMissing)
      differences.push(`${missing} of the file are not on the list, and ${overLimit} over the limit`)
    return differences
  })
  const best = faults.reduce((a, b) => (a.length <= b.length ? a : b))
  return best.length > 3 ? [...best.slice(0, 3), `and ${best.length - 3} more`] : best
}

/** A subscriber without times, and with the fields that the list has by now. */
const shownOf = ({ email, status, values }: Subscriber, fields: FieldDefinition[]) => ({
  email,
  status,
  values: fields.map(({ id }) => values[id] ?? null),
})

async function fieldsOf({ customFields }: Collections, listId: number): Promise<FieldDefinition[]> {
  const documents = await customFields.find({ mailing_list_id: listId }).sort({ _id: 1 }).toArray()
  return documents.map(toFieldDefinition)
}

async function readTable(
  { subscribers }: Collections,
  listId: number,
  fields: FieldDefinition[],
): Promise<SubscriberTable> {
  return tableOf(await subscribers.find({ mailing_list_id: listId }).toArray(), fields)
}
