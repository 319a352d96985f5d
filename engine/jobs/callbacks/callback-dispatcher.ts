import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { AddressGuard } from '../../../shared/net/address-guard.ts'
import { databaseTime, type Database } from '../../../shared/runtime/database.ts'
import { messageOf } from '../../../shared/contract/errors.ts'
import { openSecrets } from '../../../shared/runtime/import-secrets.ts'
import type { Logger } from '../../../shared/runtime/logger.ts'
import {
  hostOfQueue,
  organizationOfQueue,
  type CallbackDocument,
} from '../../../shared/contract/schemas/callback.ts'
import { NotOpened, type SecretBox } from '../../../shared/runtime/secret-box.ts'
import type { MarkedFolder } from '../../../shared/storage/staging/marked-folder.ts'
import { claimCallback, markDelivered, noteFailure, releaseCallback } from '../../store/callbacks.ts'
import { readBeginnings, waitingCallbacks, type QueueBeginning } from '../../../shared/store/due-queues.ts'
import { leadingEngine } from '../../store/engines.ts'
import { dropSecrets } from '../../../shared/store/import-secrets.ts'
import { PollLoop, pollIntervalMs, untilDue } from '../../scheduler/poll-loop.ts'
import type { EngineMetrics } from '../../metrics.ts'
import { mayTakeSlot } from '../../scheduler/slots.ts'
import type { CallbackBounds } from './callback-bounds.ts'
import { sendCallback, type SendResult } from './send-callback.ts'

export interface CallbackDispatcherOptions {
  engineId: string
  database: Database
  folder: MarkedFolder
  secrets: SecretBox
  guard: AddressGuard
  bounds: CallbackBounds
  metrics: EngineMetrics
  log: Logger
}

/** Between two polls while callbacks end and begin, as each poll reads the beginnings of all queues. */
const minPauseMs = 25
/** How long a stop waits for answers before it gives the callbacks back. */
const graceMs = 2_000
const breakOffMs = 1_000

interface Try {
  queue: string
  ended: Promise<void>
}

/**
 * Sends the callbacks that are due. Only the leading engine, that with the smallest number, does so: a host sees no more
 * of them at once, whatever the number of engines. The others check once a second whether they lead. Where two believe
 * so, each callback still has one lease.
 *
 * Callbacks wait in line by organization and host. A slot goes to the organization that has the fewest, and none takes
 * more than are free: neither receivers that hang nor ten thousand imports that end at once delay another's callbacks.
 */
export class CallbackDispatcher {
  readonly #options: CallbackDispatcherOptions
  readonly #tries = new Set<Try>()
  readonly #broken = new AbortController()
  readonly #loop: PollLoop

