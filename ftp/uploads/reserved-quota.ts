import type { Collections } from '../../shared/contract/schemas/collections.ts'
import { endUpload, growUpload, type UploadLimits } from '../../shared/store/upload-usage.ts'
import type { UploadStore } from '../../shared/storage/uploads/upload-store.ts'
import { countPinned } from '../../shared/storage/uploads/count-usage.ts'
import { withUploadLocks } from './with-upload-locks.ts'

/** Reserved ahead of what is written, so that few blocks ask the database. */
const portionBytes = 4 * 1024 * 1024

/** An upload that is entered in its directory's figures, with what it has reserved there. */
export interface Reservation {
  collections: Collections
  organizationId: number
  limits: UploadLimits
  store: UploadStore
  name: string
  /** Of the upload's lock. */
  token: string
  /** When the figures were counted last before it was entered. */
  seen: Date
  /** Counts the directory anew: processes may have been killed meanwhile. */
  recount: () => Promise<void>
}

/** The size of what was published, or of what stays unfinished; or what became of it otherwise. */
export type UploadOutcome = { published: number } | { unfinished: number } | 'removed' | 'untouched'

/** What one upload may write; UploadQuota.reserve makes it. */
export class ReservedQuota {
  readonly #reservation: Reservation | null
  readonly #unfinished: number | null
  /** Whether its name was there before. */
  readonly #isKnown: boolean
  #granted: number

  /** Without a reservation there are no limits. `granted` and `unfinished` in bytes. */
  constructor(
    reservation: Reservation | null,
    known: { granted: number; unfinished: number | null; isKnown: boolean },
  ) {
    this.#reservation = reservation
    this.#granted = known.granted
    this.#unfinished = known.unfinished
    this.#isKnown = known.isKnown
  }

  /** Before the upload grows to this size, in bytes. False when it must not. Throws the database's errors. */
  async allow(size: number): Promise<boolean> {
    if (size <= this.#granted) return true
    const minBytes = size - this.#granted
    let more = await this.#grow(minBytes)
    if (more === 0) {
      await this.#reservation!.recount()
      more = await this.#grow(minBytes)
    }
    this.#granted += more
    return more > 0
  }

  /**
   * Does what ends the upload, under the lock of its name, so that the counts are those of what really happened. Throws
   * what `work` throws, and then leaves the reservation.
   */
  async end(work: () => Promise<UploadOutcome>): Promise<void> {
    if (this.#reservation === null) {
      await work()
      return
    }
    const { collections, organizationId, store, name, token, seen } = this.#reservation
    await withUploadLocks(collections, organizationId, [name], async () => {
      const finished = (await store.find(name))?.size ?? null
      const change = this.#changeBy(await work(), finished)
      // What has happened stands; the figures are counted anew before they refuse anybody.
      await endUpload(collections, organizationId, { token, change, seen }).catch(() => undefined)
      // An import may keep the file that it took the place of.
      if (finished !== null) await countPinned(collections, organizationId, store).catch(() => undefined)
    })
  }

  /** Reserves more bytes, at least so many; 0 when they aren't to be had. */
  async #grow(minBytes: number): Promise<number> {
    const { collections, organizationId, limits, token } = this.#reservation!
    const grow = (bytes: number) => growUpload(collections, organizationId, { token, bytes }, limits)
    const wanted = Math.max(minBytes, portionBytes)
    if (await grow(wanted)) return wanted
    return (await grow(minBytes)) ? minBytes : 0
  }

  /**
   * Of the figures, without what was reserved. `finished`: bytes of the finished file before that; null where there was
   * none.
   */
  #changeBy(outcome: UploadOutcome, finished: number | null): { bytes: number; files: number } {
    // A file may have been given the name meanwhile, or have lost it.
    const isCounted = this.#isKnown || finished !== null
    const files = (isThere: boolean) => Number(isThere) - Number(isCounted)
    if (outcome === 'removed') return { bytes: 0, files: files(finished !== null) }
    if (outcome === 'untouched')
      return { bytes: this.#unfinished ?? 0, files: files(finished !== null || this.#unfinished !== null) }
    if ('unfinished' in outcome) return { bytes: outcome.unfinished, files: files(true) }
    return { bytes: outcome.published - (finished ?? 0), files: files(true) }
  }
}
