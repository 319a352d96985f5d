import {
  queueHost,
  queueOrganization,
  type CallbackDocument,
} from '../../../shared/contract/schemas/callback.ts'
import type { AddressGuard } from '../../../shared/net/address-guard.ts'
import { databaseTime } from '../../../shared/runtime/database.ts'
import { readBeginnings, waitingCallbacks } from '../../../shared/store/due-queues.ts'
import { CannotUnseal, dropSecrets, openSecrets } from '../../../shared/store/secrets.ts'
import type { EngineParts } from '../../engine-parts.ts'
import { PollLoop, pollIntervalMs, restIntervalMs, untilDue, withJitter } from '../../runner/poll-loop.ts'
import { Runner } from '../../runner/runner.ts'
import { claimCallback, markDelivered, recordFailure, releaseCallback } from '../../store/callbacks.ts'
import { isLeadingEngine } from '../../store/engines.ts'
import type { CallbackBounds } from './callback-bounds.ts'
import type { SendResult } from './send-callback.ts'

interface CallbacksOptions extends Pick<EngineParts, 'database' | 'folder' | 'secrets' | 'metrics' | 'log'> {
  engineId: string
  /** Says which addresses callbacks may reach. */
  guard: AddressGuard
  bounds: CallbackBounds
}

/** The callbacks of an organization to one host. */
interface CallbackQueue {
  name: string
  organization_id: number
  /** Callbacks that are due by this time are sent. */
  until: Date
}

/** Bounds the cost while callbacks end and begin, because each poll reads the beginnings of all queues. */
const minPauseMs = 25
/** A stop waits this time for answers, then aborts the attempts. */
const graceMs = 2_000

/**
 * Sends the callbacks that are due. Only the leading engine, that with the smallest number, does so, so that the bounds
 * hold whatever the number of engines. The others check every 10 s whether they lead, and where an engine has ended.
 * Where two believe that they lead, each callback still has one lease.
 *
 * Callbacks are queued by organization and host. Neither receivers that hang nor ten thousand imports that end at once
 * delay another organization's callbacks.
 */
export class Callbacks {
  readonly #options: CallbacksOptions
  readonly #loop: PollLoop
  readonly #runner: Runner<CallbackQueue, CallbackDocument>

  constructor(options: CallbacksOptions) {
    const { database, folder, bounds, log } = options
    this.#options = options
    const poll = () => this.#poll()
    this.#loop = new PollLoop({ poll, problem: "callbacks can't be read", minPauseMs, log })
    this.#runner = new Runner(
      {
        name: 'a callback',
        slots: { atOnce: bounds.maxInFlight, ofOrganization: bounds.maxInFlightOfOrganization },
        keyOf: ({ name }) => name,
        keyName: 'queue',
        // The key of the secrets may lie in the folder.
        mayBegin: () => folder.problem === null,
        open: (queues, running) => this.#withFreeHost(queues, running),
        claim: ({ name, until }, token) =>
          claimCallback(database.collections, name, { until, token, leaseMs: bounds.leaseMs }),
        run: (callback, { token, signal }) => this.#attempt(callback, token, signal),
        graceMs,
      },
      { onDrained: this.wake, log },
    )
  }

  start(): void {
    this.#loop.start()
  }

  readonly wake = (): void => {
    this.#loop.wake()
  }

  /** Begins no more attempts, and releases the callbacks that aren't answered in time. */
  async stop(): Promise<void> {
    await Promise.all([this.#loop.stop(), this.#runner.stop()])
  }

  async #poll(): Promise<number> {
    const { database, folder, engineId, metrics } = this.#options
    const leads = folder.problem === null && (await isLeadingEngine(database.collections, engineId))
    metrics.leads(leads)
    if (!leads) {
      this.#runner.offer([])
      return withJitter(folder.problem === null ? restIntervalMs : pollIntervalMs)
    }
    const beginnings = await readBeginnings<CallbackDocument, string>(waitingCallbacks(database.collections))
    if (beginnings.length === 0) {
      this.#runner.offer([])
      return withJitter(restIntervalMs)
    }
    const now = await databaseTime(database.db)
    const due = beginnings.filter(({ dueAt }) => dueAt <= now)
    this.#runner.offer(
      due.map(({ queue }) => ({ name: queue, organization_id: queueOrganization(queue), until: now })),
    )
    await this.#runner.fill()
    const waitMs = untilDue(beginnings.map(({ dueAt }) => dueAt.getTime() - now.getTime()))
    return due.length > 0 ? Math.min(waitMs, pollIntervalMs) : waitMs
  }

  #withFreeHost(queues: CallbackQueue[], running: CallbackQueue[]): CallbackQueue[] {
    const { maxInFlightOfHost } = this.#options.bounds
    const inFlight = Map.groupBy(running, ({ name }) => queueHost(name))
    return queues.filter(({ name }) => (inFlight.get(queueHost(name))?.length ?? 0) < maxInFlightOfHost)
  }

  /** Where its result can't be stored, the callback is sent again when its lease expires. */
  async #attempt(callback: CallbackDocument, token: string, signal: AbortSignal): Promise<void> {
    const { database, bounds, metrics, log } = this.#options
    const { collections } = database
    const lease = { importId: callback._id, token }
    const sent = await this.#send(callback, signal)
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
  async #send(
    { _id, webhook_id: id, body, tried_at: sentAt }: CallbackDocument,
    signal: AbortSignal,
  ): Promise<SendResult | null> {
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
      return await sendCallback(webhook, { guard, bounds, signal })
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