  constructor(options: CallbackDispatcherOptions) {
    this.#options = options
    this.#loop = new PollLoop({
      poll: () => this.#poll(),
      problem: "callbacks can't be looked for",
      log: options.log,
      minPauseMs,
    })
  }

  start(): void {
    this.#loop.start()
  }

  /** Something may be due, or a slot is free: the next poll begins now. */
  get wake(): () => void {
    return this.#loop.wake
  }

  /** Begins no more tries, and gives back those that aren't answered in time. */
  async stop(): Promise<void> {
    this.#loop.stop()
    const ended = Promise.all([this.#loop.ended, ...[...this.#tries].map((each) => each.ended)])
    await Promise.race([ended, sleep(graceMs, undefined, { ref: false })])
    this.#broken.abort()
    await Promise.race([ended, sleep(breakOffMs, undefined, { ref: false })])
  }

  /** Begins what is due while there are slots. Resolves to how many milliseconds nothing will be due. */
  async #poll(): Promise<number> {
    const { database, engineId, folder } = this.#options
    // The key of their secrets may be there.
    if (folder.problem !== null) return pollIntervalMs
    if ((await leadingEngine(database.collections)) !== engineId) return pollIntervalMs
    const [now, beginnings] = await Promise.all([
      databaseTime(database.db),
      readBeginnings<CallbackDocument, string>(waitingCallbacks(database.collections)),
    ])
    const open = beginnings.filter(({ dueAt }) => dueAt <= now)
    while (!this.#loop.isStopped) {
      const next = this.#nextOf(open)
      if (next === undefined) break
      if (!(await this.#begin(next.queue, now))) open.splice(open.indexOf(next), 1)
    }
    return untilDue(beginnings, now)
  }

  /** The queue whose turn it is: of the organization with the fewest tries, among those the one that waits longest. */
  #nextOf(open: readonly QueueBeginning<string>[]): QueueBeginning<string> | undefined {
    const { atOnce, atOnceOfHost, atOnceOfOrganization } = this.#options.bounds
    const hosts = new Map<string, number>()
    const organizations = new Map<number, number>()
    for (const { queue } of this.#tries) {
      count(hosts, hostOfQueue(queue))
      count(organizations, organizationOfQueue(queue))
    }
    const slots = { total: atOnce, taken: this.#tries.size, maxPerOrganization: atOnceOfOrganization }
    const triesOf = ({ queue }: QueueBeginning<string>) => organizations.get(organizationOfQueue(queue)) ?? 0
    return open
      .filter((beginning) => mayTakeSlot({ ...slots, takenByOrganization: triesOf(beginning) }))
      .filter(({ queue }) => (hosts.get(hostOfQueue(queue)) ?? 0) < atOnceOfHost)
      .reduce<QueueBeginning<string> | undefined>(
        (best, each) => (best === undefined || triesOf(each) < triesOf(best) ? each : best),
        undefined,
      )
  }

  async #begin(queue: string, until: Date): Promise<boolean> {
    const { database, bounds, log } = this.#options
    const token = randomUUID()
    const claim = { until, token, leaseMs: bounds.leaseMs }
    const callback = await claimCallback(database.collections, queue, claim)
    if (callback === null) return false
    const ended = this.#try(callback, token)
      .catch((error: unknown) => {
        log.warn(
          { import_id: callback._id },
          `what became of a callback couldn't be noted, it is sent again when its lease runs out: ${messageOf(error)}`,
        )
      })
      .finally(() => {
        this.#tries.delete(entry)
        this.wake()
      })
    const entry: Try = { queue, ended }
    this.#tries.add(entry)
    return true
  }

  async #try(callback: CallbackDocument, token: string): Promise<void> {
    const { database, bounds, metrics, log } = this.#options
    const { collections } = database
    const lease = { importId: callback._id, token }
    const sent = await this.#send(callback)
    if (sent === null) {
      await releaseCallback(collections, lease)
      return
    }
    metrics.callbackAttempt(sent.result)
    const facts = { import_id: callback._id, attempt: callback.failures + 1 }
    if (sent.result === 'delivered') {
      await markDelivered(collections, lease)
      log.info(facts, 'callback delivered')
      await this.#dropSecrets(callback)
      return
    }
    const { problem } = sent
    const waitMs = bounds.retryAfterMs[callback.failures] ?? null
    if (!(await noteFailure(collections, lease, { problem, waitMs }))) return
    if (waitMs === null) metrics.callbackGivenUp()
    const next = waitMs === null ? 'given up' : `tried again in ${waitMs / 1000} s`
    // Paths and queries of such URLs hold their receivers' tokens.
    log.warn({ ...facts, host: hostOfQueue(callback.queue) }, `a callback failed and is ${next}: ${problem}`)
    if (waitMs === null) await this.#dropSecrets(callback)
  }

  /** Null when the stop has broken it off. Throws the database's errors. */
  async #send({ _id, webhook_id: id, body, tried_at: sentAt }: CallbackDocument): Promise<SendResult | null> {
    const { database, secrets, guard, bounds } = this.#options
    const document = await database.collections.imports.findOne(
      { _id },
      { projection: { source: 1, callback: 1, sealed: 1 } },
    )
    const failed = (problem: string): SendResult => ({ result: 'failed', problem })
    try {
      const { callback } = await openSecrets(document!, secrets)
      if (callback === null) return failed('its URL and its secret were dropped when it had ended')
      const webhook = { ...callback, id, body, sentAt: sentAt! }
      return await sendCallback(webhook, { guard, bounds, signal: this.#broken.signal })
    } catch (error) {
      if (!(error instanceof NotOpened)) return null
      return failed(`its URL and its secret can't be decrypted: ${error.message}`)
    }
  }

  /** What fails here, maintenance does again. */
  async #dropSecrets({ _id }: CallbackDocument): Promise<void> {
    await dropSecrets(this.#options.database.collections, _id).catch(() => undefined)
  }
}

const count = <Key>(counts: Map<Key, number>, key: Key): void => {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}
