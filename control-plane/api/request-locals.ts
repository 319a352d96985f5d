import type { Response } from 'express'
import type { Caller } from '../../shared/store/api-keys.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { ParsedBody } from './body/parse-body.ts'

/** The caller of a request, with the address that it came from. */
export interface RequestCaller extends Caller {
  address: string
}

/** What the handlers of a request share, in `response.locals`. */
interface RequestLocals {
  /** Set by the request log, which comes first. */
  state: RequestState
  /** Set once the credential is checked, and again when that is long ago. */
  caller: RequestCaller
  /** The API key as it was sent. */
  key: string
  /** When the credential was checked, by `clock.monotonicMs`. */
  checkedAt: number
  /** Set once the body is read, for endpoints that have one. */
  body?: ParsedBody
  /** What the endpoint does for the request. It may go on after the client has left. Set when it begins. */
  work?: Promise<void>
}

export interface RequestState {
  id: string
  log: Logger
  /** The path's pattern, never the path itself, which may contain an email. */
  route: string
  errorCode: string
  /** The client's address. */
  address: string
  /** The ids in the path, such as `mailing_list_id`, and the `id` of the record that the request is about. */
  recordIds: Readonly<Record<string, number>>
  /** Measures the request now and not at its end, because an event stream lasts as long as its client listens. */
  measureNow: () => void
  /** Excludes a scrape or a probe from the metrics, and logs it at debug level only. */
  excludeFromMetrics: () => void
}

export const requestLocals = (response: Response): RequestLocals => response.locals as RequestLocals
