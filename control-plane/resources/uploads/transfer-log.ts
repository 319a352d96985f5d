import { clock } from '../../../shared/runtime/clock.ts'
import type { Logger } from '../../../shared/runtime/logger.ts'
import {
  failureReason,
  logFileAct,
  secondsSince,
  type FileAct,
} from '../../../shared/storage/uploads/file-acts.ts'
import { actorFields } from '../../../shared/store/api-keys.ts'
import type { RequestCall } from '../../api/endpoint.ts'
import { RequestError } from '../../api/request-error.ts'
import type { Transfer } from './transfers.ts'

type LoggedCall = Pick<RequestCall, 'log' | 'caller'>

export const clientLog = ({ log, caller }: LoggedCall): Logger =>
  log.child(actorFields(caller, caller.address))

/** The line of one upload or download, beside that of its request. */
export class TransferLog {
  readonly filename: string
  /** Of the whole file, once it is known. */
  size?: number
  isResumed = false
  readonly #call: LoggedCall
  readonly #event: 'upload' | 'download'
  readonly #startedAt = clock.monotonicMs()
  #transfer: Transfer | null = null
  #isUnfinished = false
  #reason: string | undefined

  constructor(call: LoggedCall, event: 'upload' | 'download', filename: string) {
    this.#call = call
    this.#event = event
    this.filename = filename
  }

  began(transfer: Transfer): Transfer {
    this.#transfer = transfer
    return transfer
  }

  /** All bytes of the request came, and more are to come by others. */
  stayedUnfinished(): void {
    this.#isUnfinished = true
    this.#reason = 'further ranges are to come'
  }

  failed(error: unknown): void {
    this.#reason = failureReason(error, [RequestError])
  }

  write(): void {
    const result = this.#result()
    const reason = this.#reason ?? (result === 'unfinished' ? 'the client left' : undefined)
    logFileAct(clientLog(this.#call), {
      event: this.#event,
      protocol: 'http',
      filename: this.filename,
      bytes: this.#transfer?.bytes ?? 0,
      size: this.size,
      seconds: secondsSince(this.#startedAt),
      resumed: this.isResumed,
      result,
      ...(result === 'complete' || reason === undefined ? {} : { reason }),
    })
  }

  #result(): FileAct['result'] {
    if (this.#transfer === null || this.#transfer.result === 'refused') return 'refused'
    return this.#transfer.result === 'done' && !this.#isUnfinished ? 'complete' : 'unfinished'
  }
}
