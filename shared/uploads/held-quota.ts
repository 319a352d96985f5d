/** What the directory of an upload does for what the upload has reserved. */
export interface QuotaAccount {
  /** More bytes, at least so many; 0 when they aren't to be had. */
  grow(least: number): Promise<number>
  recount(): Promise<void>
  /** Runs it in the turn of the upload's name, with the size of the finished file; enters what it resolves to. */
  end(work: (finished: number | null) => Promise<QuotaChange>): Promise<void>
}

/** Of the figures, without what was reserved. */
export interface QuotaChange {
  bytes: number
  files: number
}

/** The size of what was published, or of what stays unfinished; or what became of it otherwise. */
export type UploadOutcome = { published: number } | { unfinished: number } | 'removed' | 'untouched'

/** What one upload has reserved. */
export class HeldQuota {
  readonly #account: QuotaAccount | null
  readonly #unfinished: number | null
  /** Whether its name was there before. */
  readonly #isKnown: boolean
  #granted: number

  /** Without an account there are no limits. */
  constructor(
    account: QuotaAccount | null,
    known: { granted: number; unfinished: number | null; isKnown: boolean },
  ) {
    this.#account = account
    this.#granted = known.granted
    this.#unfinished = known.unfinished
    this.#isKnown = known.isKnown
  }

  /** Before the upload grows to this size. False when it must not. */
  async allow(size: number): Promise<boolean> {
    if (size <= this.#granted) return true
    const least = size - this.#granted
    let more = await this.#account!.grow(least)
    if (more === 0) {
      await this.#account!.recount()
      more = await this.#account!.grow(least)
    }
    this.#granted += more
    return more > 0
  }

  /** Does what ends the upload, in its name's turn, so that the figures are those of what really happened. */
  async end(work: () => Promise<UploadOutcome>): Promise<void> {
    if (this.#account === null) {
      await work()
      return
    }
    await this.#account.end(async (finished) => {
      const outcome = await work()
      // A file may have been given the name meanwhile, or have lost it.
      const isCounted = this.#isKnown || finished !== null
      const files = (isThere: boolean) => Number(isThere) - Number(isCounted)
      if (outcome === 'removed') return { bytes: 0, files: files(finished !== null) }
      if (outcome === 'untouched')
        return { bytes: this.#unfinished ?? 0, files: files(finished !== null || this.#unfinished !== null) }
      if ('unfinished' in outcome) return { bytes: outcome.unfinished, files: files(true) }
      return { bytes: outcome.published - (finished ?? 0), files: files(true) }
    })
  }
}
