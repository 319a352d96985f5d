import type { ImportState } from '../../../shared/contract/import-state.ts'
import { invalid, notFound, refusal, type Refusal } from '../../api/refusal.ts'

export const noImport = notFound('subscriber import')
export const noLog = refusal(
  'not_found',
  (id: number, kind: string) => `subscriber import ${id} has no log ${kind}`,
  4711,
  'failed',
)

const cannot = (participle: string, reason: string, example: ImportState) =>
  invalid(
    (id: number, state: ImportState) =>
      `subscriber import ${id} can't be ${participle}: it is ${state}, and ${reason}`,
    4711,
    example,
  )
const ended = (participle: string) => cannot(participle, 'it has ended', 'cancelled')

export type ImportMove = 'pause' | 'unpause' | 'cancel'

/** The refusals of a move whose import has ended, or is in a state from which the move doesn't start. */
export const refusedMoves: Record<
  ImportMove,
  Record<'ended' | 'otherState', Refusal<[number, ImportState]>>
> = {
  pause: {
    ended: ended('paused'),
    otherState: cannot('paused', 'it must be scheduled, downloading, splitting or importing', 'paused'),
  },
  unpause: {
    ended: ended('unpaused'),
    otherState: cannot('unpaused', 'it must be paused', 'scheduled'),
  },
  // Every other state can be left by it.
  cancel: { ended: ended('cancelled'), otherState: ended('cancelled') },
}

export const badIdempotencyKey = refusal(
  'invalid_request',
  'Idempotency-Key must have 1 to 255 characters, once',
)
export const usedWithOtherBody = invalid(
  (importId: number) =>
    `Idempotency-Key was used with another body for import ${importId}: give each import a key of its own`,
  4711,
)
/** The database has the first request's import without a majority yet: a failover may still undo it. */
export const unconfirmed = refusal(
  { code: 'internal_error', status: 503, retryAfter: 5 },
  'another request with this Idempotency-Key has just been written and is not yet confirmed by the database: send the same request again in a moment, it makes no second import',
)

/** With the status 507, and the cause for the log. */
export const noSpaceRefusal =
  'the disk where content is kept before it is imported has too little space left, and nothing was created: send the request again later, or tell the operator'

export const importOverQuota = refusal(
  { code: 'invalid_request', status: 413 },
  (megabytes: number) =>
    `the content does not fit into the organization's quota of ${megabytes} MB, which its uploads, the files of its unfinished imports and the failed rows of the last 7 days share, and nothing was created: remove uploads, cancel imports or let them end, and create the import again`,
  10_240,
)
export const tooManyImports = refusal(
  { code: 'not_authorized', status: 429, retryAfter: 60 },
  (max: number) =>
    `the organization has ${max} imports that are unfinished or not cleared up yet, and may not have more; nothing was created: cancel some or let them end, and create the import again`,
  2_000,
)
