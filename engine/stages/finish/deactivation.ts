import { promisify } from 'node:util'
import { deflate } from 'node:zlib'
import { clock } from '../../../shared/runtime/clock.ts'
import type { ChunkDocument, ImportDocument } from '../../../shared/contract/schemas/import.ts'
import { DiskReserveReached } from '../../../shared/storage/staging/disk-reserve.ts'
import { recordDeactivated } from '../../../shared/store/chunks.ts'
import { writeInStep } from '../../../shared/store/import-steps.ts'
import { noTries } from '../../../shared/store/work-leases.ts'
import { leaveLists } from '../../../shared/store/leaving-subscribers.ts'
import { addMove, changeCountsOfLane, noStatusCounts } from '../../../shared/store/subscriber-counts.ts'
import { appendDeactivationLog } from '../../store/deactivations.ts'
import type { StepRun } from '../../runner/step.ts'
import { runTransaction, type Attempt } from '../write/transaction.ts'
import { activeAtStart, openRanges, requirePlan, searchRange } from './absent-subscribers.ts'

/**
 * `deactivate_subscribers_not_in_import`: first counts the absent subscribers, so that a warning is stored before
 * anything is done, then deactivates them.
 *
 * Each subscriber is deactivated exactly once, by an optimistic lock: each transaction moves `deactivated_to` of the
 * chunk from the value that was read. The next holder of the step resumes from there, and the transaction of a stale
 * holder matches nothing.
 *
 * Both store their progress once a second, also where no subscriber is absent. A step that is killed repeats one second
 * of work.
 */

const subscribersPerTransaction = 1_000
const progressEveryMs = 1_000
/** For all attempts of one transaction. */
export const deactivationTimeoutMs = 120_000

/**
 * How many subscribers are absent, counted to just over half of the active ones; stores a warning then. Resumes where
 * an earlier holder of the step stopped, and throws what deactivateAbsent throws.
 */
export async function countAbsentAndWarn(run: StepRun): Promise<number> {
  const { document, step, database } = run
  const active = requirePlan(document).active_at_start
  const absent = await countAbsent(run, Math.floor(active / 2) + 1)
  if (absent * 2 <= active) return absent
  const warning = `more than half of the ${active} active subscribers of the list are not in the file, and deactivate_subscribers_not_in_import deactivates them`
  await writeInStep(
    database.collections,
    { ...step, state: 'importing' },
    { $addToSet: { warnings: warning } },
  )
  return absent
}

async function countAbsent(run: StepRun, max: number): Promise<number> {
  const start = run.document.absent_search ?? { chunk: 0, to: null, absent: 0 }
  const isProgressDue = everySecond()
  let { absent } = start
  let hasProgress = false
  let end = start.chunk
  for await (const range of openRanges(run, start.chunk)) {
    const { number, deactivated_to: deactivatedTo } = range.chunk
    end = number + 1
    if (absent >= max) continue
    const searchedTo = number === start.chunk ? start.to : null
    for await (const part of searchRange(run, range, deactivatedTo ?? searchedTo)) {
      absent += part.absent.length
      if (absent >= max) break
      if (!isProgressDue()) continue
      hasProgress = true
      await storeSearch(run, { chunk: number, to: part.to, absent })
    }
  }
  if (hasProgress) await storeSearch(run, { chunk: end, to: null, absent })
  return absent
}

/**
 * Resumes where an earlier holder of the step stopped. Where the records of a range are gone or changed, throws
 * ImportError `chunk_damaged` before any subscriber of that range is deactivated. Throws the signal's reason, and an
 * Error when another engine has leased the step.
 */
export async function deactivateAbsent(run: StepRun): Promise<void> {
  const isProgressDue = everySecond()
  for await (const range of openRanges(run, 0)) {
    const { chunk } = range
    let absent: string[] = []
    let searchedTo = ''
    for await (const part of searchRange(run, range, chunk.deactivated_to)) {
      absent.push(...part.absent)
      searchedTo = part.to
      while (absent.length >= subscribersPerTransaction) {
        const batch = absent.splice(0, subscribersPerTransaction)
        await deactivate(run, chunk, batch, afterLast(batch))
      }
      if (!isProgressDue()) continue
      await deactivate(run, chunk, absent, searchedTo)
      absent = []
    }
    if (absent.length > 0) await deactivate(run, chunk, absent, searchedTo)
  }
}

