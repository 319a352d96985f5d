import { setTimeout as sleep } from 'node:timers/promises'
import type { ClientSession } from 'mongodb'
import { databaseTime, type Database } from '../../../shared/runtime/database.ts'
import type { Logger } from '../../../shared/runtime/logger.ts'
import {
  queuedReactions,
  readBeginnings,
  readDue,
  type QueueBeginning,
} from '../../../shared/store/due-queues.ts'
import { leadingEngine } from '../../store/engines.ts'
import { PollLoop, pollIntervalMs, untilDue } from '../../scheduler/poll-loop.ts'
import type { EngineMetrics } from '../../metrics.ts'
import { dropReactions, dueReactionFields, moveReactions, type DueReaction } from './move-reactions.ts'

export interface ReactionDispatcherOptions {
  engineId: string
  database: Database
  /** One for each transaction that runs at once. */
  sessions: readonly ClientSession[]
  metrics: EngineMetrics
  log: Logger
}

/** As `hasContent` has it, without reading a megabyte of mail. */
const someContent = {
  $or: ['$content_html', '$content_text'].map((content) => ({
    $regexMatch: { input: { $ifNull: [content, ''] }, regex: String.raw`\S` },
  })),
}

/** Transactions at once: each one keeps one thread of the server busy. */
export const reactionLanes = 4
const perTransaction = 1_000
const perRound = 2 * reactionLanes * perTransaction
/** How long a stop waits for the transactions under way. */
const graceMs = 2_000

/**
 * Moves reactions that are due into the outbox. One engine does it, that with the smallest number; the others look once
 * a second whether it has become them. Two that think so at once do no harm, as a reaction moves from `queued` once.
 *
 * It sleeps until the next one is due, or a second, or until the bell rings: that is how it hears of reactions that
 * were queued meanwhile. Nothing is kept from one poll to the next.
 *
 * Order: within an organization by due time, in rounds of up to `perRound`: a message is in the outbox before those of
 * a later round. Organizations take turns, so that one's million doesn't hold up the other's welcome mail.
 */
export class ReactionDispatcher {
  readonly #options: ReactionDispatcherOptions
  readonly #loop: PollLoop
  /** Organizations whose turn was last, latest last. */
  #served: number[] = []
  /** Autoresponders of the queues of this poll that have no mail to send. */
  #withoutContent = new Set<number>()

  constructor(options: ReactionDispatcherOptions) {
    this.#options = options
    this.#loop = new PollLoop({
      poll: () => this.#poll(),
      problem: "reactions can't be moved into the outbox",
      log: options.log,
    })
  }

  start(): void {
    this.#loop.start()
  }

  /** Something may have become due: the next poll begins now. */
  get wake(): () => void {
    return this.#loop.wake
  }

  async stop(): Promise<void> {
    this.#loop.stop()
    await Promise.race([this.#loop.ended, sleep(graceMs, undefined, { ref: false })])
  }

  /** One round. Resolves to how many milliseconds there is nothing to do. */
  async #poll(): Promise<number> {
    const { database, engineId, metrics } = this.#options
    if ((await leadingEngine(database.collections)) !== engineId) {
      metrics.reactionLag = 0
      return pollIntervalMs
    }
    const [now, beginnings] = await Promise.all([
      databaseTime(database.db),
      readBeginnings(queuedReactions(database.collections)),
    ])
    const due = beginnings.filter(({ dueAt }) => dueAt <= now)
    const open = await this.#openQueues(due)
    const first = [...open.values()]
      .flat()
      .reduce((min, { dueAt }) => Math.min(min, dueAt.getTime()), Infinity)
    metrics.reactionLag = first === Infinity ? 0 : (now.getTime() - first) / 1000
    if (open.size > 0) {
      const moved = await this.#move(await this.#readRound(open, now))
      // None: others move them, or they were dropped.
      return moved > 0 ? 0 : pollIntervalMs
    }
    return untilDue(beginnings, now)
  }

  /** Queues of autoresponders that aren't paused, by organization; whose turn was longest ago comes first. */
  async #openQueues(due: readonly QueueBeginning[]): Promise<Map<number, QueueBeginning[]>> {
    if (due.length === 0) return new Map()
    const running = (await this.#options.database.collections.autoresponders
      .find(
        { _id: { $in: due.map(({ queue }) => queue) }, paused: false },
        { projection: { organization_id: 1, has_content: someContent } },
      )
      .toArray()) as unknown as { _id: number; organization_id: number; has_content: boolean }[]
    this.#withoutContent = new Set(running.filter((one) => !one.has_content).map(({ _id }) => _id))
    const organizationOf = new Map(running.map(({ _id, organization_id }) => [_id, organization_id]))
    const open = new Map<number, QueueBeginning[]>()
    for (const beginning of due) {
      const organizationId = organizationOf.get(beginning.queue)
      if (organizationId === undefined) continue
      const known = open.get(organizationId)
      if (known === undefined) open.set(organizationId, [beginning])
      else known.push(beginning)
    }
    this.#served = this.#served.filter((id) => open.has(id))
    return new Map([...open].sort(([a], [b]) => this.#served.indexOf(a) - this.#served.indexOf(b)))
  }

  /** What this round moves, in transactions: all of one organization, or a transaction each of several. */
  async #readRound(open: Map<number, QueueBeginning[]>, now: Date): Promise<DueReaction[][]> {
    const queues = queuedReactions(this.#options.database.collections)
    const turns = [...open].slice(0, perRound / perTransaction)
    const limit = Math.floor(perRound / turns.length / perTransaction) * perTransaction
    const found = await Promise.all(
      turns.map(([, beginnings]) =>
        readDue(queues, beginnings, { until: now, limit, projection: dueReactionFields }),
      ),
    )
    const served = turns.map(([organizationId]) => organizationId)
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
    // All of them end before the next round: a session has one transaction at a time.
    const ends = await Promise.allSettled(
      sessions.map(async (session) => {
        for (const reactions of waiting) {
          if (this.#loop.isStopped) return
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
