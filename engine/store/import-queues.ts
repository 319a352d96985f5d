import { endedStates, workingStates } from '../../shared/contract/import-state.ts'
import {
  endedIndex,
  notFinalizedIndex,
  waitingDryRunsIndex,
  waitingOfListIndex,
  type Collections,
} from '../../shared/contract/schemas/collections.ts'
import type { ImportDocument, SourceType } from '../../shared/contract/schemas/import.ts'
import { stepDueAt, stepIsDue } from '../../shared/store/import-steps.ts'

/**
 * The imports that engines have to work on. Each query has an index with a key for a queue. For imports that lock their
 * list the queue is the list; for dry runs and imports to be finalized it is the organization. The server finds the first
 * entries by skipping from queue to queue (DISTINCT_SCAN). The cost depends on the number of queues, not on their length.
 */

/** The first import of a list, which is due. */
export interface FirstOfList {
  _id: number
  list_id: number
  organization_id: number
  begins_at: Date
  source_type: SourceType
}

/** The first import of each list, if it is due. Further ones of the list wait for it. Dry runs are left out. */
export function listFirstOfLists({ imports }: Collections): Promise<FirstOfList[]> {
  return imports
    .aggregate<FirstOfList>(
      [
        { $match: { state: 'scheduled', 'options.dry_run': false } },
        { $sort: waitingOfListIndex },
        {
          $group: {
            _id: '$mailing_list_id',
            begins_at: { $first: '$begins_at' },
            id: { $first: '$_id' },
            organization_id: { $first: '$organization_id' },
            source_type: { $first: '$source.type' },
          },
        },
        { $match: isDue },
        { $project: { _id: '$id', list_id: '$_id', organization_id: 1, begins_at: 1, source_type: 1 } },
      ],
      { hint: waitingOfListIndex },
    )
    .toArray()
}

const isDue = { $expr: { $lte: ['$begins_at', '$$NOW'] } }

/** The organizations with due dry runs. */
export async function listOrganizationsWithDryRuns({ imports }: Collections): Promise<number[]> {
  const found = await imports
    .aggregate<{ _id: number }>(
      [
        { $match: { state: 'scheduled', 'options.dry_run': true } },
        { $sort: waitingDryRunsIndex },
        { $group: { _id: '$organization_id', begins_at: { $first: '$begins_at' } } },
        { $match: isDue },
        { $project: { _id: 1 } },
      ],
      { hint: waitingDryRunsIndex },
    )
    .toArray()
  return found.map(({ _id }) => _id)
}

/** What the start of an import needs. `is_due` is by the database's clock. */
export type WaitingImport = Pick<
  ImportDocument,
  '_id' | 'organization_id' | 'mailing_list_id' | 'begins_at' | 'options'
> & { source: Pick<ImportDocument['source'], 'type' | 'filename'>; is_due: boolean }

const waitingFields = {
  ...{ organization_id: 1, mailing_list_id: 1, begins_at: 1 },
  ...{ 'source.type': 1, 'source.filename': 1, is_due: { $lte: ['$begins_at', '$$NOW'] } },
  ...{ 'options.dry_run': 1, 'options.deactivate_subscribers_not_in_import': 1 },
} as const

/** The first two imports that wait on a list, though they may not be due. */
export function readFirstOfList({ imports }: Collections, listId: number): Promise<WaitingImport[]> {
  return imports
    .find<WaitingImport>(
      { state: 'scheduled', 'options.dry_run': false, mailing_list_id: listId },
      { projection: waitingFields },
    )
    .sort(waitingOfListIndex)
    .hint(waitingOfListIndex)
    .limit(2)
    .toArray()
}

/** The first due dry runs of an organization with a source of these types, up to `limit`. */
export function listDueDryRuns(
  { imports }: Collections,
  organizationId: number,
  { sourceTypes, limit }: { sourceTypes: readonly SourceType[]; limit: number },
): Promise<WaitingImport[]> {
  return imports
    .find<WaitingImport>(
      {
        ...{ state: 'scheduled', 'options.dry_run': true, organization_id: organizationId },
        ...{ 'source.type': { $in: [...sourceTypes] }, ...isDue },
      },
      { projection: waitingFields },
    )
    .sort(waitingDryRunsIndex)
    .hint(waitingDryRunsIndex)
    .limit(limit)
    .toArray()
}

