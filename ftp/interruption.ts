/**
 * Aborts a session's transfer at ABOR and at the end of the session. ABOR works when it arrives: its turn among the
 * commands comes only after the transfer.
 */
export class Interruption {
  #transfer: AbortController | null = null
  /** Counted, because an ABOR that arrives before its transfer has begun must abort it too. */
  #unansweredAborts = 0
  readonly #hangUp = new AbortController()

  get sessionEnded(): AbortSignal {
    return this.#hangUp.signal
  }

  get isTransferring(): boolean {
    return this.#transfer !== null
  }

  /** Begins a transfer; the signal is aborted when the transfer must end. */
  begin(): AbortSignal {
    this.#transfer = new AbortController()
    if (this.#unansweredAborts > 0 || this.sessionEnded.aborted) this.#transfer.abort()
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
