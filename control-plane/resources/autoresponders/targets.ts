import type { ClientSession } from 'mongodb'
import { RequestError } from '../../../shared/contract/errors.ts'
import {
  autoresponderTargets,
  type AutoresponderDocument,
} from '../../../shared/contract/schemas/autoresponder.ts'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import { refuseProblems } from '../../api/validation.ts'
import { triggeredBy, type WithTargets } from './rules.ts'

/** The autoresponders that an autoresponder answers: they must be the organization's, and go round in no ring. */

/** Throws `validation_failed` with every target that the organization doesn't have. */
export async function refuseMissingTargets(
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
  refuseProblems(
    autoresponderTargets
      .filter((field) => document[field] !== null && !known.has(document[field]))
      .map((field) => `${field}: there is no autoresponder ${document[field]} in the organization`),
  )
}

/**
 * Goes from the autoresponder to the one that triggers it, and on; throws `validation_failed` where that leads back to
 * it. Resolves to the lists that it came through: whoever changes one of their autoresponders at the same time may make
 * a ring of it, so their revisions are to be raised too.
 */
export async function refuseCycle(
  { autoresponders }: Collections,
  document: AutoresponderDocument,
  session: ClientSession,
): Promise<Set<number>> {
  const lists = new Set<number>()
  const path = [document._id]
  const first = triggeredBy(document)
  let next = first
  while (next !== null) {
    if (path.includes(next.id)) throw cycleFrom(first!.field, [...path, next.id])
    const target = await autoresponders.findOne<WithTargets & { mailing_list_id: number }>(
      { _id: next.id },
      {
        session,
        projection: {
          mailing_list_id: 1,
          trigger: 1,
          ...Object.fromEntries(autoresponderTargets.map((field) => [field, 1])),
        },
      },
    )
    if (target === null) break
    path.push(next.id)
    lists.add(target.mailing_list_id)
    next = triggeredBy(target)
  }
  return lists
}

const maxNamed = 10

function cycleFrom(field: string, ids: number[]): RequestError {
  const named = ids.length > maxNamed ? [...ids.slice(0, maxNamed), '...'] : ids
  return new RequestError(
    'validation_failed',
    `${field}: autoresponders can't trigger each other in a ring, and ${named.join(' <- ')} would be one`,
  )
}