export type WorkingImport = Pick<
  ImportDocument,
  '_id' | 'organization_id' | 'begins_at' | 'state' | 'lease' | 'fence'
>

/**
 * Started imports that can be worked on now, in the order of `begins_at` and id. Those whose step waits for its next
 * attempt are left out.
 */
export async function listWorkingImports({ imports }: Collections): Promise<WorkingImport[]> {
  const working = await imports
    .find(
      {
        state: { $in: [...workingStates] },
        $or: [{ state: 'importing' }, { 'lease.token': { $ne: null } }, stepIsDue],
      },
      {
        projection: { organization_id: 1, begins_at: 1, state: 1, lease: 1, fence: 1 },
      },
    )
    .hint({ state: 1 })
    .toArray()
  return working.sort((a, b) => a.begins_at.getTime() - b.begins_at.getTime() || a._id - b._id)
}

/**
 * Milliseconds until the first of the imports and steps that wait for their time is due. Infinity where none waits. Of
 * scheduled imports the first one is read, however many wait.
 */
export async function readWaitMs({ imports }: Collections): Promise<number> {
  const [[scheduled], [step]] = await Promise.all([
    imports
      .find<{ ms: number }>(
        { finalized: false, state: 'scheduled', $expr: { $gt: ['$begins_at', '$$NOW'] } },
        { projection: { ms: { $subtract: ['$begins_at', '$$NOW'] } } },
      )
      .sort(notFinalizedIndex)
      .hint(notFinalizedIndex)
      .limit(1)
      .toArray(),
    imports
      .aggregate<{ ms: number }>(
        [
          { $match: { state: { $in: ['downloading', 'splitting'] } } },
          { $project: { ms: { $subtract: [stepDueAt, '$$NOW'] } } },
          { $match: { ms: { $gt: 0 } } },
          { $group: { _id: null, ms: { $min: '$ms' } } },
        ],
        { hint: { state: 1 } },
      )
      .toArray(),
  ])
  return Math.min(scheduled?.ms ?? Infinity, step?.ms ?? Infinity)
}

export type EndedImport = Pick<
  ImportDocument,
  '_id' | 'organization_id' | 'state' | 'pinned' | 'content' | 'started_at'
> & {
  source: Pick<ImportDocument['source'], 'type' | 'filename' | 'deleted_blob'>
  options: Pick<ImportDocument['options'], 'dry_run'>
}

/** The filter of `endedIndex`. */
export const endedNotFinalized = { finalized: false, finished_at: { $gt: new Date(0) } }

/** Organizations with ended imports that are not finalized yet. */
export async function listOrganizationsToFinalize({ imports }: Collections): Promise<number[]> {
  const found = await imports
    .aggregate<{ _id: number }>(
      [
        { $match: endedNotFinalized },
        { $sort: { organization_id: 1 } },
        { $group: { _id: '$organization_id' } },
      ],
      { hint: endedIndex },
    )
    .toArray()
  return found.map(({ _id }) => _id)
}

/** The first ended imports of an organization that are not finalized and whose step no engine has leased, up to `limit`. */
export function listEndedImports(
  { imports }: Collections,
  organizationId: number,
  { without, limit }: { without: readonly number[]; limit: number },
): Promise<EndedImport[]> {
  return imports
    .find(
      {
        ...endedNotFinalized,
        organization_id: organizationId,
        state: { $in: [...endedStates] },
        'lease.token': null,
        _id: { $nin: [...without] },
      },
      {
        projection: {
          ...{ organization_id: 1, state: 1, pinned: 1, started_at: 1, 'options.dry_run': 1 },
          ...{ 'source.type': 1, 'source.filename': 1, 'source.deleted_blob': 1 },
        },
      },
    )
    .sort(endedIndex)
    .hint(endedIndex)
    .limit(limit)
    .toArray()
}
