import { RequestError } from '../request-error.ts'
import { parseBody, type ParsedBody, type SentBody } from './parse-body.ts'

/** An error loses its class when it crosses threads, so a refusal crosses as plain values. */
export type WorkerReply =
  { body: ParsedBody } | { refusal: Pick<RequestError, 'code' | 'message' | 'status'> }

/** Entry of the worker thread that parses bodies with large inline texts. */
export default function parseInWorker(sent: SentBody): WorkerReply {
  try {
    return { body: parseBody(sent) }
  } catch (error) {
    if (!(error instanceof RequestError)) throw error
    const { code, message, status } = error
    return { refusal: { code, message, status } }
  }
}
