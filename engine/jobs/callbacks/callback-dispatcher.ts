import { randomUUID } from 'node:crypto'
import { databaseTime } from '../../../shared/runtime/database.ts'
import { errorMessage } from '../../../shared/contract/errors.ts'
import { within } from '../../../shared/runtime/within.ts'
import {
  queueHost,
  queueOrganization,
  type CallbackDocument,
} from '../../../shared/contract/schemas/callback.ts'
import { claimCallback, markDelivered, recordFailure, releaseCallback } from '../../store/callbacks.ts'
import { readBeginnings, waitingCallbacks, type QueueBeginning } from '../../../shared/store/due-queues.ts'
import { isLeadingEngine } from '../../store/engines.ts'
import { CannotUnseal, dropSecrets, openSecrets } from '../../../shared/store/secrets.ts'
import { PollLoop, untilDue } from '../../scheduler/poll-loop.ts'
import type { StepContext } from '../../scheduler/step.ts'
import { mayTakeSlot } from '../../scheduler/slots.ts'
import type { CallbackBounds } from './callback-bounds.ts'
import type { SendResult } from './send-callback.ts'

interface CallbackDispatcherOptions extends Pick<
  StepContext,
  'database' | 'folder' | 'secrets' | 'guard' | 'metrics' | 'log'
> {
  engineId: string
  bounds: CallbackBounds
}

/** Bounds the cost while callbacks end and begin, because each poll reads the beginnings of all queues. */
const minPauseMs = 25
/** A stop waits this time for answers, then aborts the attempts. */
const graceMs = 2_000
/** Time for the release of the aborted attempts. */
const releaseGraceMs = 1_000

interface Attempt {
  queue: string
  ended: Promise<void>
}

/**
 * Sends the callbacks that are due. Only the leading engine, that with the smallest number, does so, so that the bounds
 * hold whatever the number of engines. The others check once a second whether they lead. Where two believe that they
 * lead, each callback still has one lease.
 *
 * Callbacks are queued by organization and host. A slot goes to the organization with the fewest attempts in flight,
 * and none has more slots than are left free (slots.ts). Neither receivers that hang nor ten thousand imports that end
 * at once delay another organization's callbacks.
 */
export class CallbackDispatcher extends PollLoop {
  readonly #options: CallbackDispatcherOptions
  readonly #attempts = new Set<Attempt>()
  readonly #abort = new AbortController()

  constructor(options: CallbackDispatcherOptions) {
    const { database, engineId, folder, log } = options
    super({
      problem: "callbacks can't be read",
      // The key of the callbacks' secrets may lie in the folder.
      isLeader: async () =>
        folder.problem === null && (await isLeadingEngine(database.collections, engineId)),
      minPauseMs,
      log,
    })
    this.#options = options
  }