/** The first key that sorts after all of these, which are in ascending order. */
const afterLast = (keys: string[]): string => `${keys.at(-1)}\0`

/** True when a second has passed since the beginning, or since it was last true. */
function everySecond(): () => boolean {
  let lastMs = clock.monotonicMs()
  return () => {
    const isDue = clock.monotonicMs() - lastMs >= progressEveryMs
    if (isDue) lastMs = clock.monotonicMs()
    return isDue
  }
}

async function storeSearch(run: StepRun, search: ImportDocument['absent_search']): Promise<void> {
  const { document, step, database } = run
  const isLeased = await writeInStep(
    database.collections,
    { ...step, state: 'importing' },
    { $set: { absent_search: search, ...noTries } },
  )
  if (!isLeased) throw stepLost(run)
  document.lease.tries = 0
}

const stepLost = ({ signal }: StepRun): Error =>
  signal.reason instanceof Error ? signal.reason : new Error('another engine finishes this import now')

/**
 * Deactivates a range's absent subscribers up to the key `next` in one transaction, or in halves while requests write
 * the same ones all the time.
 */
async function deactivate(run: StepRun, chunk: ChunkDocument, absent: string[], next: string): Promise<void> {
  const { session, signal, staging, progress } = run
  const spaceProblem = await staging.spaceProblem()
  if (spaceProblem !== null) throw new DiskReserveReached(spaceProblem)
  const transaction = await runTransaction({
    session,
    attempt: () => writeDeactivated(run, { chunk, absent, next }),
    isStopped: () => signal.aborted,
    timeoutMs: deactivationTimeoutMs,
    isDivisible: absent.length > 1,
  })
  if (transaction.end === 'conflicts') {
    const middle = Math.ceil(absent.length / 2)
    const firstHalf = absent.slice(0, middle)
    await deactivate(run, chunk, firstHalf, afterLast(firstHalf))
    await deactivate(run, chunk, absent.slice(middle), next)
    return
  }
  if (transaction.end !== 'committed') throw stepLost(run)
  progress.add()
  chunk.deactivated_to = transaction.value
  run.document.lease.tries = 0
}

/** Inside the transaction. Resolves to the key up to which the range is done. */
async function writeDeactivated(
  run: StepRun,
  { chunk, absent, next }: { chunk: ChunkDocument; absent: string[]; next: string },
): Promise<Attempt<string>> {
  const { document, step, database, session, stripe } = run
  const { collections } = database
  // Requests may have changed or deleted some of them since the search, and added others with the same identities.
  const leaving = await collections.subscribers
    .find(
      { _id: { $in: absent }, ...activeAtStart(document) },
      { session, projection: { _id: 1, email: 1, id: 1 }, batchSize: absent.length + 1 },
    )
    .sort({ _id: 1 })
    .toArray()
  // A write, so that this transaction and a pause or a cancel can't both commit.
  const isLeased = await writeInStep(
    collections,
    { ...step, state: 'importing' },
    { $inc: { step_writes: 1 }, $set: noTries },
    session,
  )
  const isCurrent = await recordDeactivated(collections, session, {
    chunk,
    to: next,
    subscribers: leaving.length,
  })
  if (!isLeased || !isCurrent) throw stepLost(run)
  if (leaving.length === 0) return { commit: next }
  const lines = await deflateAsync(leaving.map((subscriber) => `${subscriber.email}\n`).join(''), {
    level: 1,
  })
  await appendDeactivationLog(collections, session, chunk._id, lines)
  if (document.options.dry_run) return { commit: next }
  await leaveLists(collections, session, {
    byStatus: new Map([['deactivated', leaving]]),
    listIds: [document.mailing_list_id],
    leftAt: clock.now(),
  })
  await changeCountsOfLane(collections, session, stripe, {
    organizationId: document.organization_id,
    listId: document.mailing_list_id,
    changes: addMove(noStatusCounts(), 'active', 'deactivated', leaving.length),
  })
  return { commit: next }
}

const deflateAsync = promisify(deflate)
