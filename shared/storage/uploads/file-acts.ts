import { clock } from '../../runtime/clock.ts'
import type { Logger } from '../../runtime/logger.ts'
import { UploadRefused } from './upload-refused.ts'

/**
 * What clients do with files of an upload directory, as lines of the log, the same by every protocol. They answer
 * whether a partner's file arrived, when, and whole.
 */

export interface FileAct {
  event: 'upload' | 'download' | 'rename' | 'delete'
  protocol: 'http' | 'ftp'
  filename: string
  /** The new name. */
  to?: string
  /** Bytes of this transfer. */
  bytes?: number
  /** Of the file after it. */
  size?: number | undefined
  seconds?: number
  /** Whether bytes of an earlier transfer stay. */
  resumed?: boolean
  /** `unfinished`: the file isn't visible after it, or not all of it was sent. `refused`: no byte was transferred. */
  result: 'complete' | 'unfinished' | 'refused'
  /** Why it isn't complete. */
  reason?: string
}

const messages = {
  upload: 'a file was uploaded',
  download: 'a file was downloaded',
  rename: 'a file was renamed',
  delete: 'a file was deleted',
}

/** The lines of `log` have the fields of the client (`actorFields`), and the request's id where there is one. */
export function logFileAct(log: Logger, act: FileAct): void {
  const { event, result } = act
  const message =
    result === 'complete'
      ? messages[event]
      : `${result === 'refused' ? 'a refused' : 'an unfinished'} ${event}`
  log.info(act, message)
}

/** Seconds since a time of the monotonic clock, for a line of the log. */
export const secondsSince = (startedAt: number): number => Math.round(clock.monotonicMs() - startedAt) / 1000

/** Runs a rename or a deletion, and logs how it ended. */
export async function loggedFileAct(
  log: Logger,
  act: Omit<FileAct, 'result' | 'reason'>,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work()
  } catch (error) {
    logFileAct(log, { ...act, result: 'refused', reason: failureReason(error) })
    throw error
  }
  logFileAct(log, { ...act, result: 'complete' })
}

/** Why an act failed. What isn't refused by the directory or the protocol has a line of its own, with the error. */
export const failureReason = (error: unknown, refusals: (new (...args: never[]) => Error)[] = []): string =>
  [UploadRefused, ...refusals].some((refusal) => error instanceof refusal)
    ? (error as Error).message
    : 'the server failed: another line has the error'