  /** Begins no more attempts, and releases the callbacks that aren't answered in time. */
  override async stop(): Promise<void> {
    const ended = Promise.all([super.stop(), ...[...this.#attempts].map((attempt) => attempt.ended)])
    await within(graceMs, ended, undefined)
    this.#abort.abort()
    await within(releaseGraceMs, ended, undefined)
  }

  /** Begins attempts of callbacks that are due while there are slots. */
  protected override async poll(): Promise<number> {
    const { database } = this.#options
    const [now, beginnings] = await Promise.all([
      databaseTime(database.db),
      readBeginnings<CallbackDocument, string>(waitingCallbacks(database.collections)),
    ])
    const open = beginnings.filter(({ dueAt }) => dueAt <= now)
    while (!this.isStopped) {
      const next = this.#nextQueue(open)
      if (next === undefined) break
      if (!(await this.#begin(next.queue, now))) open.splice(open.indexOf(next), 1)
    }
    return untilDue(beginnings, now)
  }

  /** The next queue with a free slot: of the organization with the fewest attempts, and there the earliest due. */
  #nextQueue(open: readonly QueueBeginning<string>[]): QueueBeginning<string> | undefined {
    const { maxInFlight, maxInFlightOfHost, maxInFlightOfOrganization } = this.#options.bounds
    const hosts = new Map<string, number>()
    const organizations = new Map<number, number>()
    for (const { queue } of this.#attempts) {
      count(hosts, queueHost(queue))
      count(organizations, queueOrganization(queue))
    }
    const slots = {
      total: maxInFlight,
      taken: this.#attempts.size,
      maxPerOrganization: maxInFlightOfOrganization,
    }
    const attempts = ({ queue }: QueueBeginning<string>) => organizations.get(queueOrganization(queue)) ?? 0
    return open
      .filter((beginning) => mayTakeSlot({ ...slots, takenByOrganization: attempts(beginning) }))
      .filter(({ queue }) => (hosts.get(queueHost(queue)) ?? 0) < maxInFlightOfHost)
      .reduce<QueueBeginning<string> | undefined>(
        (best, each) => (best === undefined || attempts(each) < attempts(best) ? each : best),
        undefined,
      )
  }

  async #begin(queue: string, until: Date): Promise<boolean> {
    const { database, bounds, log } = this.#options
    const token = randomUUID()
    const claim = { until, token, leaseMs: bounds.leaseMs }
    const callback = await claimCallback(database.collections, queue, claim)
    if (callback === null) return false
    const ended = this.#attempt(callback, token)
      .catch((error: unknown) => {
        log.warn(
          { import_id: callback._id },
          `the result of a callback couldn't be stored, so the callback is sent again when its lease expires: ${errorMessage(error)}`,
        )
      })
      .finally(() => {
        this.#attempts.delete(entry)
        this.wake()
      })
    const entry: Attempt = { queue, ended }
    this.#attempts.add(entry)
    return true
  }

  async #attempt(callback: CallbackDocument, token: string): Promise<void> {
    const { database, bounds, metrics, log } = this.#options
    const { collections } = database
    const lease = { importId: callback._id, token }
    const sent = await this.#send(callback)
    if (sent === null) {
      await releaseCallback(collections, lease)
      return
    }
    metrics.callbackAttempt(sent.result)
    const fields = { import_id: callback._id, attempt: callback.failures + 1 }
    if (sent.result === 'delivered') {
      await markDelivered(collections, lease)
      log.info(fields, 'callback delivered')
      await this.#dropSecrets(callback)
      return
    }
    const { problem } = sent
    const waitMs = bounds.retryAfterMs[callback.failures] ?? null
    if (!(await recordFailure(collections, lease, { problem, waitMs }))) return
    if (waitMs === null) metrics.callbackGivenUp()
    const next = waitMs === null ? 'given up' : `tried again in ${waitMs / 1000} s`
    // Only the host is logged, because paths and queries of such URLs contain the receivers' tokens.
    log.warn({ ...fields, host: queueHost(callback.queue) }, `a callback failed and is ${next}: ${problem}`)
    if (waitMs === null) await this.#dropSecrets(callback)
  }

  /** Null when the stop has aborted it. Throws the database's errors. */
  async #send({ _id, webhook_id: id, body, tried_at: sentAt }: CallbackDocument): Promise<SendResult | null> {
    const { database, secrets, guard, bounds } = this.#options
    const document = await database.collections.imports.findOne(
      { _id },
      { projection: { source: 1, callback: 1, sealed: 1 } },
    )
    const failed = (problem: string): SendResult => ({ result: 'failed', problem })
    try {
      const callback = document === null ? null : (await openSecrets(document, secrets)).callback
      if (callback === null) return failed('its URL and its secret are gone: it had ended already')
      const webhook = { ...callback, id, body, sentAt: sentAt! }
      // Loading the HTTP client is left to the first callback, as few installations use callbacks.
      const { sendCallback } = await import('./send-callback.ts')
      return await sendCallback(webhook, { guard, bounds, signal: this.#abort.signal })
    } catch (error) {
      if (!(error instanceof CannotUnseal)) return null
      return failed(`its URL and its secret can't be decrypted: ${error.message}`)
    }
  }

  /** Maintenance tries again what fails here. */
  async #dropSecrets({ _id }: CallbackDocument): Promise<void> {
    await dropSecrets(this.#options.database.collections, _id).catch(() => undefined)
  }
}

const count = <Key>(counts: Map<Key, number>, key: Key): void => {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}
