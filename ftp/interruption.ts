import type { Session } from './ftp-srv-internals.ts'

/**
 * What breaks a session's transfer off: ABOR, which comes while the commands after the transfer wait for its end, and
 * the end of the control connection.
 */
export class Interruption {
  #transfer: AbortController | null = null
  /** They also meet a transfer that has not begun yet when they come. */
  #unansweredAborts = 0
  #isHungUp = false

  /** Aborted when the transfer that begins now is to end. */
  begin(): AbortSignal {
    this.#transfer = new AbortController()
    if (this.#unansweredAborts > 0 || this.#isHungUp) this.#transfer.abort()
    return this.#transfer.signal
  }

  end(): void {
    this.#transfer = null
  }

  abort(): void {
    this.#unansweredAborts += 1
    this.#transfer?.abort()
  }

  abortIsAnswered(): void {
    this.#unansweredAborts -= 1
  }

  hangUp(): void {
    this.#isHungUp = true
    this.#transfer?.abort()
  }
}

const interruptions = new WeakMap<Session, Interruption>()

export function interruptionOf(session: Session): Interruption {
  let interruption = interruptions.get(session)
  if (interruption === undefined) {
    interruption = new Interruption()
    interruptions.set(session, interruption)
  }
  return interruption
}
