import type { Registry } from 'prom-client'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import { clock } from '../../../shared/runtime/clock.ts'
import type { Logger } from '../../../shared/runtime/logger.ts'
import type { Part } from '../../../shared/runtime/service.ts'
import { within } from '../../../shared/runtime/within.ts'
import {
  createTransferMetrics,
  type TransferMetrics,
} from '../../../shared/storage/uploads/transfer-metrics.ts'
import { KeyWatch, type KeyWatched } from '../../../shared/processes/key-watch.ts'
import type { KeyHolder } from '../../../shared/store/api-keys.ts'
import { RequestError } from '../../api/request-error.ts'

/** At a stop, for the last writes of transfers whose connections were closed. */
const stopMs = 1_000

/** The uploads and downloads in progress. They are counted in the metrics, and end with the API key that began them. */
export class Transfers implements Part {
  readonly #inProgress = new Set<Transfer>()
  readonly #metrics: TransferMetrics
  readonly #keyWatch: KeyWatch

  constructor({ collections, registry, log }: { collections: Collections; registry: Registry; log: Logger }) {
    this.#metrics = createTransferMetrics(registry, ['http'])
    this.#keyWatch = new KeyWatch({ watched: this.#inProgress, collections, log })
  }

  /** `end` must be called on the result. */
  begin(account: KeyHolder, direction: 'in' | 'out'): Transfer {
    const transfer = new Transfer(account, direction, this.#metrics)
    this.#inProgress.add(transfer)
    void transfer.ended.then(() => this.#inProgress.delete(transfer))
    return transfer
  }

  /** The HTTP server has stopped before. What is unfinished stays, and clients can resume it. */
  async stop(): Promise<void> {
    await this.#keyWatch.stop()
    await within(stopMs, Promise.all([...this.#inProgress].map(({ ended }) => ended)), [])
  }
}

export class Transfer implements KeyWatched {
  readonly account: KeyHolder
  readonly #direction: 'in' | 'out'
  readonly #metrics: TransferMetrics
  readonly #startedAt = clock.monotonicMs()
  readonly #revoked = new AbortController()
  readonly #ended = Promise.withResolvers<null>()
  #result: 'refused' | 'broken_off' | 'done' = 'refused'
  #bytes = 0

  constructor(account: KeyHolder, direction: 'in' | 'out', metrics: TransferMetrics) {
    this.account = account
    this.#direction = direction
    this.#metrics = metrics
    metrics.begun('http', direction)
  }

  /** Aborted with the refusal when the API key may no longer upload, or got another role or folder. */
  get signal(): AbortSignal {
    return this.#revoked.signal
  }

  get ended(): Promise<null> {
    return this.#ended.promise
  }

  /** Bytes that were transferred so far. */
  get bytes(): number {
    return this.#bytes
  }

  get result(): 'refused' | 'broken_off' | 'done' {
    return this.#result
  }

  onKeyRevoked(): void {
    this.#revoked.abort(
      new RequestError('not_authorized', 'the API key was revoked or changed during the transfer', {
        status: 401,
      }),
    )
  }

  /** Passes the bytes of the file on, and counts them. */
  async *counted(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    this.#result = 'broken_off'
    for await (const piece of pieces) {
      this.signal.throwIfAborted()
      this.#bytes += piece.length
      this.#metrics.bytes('http', this.#direction, piece.length)
      yield piece
    }
  }

  /** Records that all of the file was transferred. */
  complete(): void {
    this.#result = 'done'
  }

  end(): void {
    const seconds = (clock.monotonicMs() - this.#startedAt) / 1000
    this.#metrics.ended('http', this.#direction, this.#result, seconds)
    this.#ended.resolve(null)
  }
}
