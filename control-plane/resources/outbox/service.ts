import { randomBytes } from 'node:crypto'
import type { z } from 'zod'
import type { ReactionDocument } from '../../../shared/contract/schemas/autoresponder.ts'
import type { Caller } from '../../../shared/store/api-keys.ts'
import { clock } from '../../../shared/runtime/clock.ts'
import { databaseTime } from '../../../shared/runtime/database.ts'
import {
  acknowledgeMessages,
  claimMessages,
  dropMessages,
  dropWithoutContent,
  readDueQueues,
  returnMessages,
  type Lease,
  type OutboxScope,
} from '../../../shared/store/outbox.ts'
import { JsonRecords, maxPageBytes, type PageCall } from '../../api/json-page.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { composeMessages } from './compose.ts'
import type { acknowledgedView, acknowledging, Taking } from './schemas.ts'

const outboxScope = (caller: Caller): OutboxScope =>
  caller.role === 'system_admin' ? 'all' : { organizationId: caller.organizationId }

/** Time budget of one call. It may return fewer messages than asked for when many had to be dropped on the way. */
const timeBudgetMs = { withSome: 5_000, withNone: 20_000 }

/** Leases due messages to a mail sender, in order of `due_at`. No other call gets them until the lease ends. */
export function takeMessages(call: PageCall, request: Taking): Promise<JsonRecords> {
  const { deps, caller, clientGone } = call
  const { organizationId } = caller
  return deps.slots.takes.run({ organizationId, clientGone }, async () => {
    // Acquired before messages are leased: without a reply they would be blocked until their lease ends.
    await call.acquireLargeReply()
    return takeWithSlot(deps, outboxScope(caller), request, clientGone)
  })
}

async function takeWithSlot(
  deps: ControlPlane,
  scope: OutboxScope,
  { limit, lease_seconds: seconds }: Taking,
  clientGone: AbortSignal,
): Promise<JsonRecords> {
  const { database } = deps
  const { collections } = database
  const lease: Lease = { token: randomBytes(16).toString('base64url'), seconds }
  const startedAt = clock.monotonicMs()
  const taken: { message: ReactionDocument; text: string }[] = []
  let bytes = 0
  let batchSize = firstBatchSize
  while (taken.length < limit && !clientGone.aborted) {
    const budgetMs = taken.length === 0 ? timeBudgetMs.withNone : timeBudgetMs.withSome
    if (clock.monotonicMs() - startedAt > budgetMs) break
    const now = await databaseTime(database.db)
    const { open, withoutContent } = await readDueQueues(collections, scope, now)
    await dropWithoutContent(collections, withoutContent, now)
    const claimed = await claimMessages(collections, open, {
      now,
      limit: Math.min(limit - taken.length, batchSize),
      lease,
    })
    if (claimed === null) break
    const composed = composeMessages(deps, claimed, lease.token).catch(async (error: unknown) => {
      // The next call gets the messages that couldn't be composed.
      await returnMessages(collections, claimed, lease)
      throw error
    })
    const { toHandOut, toGiveBack, toDrop } = await composed
    const fitting = toHandOut
      .map(({ message, view }) => ({ message, text: JSON.stringify(view) }))
      .filter(({ text }, i) => {
        bytes += Buffer.byteLength(text)
        return bytes <= maxPageBytes || (i === 0 && taken.length === 0)
      })
    taken.push(...fitting)
    const fit = new Set(fitting.map(({ message }) => message))
    const overLimit = toHandOut.map(({ message }) => message).filter((message) => !fit.has(message))
    await returnMessages(collections, [...toGiveBack, ...overLimit], lease)
    await dropMessages(collections, toDrop, lease)
    if (overLimit.length > 0 || bytes >= maxPageBytes) break
    batchSize =
      taken.length === 0
        ? Math.min(4 * batchSize, maxBatchSizeWithoutAny)
        : Math.max(1, Math.floor((maxPageBytes - bytes) / (bytes / taken.length)))
  }
  // The client never got them, so the next call needn't wait until their lease ends.
  if (clientGone.aborted)
    await returnMessages(
      collections,
      taken.map(({ message }) => message),
      lease,
    )
  // A message that was taken before became available only when its lease expired, after later ones.
  const byDueTime = taken.toSorted(
    ({ message: a }, { message: b }) => a.due_at.getTime() - b.due_at.getTime() || a.id - b.id,
  )
  return new JsonRecords(byDueTime.map(({ text }) => text))
}

/** Small, because each message may have a megabyte of content. Later batches use the average size of the first. */
const firstBatchSize = 32
/** While all messages so far had to be dropped or given back. */
const maxBatchSizeWithoutAny = 128

export async function acknowledge(
  { database }: ControlPlane,
  caller: Caller,
  messages: z.infer<typeof acknowledging>['messages'],
): Promise<z.infer<typeof acknowledgedView>> {
  const leased = messages.map(({ id, lease_token }) => ({ id, leaseToken: lease_token }))
  const acknowledged = await acknowledgeMessages(database.collections, outboxScope(caller), leased)
  const stale = new Set(messages.map(({ id }) => id).filter((id) => !acknowledged.has(id)))
  return { acknowledged: acknowledged.size, stale: [...stale] }
}
