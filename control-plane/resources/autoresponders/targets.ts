import type { ClientSession } from 'mongodb'
import { recordFromKeys } from '../../../shared/contract/record-from-keys.ts'
import {
  autoresponderTargets,
  type AutoresponderDocument,
} from '../../../shared/contract/schemas/autoresponder.ts'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import { refuseAll } from '../../api/validation.ts'
import { noSuchTarget, wouldBeCycle } from './refusals.ts'
import { triggeredBy, type WithTargets } from './rules.ts'

/** Checks of the autoresponders that an autoresponder answers: they belong to the organization, and form no cycle. */

/** Throws `validation_failed` with every target that isn't an autoresponder of the organization. */
export async function requireTargets(
  { autoresponders }: Collections,
  document: AutoresponderDocument,
  session: ClientSession,
): Promise<void> {
  const ids = autoresponderTargets.map((field) => document[field]).filter((id) => id !== null)
  if (ids.length === 0) return
  const found = await autoresponders
    .find(
      { _id: { $in: ids }, organization_id: document.organization_id },
      { session, projection: { _id: 1 } },
    )
    .toArray()
  const known = new Set(found.map(({ _id }) => _id))
  refuseAll(
    autoresponderTargets.flatMap((field) => {
      const id = document[field]
      return id === null || known.has(id) ? [] : [noSuchTarget(field, id)]
    }),
  )
}

type Target = WithTargets & { mailing_list_id: number }
const projection = {
  mailing_list_id: 1,
  trigger: 1,
  ...recordFromKeys(autoresponderTargets, () => 1),
}

/**
 * Follows the triggers from the autoresponder on, and throws `validation_failed` when they form a cycle. Resolves to the
 * lists on the way. The caller must bump their revisions: a concurrent change of an autoresponder there could close a
 * cycle.
 */
export async function requireNoCycle(
  { autoresponders }: Collections,
  document: AutoresponderDocument,
  session: ClientSession,
): Promise<Set<number>> {
  const lists = new Set<number>()
  const path = [document._id]
  const first = triggeredBy(document)
  if (first === null) return lists
  let next: typeof first | null = first
  while (next !== null) {
    if (path.includes(next.id)) throw wouldBeCycle(first.field, [...path, next.id])
    const target: Target | null = await autoresponders.findOne<Target>(
      { _id: next.id },
      { session, projection },
    )
    if (target === null) break
    path.push(next.id)
    lists.add(target.mailing_list_id)
    next = triggeredBy(target)
  }
  return lists
}
