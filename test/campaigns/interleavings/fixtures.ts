import type { Database } from '../../../shared/database.ts'
import { readPrimaryClock } from '../../../shared/store/leases.ts'
import type { Json } from '../../helpers/service.ts'
import { batch, settle, start, step } from './engine-acts.ts'
import type { Side } from './side.ts'

/**
 * Where an interleaving begins: a list with subscribers, autoresponders, mails, and an import that has come so far. It is
 * made once, kept in memory, and put back for each interleaving.
 */
export interface Fixture {
  name: FixtureName
  organizationId: number
  listId: number
  importId: number
  fields: { color: number; spare: number; number: number }
  /** Subscribers that the import doesn't name, and one that it does. */
  absentId: number
  presentId: number
  restore: () => Promise<void>
}

export const fixtureNames = [
  'scheduled',
  'splitting',
  'importing',
  'begun',
  'written',
  'ended',
  'settled',
  'paused',
  'first import',
  'dead engine',
] as const
export type FixtureName = (typeof fixtureNames)[number]

/** Rows of an import, and of one that takes two batches. */
const rows = 40
const rowsOfTwoBatches = 3_600

const email = (i: number) => `person${i}@example.com`
/** Numbers of those that are on the list before the import, which names the first of them. */
const presentBefore = 5
const there = 12

/** All fixtures begin with the same database, as `keep` found it. */
export async function makeFixture(name: FixtureName, side: Side, base: Kept): Promise<Fixture> {
  await putBack(side.database, base)
  const post = async (path: string, body: Json): Promise<Json> => {
    const answer = await side.call('POST', path, body)
    if (answer.body?.success !== true) throw new Error(`${path}: ${answer.text}`)
    return answer.body.data
  }
  const isFirst = name === 'first import'
  const organization = await post('/organizations', { organization: { name: `Fixture ${name}` } })
  const list = await post('/mailing_lists', {
    mailing_list: { name: `Fixture ${name}`, organization_id: organization.id },
  })
  const path = `/mailing_lists/${list.id}`
  const field = async (definition: Json): Promise<number> =>
    (await post(`${path}/custom_fields`, { custom_field: definition })).id
  const fields = {
    color: await field({ name: 'Color', field_type: 'text' }),
    spare: await field({ name: 'Spare', field_type: 'text' }),
    number: await field({ name: 'No', field_type: 'text', required: true }),
  }
  await post(`${path}/autoresponders`, {
    autoresponder: {
      name: 'Welcome',
      trigger: 'subscription',
      trigger_include_subscribers_from_import: true,
      content_subject: 'Hello',
      content_text: 'Good to have you.',
      use_external_delivery_setting: true,
    },
  })
  const ids: number[] = []
  for (let i = 0; i < (isFirst ? 0 : there); i += 1) {
    // The last ones are not in the file.
    const number = i < presentBefore ? i : 100_000 + i
    const subscriber = await post(`${path}/subscribers`, {
      subscriber: {
        email: email(number),
        custom_fields: { Color: 'red', Spare: 'x', No: String(number) },
      },
    })
    ids.push(subscriber.id)
  }
  const count = name === 'begun' || name === 'dead engine' || name === 'paused' ? rowsOfTwoBatches : rows
  const lines = Array.from({ length: count }, (_, i) => `${email(i)},green,${i}\n`)
  const created = await post(`${path}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: ['email', 'Color', 'No'],
      file_format: { csv_has_headers: false },
      overwrite: true,
      deactivate_subscribers_not_in_import: !isFirst,
      file_source: { type: 'json', content: lines.join('') },
    },
  })
  const advance: Record<FixtureName, () => Promise<unknown>> = {
    scheduled: async () => undefined,
    splitting: () => start(side),
    importing: async () => {
      await start(side)
      await step(side)
    },
    'first import': async () => advance.importing(),
    begun: async () => {
      await advance.importing()
      await batch(side, 1)
    },
    'dead engine': async () => {
      await advance.begun()
      await leaveToDeadEngine(side)
    },
    paused: async () => {
      await advance.begun()
      await post(`/subscriber_imports/${created.id}/pause`, undefined)
    },
    written: async () => {
      await advance.importing()
      while (await batch(side));
    },
    ended: async () => {
      await advance.written()
      await step(side)
    },
    settled: async () => {
      await advance.ended()
      await settle(side)
    },
  }
  await advance[name]()
  const kept = await keep(side.database)
  return {
    name,
    organizationId: organization.id,
    listId: list.id,
    importId: created.id,
    fields,
    absentId: ids.at(-1) ?? 0,
    presentId: ids[0] ?? 0,
    restore: () => putBack(side.database, kept),
  }
}

async function leaveToDeadEngine({ database }: Side): Promise<void> {
  const { db, collections } = database
  const { chunks, engines } = collections
  await engines.insertOne({
    ...{ _id: 'dead', number: 900, host: 'elsewhere', process_id: 1, dead: false, session_ids: [] },
    ...{ started_at: new Date(0), lease_until: new Date(0) },
    // Of an earlier election it would be given a whole lease first.
    lease_election: (await readPrimaryClock(db)).election,
  })
  await chunks.updateOne(
    { state: 'ready' },
    {
      $set: {
        state: 'running',
        token: 'lost',
        engine_id: 'dead',
        lease_until: new Date(Date.now() + 3_600_000),
      },
    },
  )
}

/** Ids that were handed out stay handed out, as processes keep some in hand. */
const lasting = new Set(['counters', 'schema', 'installation', 'doorbell', 'auth_failures'])

export type Kept = Map<string, object[]>

/** Everything that is put back. */
export async function keep({ db }: Database): Promise<Kept> {
  const kept: Kept = new Map()
  for (const { name } of await db.listCollections({}, { nameOnly: true }).toArray())
    if (!lasting.has(name)) kept.set(name, await db.collection(name).find().toArray())
  return kept
}

async function putBack({ db }: Database, kept: Kept): Promise<void> {
  await Promise.all(
    [...kept].map(async ([name, documents]) => {
      await db.collection(name).deleteMany({}, { writeConcern: { w: 1 } })
      if (documents.length > 0)
        await db.collection(name).insertMany(documents, { bypassDocumentValidation: true })
    }),
  )
}
