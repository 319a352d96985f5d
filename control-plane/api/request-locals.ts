import type { Response } from 'express'
import type { Caller } from '../../shared/store/api-keys.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { RequestBody } from './body/request-body.ts'

/** What a request carries along from one handler to the next, in `response.locals`. */
export interface RequestLocals {
  /** From the request log on, which comes first. */
  state: RequestState
  /** Once the credential is known. */
  caller: Caller
  /** Of endpoints that take one, once it is read. */
  body?: RequestBody
}

export interface RequestState {
  id: string
  log: Logger
  /** Pattern of the path, never the path itself: that may hold an email. */
  route: string
  errorCode: string
  /** Measures it now, not at its end: an event stream has begun, which lives for as long as somebody listens. */
  measureNow: () => void
  /** Leaves a scrape or a probe out of what is measured, and logs it at debug only. */
  leaveOut: () => void
}

export const localsOf = (response: Response): RequestLocals => response.locals as RequestLocals
