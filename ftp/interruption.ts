/**
 * What breaks a session's transfer off: ABOR, which comes while the commands after the transfer wait for its end, and
 * the end of the session.
 */
export class Interruption {
  #transfer: AbortController | null = null
  /** They also meet a transfer that has not begun yet when they come. */
  #unansweredAborts = 0
  readonly #hangUp = new AbortController()

  /** Aborted when the session is at its end. */
  get ofSession(): AbortSignal {
    return this.#hangUp.signal
  }

  get isTransferring(): boolean {
    return this.#transfer !== null
  }

  /** Aborted when the transfer that begins now is to end. */
  begin(): AbortSignal {
    this.#transfer = new AbortController()
    if (this.#unansweredAborts > 0 || this.ofSession.aborted) this.#transfer.abort()
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
    this.#hangUp.abort()
    this.#transfer?.abort()
  }
}
