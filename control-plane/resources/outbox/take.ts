import { randomBytes } from 'node:crypto'
import type { Caller } from '../../../shared/api-keys.ts'
import { clock } from '../../../shared/clock.ts'
import type { Database } from '../../../shared/database.ts'
import type { Collections } from '../../../shared/schemas/collections.ts'
import type { OutboxDocument } from '../../../shared/schemas/outbox.ts'
import {
  claimMessages,
  dropMessages,
  giveBack,
  openQueues,
  returnExpired,
  type Lease,
  type OutboxScope,
} from '../../../shared/store/outbox.ts'
import { TurnQueue } from '../../../shared/turn-queue.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { composeMessages } from './messages.ts'
import type { MessageView, Taking } from './schemas.ts'

export const outboxScope = (caller: Caller): OutboxScope =>
  caller.role === 'system_admin' ? 'all' : { organizationId: caller.organizationId }

/** Who takes in this process takes in turn: side by side all would reach for the same first messages. */
const turns = new TurnQueue<Database>()

/** After so long it ends, though more may be there: many had to be dropped on the way to what was taken, if any was. */
const patienceMs = { withSome: 5_000, withNone: 20_000 }

/** Messages for a mail sender, in order of `due_at`, which are nobody else's until the lease ends. */
export function takeMessages(deps: ControlPlane, caller: Caller, asked: Taking): Promise<MessageView[]> {
  return turns.take(deps.database, () => takeInTurn(deps, caller, asked))
}

async function takeInTurn(
  deps: ControlPlane,
  caller: Caller,
  { limit, lease_seconds: seconds }: Taking,
): Promise<MessageView[]> {
  const { database } = deps
  const { collections } = database
  const lease: Lease = { token: randomBytes(16).toString('base64url'), seconds }
  const startedAt = clock.monotonicMs()
  const taken: MessageView[] = []
  let bytes = 0
  await returnExpired(collections)
  while (taken.length < limit) {
    const patience = taken.length === 0 ? patienceMs.withNone : patienceMs.withSome
    if (clock.monotonicMs() - startedAt > patience) break
    const beginnings = await openQueues(collections, outboxScope(caller))
    const claimed = await claimMessages(collections, beginnings, { limit: limit - taken.length, lease })
    if (claimed === null) break
    const { toHandOut, toGiveBack, toDrop } = await composing(collections, claimed, lease, () =>
      composeMessages(deps, claimed),
    )
    const fitting = toHandOut.filter((view, i) => {
      bytes += bytesOf(view)
      return bytes <= mostBytes || (i === 0 && taken.length === 0)
    })
    taken.push(...fitting)
    const fit = new Set(fitting.map(({ id }) => id))
    const tooMany = new Set(toHandOut.map(({ id }) => id).filter((id) => !fit.has(id)))
    await giveBack(collections, [...toGiveBack, ...claimed.filter(({ _id }) => tooMany.has(_id))], lease)
    await dropMessages(collections, toDrop, lease)
    if (tooMany.size > 0) break
  }
  return taken
}

/** Of a reply: its texts as JSON may be six times as long, and a text can't be longer than half a gigabyte. */
const mostBytes = 32 * 1024 * 1024

const bytesOf = ({ html, text }: MessageView): number => 2_000 + (html?.length ?? 0) + (text?.length ?? 0)

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
