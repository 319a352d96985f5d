import { randomBytes } from 'node:crypto'
import type { Caller } from '../../../shared/store/api-keys.ts'
import { clock } from '../../../shared/runtime/clock.ts'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import type { OutboxDocument } from '../../../shared/contract/schemas/outbox.ts'
import {
  claimMessages,
  dropMessages,
  giveBack,
  openQueues,
  returnExpired,
  type Lease,
  type OutboxScope,
} from '../../../shared/store/outbox.ts'
import { JsonRecords, maxPageBytes, type PageCall } from '../../api/json-page.ts'
import { FairSemaphore, refusalDelayMs } from '../../api/fair-semaphore.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { composeMessages } from './messages.ts'
import type { Taking } from './schemas.ts'

export const outboxScope = (caller: Caller): OutboxScope =>
  caller.role === 'system_admin' ? 'all' : { organizationId: caller.organizationId }

/**
 * An organization takes one after the other, as side by side all would claim the same first messages. Several
 * organizations take at once.
 */
const slots = new FairSemaphore({
  maxRunning: 4,
  maxRunningPerOrganization: 1,
  maxWaitingPerOrganization: 50,
  tooMany: {
    message: 'too many requests of this organization take messages, try again in 5 s',
    retryAfterSeconds: 5,
    delayMs: refusalDelayMs,
  },
  stoppingMessage: 'the service is stopping and took no message: try again',
})

/** Time budget of one call. It may return fewer messages than asked for when many had to be dropped on the way. */
const timeBudgetMs = { withSome: 5_000, withNone: 20_000 }

/** Messages for a mail sender, in order of `due_at`, which are nobody else's until the lease ends. */
export function takeMessages(call: PageCall, asked: Taking): Promise<JsonRecords> {
  const { deps, caller, clientGone } = call
  const { organizationId } = caller
  return slots.run({ organizationId, stopping: deps.stopping, clientGone }, async () => {
    // Before: messages that were taken and can't be sent would wait for the end of their lease.
    await call.acquireLargeReply(maxPageBytes)
    return takeWithSlot(deps, outboxScope(caller), asked, clientGone)
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
  const taken: Message[] = []
  let bytes = 0
  let atOnce = firstAtOnce
  await returnExpired(collections, scope)
  while (taken.length < limit && !clientGone.aborted) {
    const budgetMs = taken.length === 0 ? timeBudgetMs.withNone : timeBudgetMs.withSome
    if (clock.monotonicMs() - startedAt > budgetMs) break
    const beginnings = await openQueues(collections, scope)
    const claimed = await claimMessages(collections, beginnings, {
      limit: Math.min(limit - taken.length, atOnce),
      lease,
    })
    if (claimed === null) break
    const { toHandOut, toGiveBack, toDrop } = await composing(collections, claimed, lease, () =>
      composeMessages(deps, claimed),
    )
    const fitting = toHandOut
      .map((view) => ({ id: view.id, text: JSON.stringify(view) }))
      .filter(({ text }, i) => {
        bytes += Buffer.byteLength(text)
        return bytes <= maxPageBytes || (i === 0 && taken.length === 0)
      })
    taken.push(...fitting)
    const fit = new Set(fitting.map(({ id }) => id))
    const tooMany = new Set(toHandOut.map(({ id }) => id).filter((id) => !fit.has(id)))
    await giveBack(collections, [...toGiveBack, ...claimed.filter(({ _id }) => tooMany.has(_id))], lease)
    await dropMessages(collections, toDrop, lease)
    if (tooMany.size > 0 || bytes >= maxPageBytes) break
    atOnce =
      taken.length === 0
        ? Math.min(4 * atOnce, maxAtOnceUnread)
        : Math.max(1, Math.floor((maxPageBytes - bytes) / (bytes / taken.length)))
  }
  // No sender has them: the next one need not wait for the end of their lease.
  if (clientGone.aborted)
    await giveBack(
      collections,
      taken.map(({ id }) => ({ _id: id })),
      lease,
    )
  return new JsonRecords(taken.map(({ text }) => text))
}

interface Message {
  id: number
  text: string
}

/** Each message may have an autoresponder of a megabyte of its own. How many more fit is known when some are there. */
const firstAtOnce = 32
/** As long as all of them had to be dropped. */
const maxAtOnceUnread = 128

/** What can't be composed is there for the next who takes. */
async function composing<T>(
  collections: Collections,
  claimed: readonly OutboxDocument[],
  lease: Lease,
  compose: () => Promise<T>,
): Promise<T> {
  try {
    return await compose()
  } catch (error) {
    await giveBack(collections, claimed, lease)
    throw error
  }
}
