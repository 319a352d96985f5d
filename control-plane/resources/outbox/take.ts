import { randomBytes } from 'node:crypto'
import type { Caller } from '../../../shared/api-keys.ts'
import { clock } from '../../../shared/clock.ts'
import type { Database } from '../../../shared/database.ts'
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
  await returnExpired(collections)
  while (taken.length < limit) {
    const patience = taken.length === 0 ? patienceMs.withNone : patienceMs.withSome
    if (clock.monotonicMs() - startedAt > patience) break
    const beginnings = await openQueues(collections, outboxScope(caller))
    const claimed = await claimMessages(collections, beginnings, { limit: limit - taken.length, lease })
    if (claimed === null) break
    const { toHandOut, toGiveBack, toDrop } = await composeMessages(deps, caller, claimed)
    taken.push(...toHandOut)
    await giveBack(collections, toGiveBack, lease)
    await dropMessages(collections, toDrop, lease)
  }
  return taken
}
