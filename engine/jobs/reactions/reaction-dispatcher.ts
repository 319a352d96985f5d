import type { ClientSession } from 'mongodb'
import { databaseTime } from '../../../shared/runtime/database.ts'
import {
  queuedReactions,
  readBeginnings,
  readDue,
  type QueueBeginning,
} from '../../../shared/store/due-queues.ts'
import { isLeadingEngine } from '../../store/engines.ts'
import { PollLoop, pollIntervalMs, untilDue } from '../../scheduler/poll-loop.ts'
import type { StepContext } from '../../scheduler/step.ts'
import {
  dropReactions,
  dueReactionFields,
  moveReactions,
  type DueReaction,
} from '../../store/due-reactions.ts'

interface ReactionDispatcherOptions extends Pick<StepContext, 'database' | 'staging' | 'metrics' | 'log'> {
  engineId: string
  /** One for each of the transactions that run at once. */
  sessions: readonly ClientSession[]
}

/** `hasContent` of contract/schemas/autoresponder.ts as an expression, so that a megabyte of mail isn't read. */
const someContent = {
  $or: ['$content_html', '$content_text'].map((content) => ({
    $regexMatch: { input: { $ifNull: [content, ''] }, regex: String.raw`\S` },
  })),
}

/** Transactions at once. Each one keeps one thread of the server busy. */
export const reactionLanes = 4
const perTransaction = 1_000
const perRound = 2 * reactionLanes * perTransaction
/** A stop waits this time for the transactions in flight. */
const graceMs = 2_000

/**
 * Moves due reactions into the outbox. Only the leading engine, that with the smallest number, does so. Two engines
 * that believe they lead do no harm, because a reaction leaves the state `queued` only once.
 *
 * It sleeps until the next reaction is due, for a second at most; a wake-up tells it of reactions queued meanwhile.
 * While the disk is full it moves none.
 *
 * Order: within an organization by due time, in rounds of up to `perRound`. A message is in the outbox before those of
 * later rounds. Organizations are served round-robin, so that a million reactions of one don't delay the welcome mail
 * of another.
 */
export class ReactionDispatcher extends PollLoop {
  readonly #options: ReactionDispatcherOptions
  /** Organizations in the order in which they were served, the latest last. */
  #served: number[] = []
  /** Ids of this poll's autoresponders without content: their reactions are dropped. */
  #withoutContent = new Set<number>()

  constructor(options: ReactionDispatcherOptions) {
    const { database, engineId, metrics, log } = options
    super({
      problem: "reactions can't be moved into the outbox",
      isLeader: async () => {
        const isLeading = await isLeadingEngine(database.collections, engineId)
        if (!isLeading) metrics.reactionLag = 0
        return isLeading
      },
      graceMs,
      log,
    })
    this.#options = options
  }

  /** Moves one round. */
  protected override async poll(): Promise<number> {
    const { database, staging, metrics } = this.#options
    const [now, beginnings, spaceProblem] = await Promise.all([
      databaseTime(database.db),
      readBeginnings(queuedReactions(database.collections)),
      staging.spaceProblem(),
    ])
    const due = beginnings.filter(({ dueAt }) => dueAt <= now)
    const open = await this.#listOpenQueues(due)
    const first = [...open.values()]
      .flat()
      .reduce((min, { dueAt }) => Math.min(min, dueAt.getTime()), Infinity)
    metrics.reactionLag = first === Infinity ? 0 : (now.getTime() - first) / 1000
    if (open.size > 0 && spaceProblem === null) {
      const moved = await this.#move(await this.#readRound(open, now))
      // When none was moved, another engine moves them or they were dropped.
      return moved > 0 ? 0 : pollIntervalMs
    }
    return untilDue(beginnings, now)
  }

  /**
   * Queues of autoresponders that aren't paused, by organization. The least recently served organization comes first.
   */
  async #listOpenQueues(due: readonly QueueBeginning[]): Promise<Map<number, QueueBeginning[]>> {
    if (due.length === 0) return new Map()
    const running = await this.#options.database.collections.autoresponders
      .find<{ _id: number; organization_id: number; has_content: boolean }>(
        { _id: { $in: due.map(({ queue }) => queue) }, paused: false },
        { projection: { organization_id: 1, has_content: someContent } },
      )
      .toArray()
    this.#withoutContent = new Set(running.filter((each) => !each.has_content).map(({ _id }) => _id))
    const organizationIds = new Map(running.map(({ _id, organization_id }) => [_id, organization_id]))
    const openQueues = due.filter(({ queue }) => organizationIds.has(queue))
    const open = Map.groupBy(openQueues, ({ queue }) => organizationIds.get(queue)!)
    this.#served = this.#served.filter((id) => open.has(id))
    return new Map([...open].sort(([a], [b]) => this.#served.indexOf(a) - this.#served.indexOf(b)))
  }

  /** The reactions that this round moves, cut into transactions, each with reactions of one organization. */
  async #readRound(open: Map<number, QueueBeginning[]>, now: Date): Promise<DueReaction[][]> {
    const queues = queuedReactions(this.#options.database.collections)
    const organizations = [...open].slice(0, perRound / perTransaction)
    const limit = Math.floor(perRound / organizations.length / perTransaction) * perTransaction
    const found = await Promise.all(
      organizations.map(([, beginnings]) =>
        readDue(queues, beginnings, { until: now, limit, projection: dueReactionFields }),
      ),
    )
    const served = organizations.map(([organizationId]) => organizationId)
    this.#served = [...this.#served.filter((id) => !served.includes(id)), ...served]
    return found.flatMap((reactions) => {
      const transactions: DueReaction[][] = []
      for (let i = 0; i < reactions.length; i += perTransaction)
        transactions.push(reactions.slice(i, i + perTransaction))
      return transactions
    })
  }

  async #move(transactions: DueReaction[][]): Promise<number> {
    const { database, sessions, metrics } = this.#options
    const waiting = transactions.values()
    let total = 0
    // The next round waits for all of them, because a session has one transaction at a time.
    const ends = await Promise.allSettled(
      sessions.map(async (session) => {
        for (const reactions of waiting) {
          if (this.isStopped) return
          const isDropped = ({ autoresponder_id: id }: DueReaction) => this.#withoutContent.has(id)
          total += await dropReactions(database, reactions.filter(isDropped))
          const toMove = reactions.filter((reaction) => !isDropped(reaction))
          if (toMove.length === 0) continue
          const moved = await moveReactions(database, session, toMove)
          metrics.reactionsMoved(moved)
          total += moved
        }
      }),
    )
    const failed = ends.find((end) => end.status === 'rejected')
    if (failed !== undefined) throw failed.reason
    return total
  }
}
