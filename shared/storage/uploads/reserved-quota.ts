import type { Collections } from '../../contract/schemas/collections.ts'
import { endUpload, growUpload, type UploadLimits } from '../../store/upload-usage.ts'
import type { UploadStore } from './upload-store.ts'
import { countPinned, countUsage } from './count-usage.ts'
import { withUploadLocks } from './with-upload-locks.ts'
import { binaryMegabyte } from '../../values/byte-sizes.ts'

/** Reserved ahead of the data, so that most writes need no query. */
const portionBytes = 4 * binaryMegabyte

/** The upload directory of an organization, and its limits. */
export interface LimitedDirectory {
  collections: Collections
  organizationId: number
  limits: UploadLimits
  store: UploadStore
}

/** An upload's entry in the usage of its directory. */
interface Reservation extends LimitedDirectory {
  name: string
  /** The token of the upload's lock. */
  token: string
  /** When the reservation was made, the usage had last been counted at this time. */
  countedAt: Date
}

/** The size of the published or the unfinished file in bytes, or what else became of the upload. */
export type UploadOutcome = { published: number } | { unfinished: number } | 'removed' | 'untouched'

/** What one upload may write; UploadQuota.reserve makes it. */
export class ReservedQuota {
  readonly #reservation: Reservation | null
  readonly #unfinished: number | null
  /** Whether the name had a finished or unfinished file before. */
  readonly #isKnown: boolean
  #granted: number

  /** `reservation` is null when there are no limits. `granted` and `unfinished` are in bytes. */
  constructor(
    reservation: Reservation | null,
    known: { granted: number; unfinished: number | null; isKnown: boolean },
  ) {
    this.#reservation = reservation
    this.#granted = known.granted
    this.#unfinished = known.unfinished
    this.#isKnown = known.isKnown
  }

  /** To call before the upload grows to `size` bytes. False when that passes the limit. Throws the database's errors. */
  async allow(size: number): Promise<boolean> {
    const reservation = this.#reservation
    if (reservation === null || size <= this.#granted) return true
    const minBytes = size - this.#granted
    let more = await grow(reservation, minBytes)
    if (more === 0) {
      // Killed processes may have left reservations.
      await countUsage(reservation.collections, reservation.organizationId, reservation.store)
      more = await grow(reservation, minBytes)
    }
    this.#granted += more
    return more > 0
  }

  /**
   * Runs the end of the upload under the lock of its name, so that the counts match what happened. When `work` throws,
   * this throws too, and the reservation stays.
   */
  async end(work: () => Promise<UploadOutcome>): Promise<void> {
    if (this.#reservation === null) {
      await work()
      return
    }
    const { collections, organizationId, store, name, token, countedAt } = this.#reservation
    await withUploadLocks(collections, organizationId, [name], async () => {
      const finished = (await store.find(name))?.size ?? null
      const change = this.#usageChange(await work(), finished)
      // An error changes nothing for the client: the work is done, and the usage is recounted before it refuses an
      // upload.
      await endUpload(collections, organizationId, { token, change, seen: countedAt }).catch(() => undefined)
      // An import may still use the file that was replaced.
      if (finished !== null) await countPinned(collections, organizationId, store).catch(() => undefined)
    })
  }

  /**
   * The change of the usage beyond the reservation. `finished`: bytes of the finished file before the end of the
   * upload; null when there was none.
   */
  #usageChange(outcome: UploadOutcome, finished: number | null): { bytes: number; files: number } {
    // A rename may have given the name a file meanwhile, or taken it away.
    const isCounted = this.#isKnown || finished !== null
    const files = (isPresent: boolean) => Number(isPresent) - Number(isCounted)
    if (outcome === 'removed') return { bytes: 0, files: files(finished !== null) }
    if (outcome === 'untouched')
      return { bytes: this.#unfinished ?? 0, files: files(finished !== null || this.#unfinished !== null) }
    if ('unfinished' in outcome) return { bytes: outcome.unfinished, files: files(true) }
    return { bytes: outcome.published - (finished ?? 0), files: files(true) }
  }
}

/** Reserves a portion, or `minBytes` when a portion doesn't fit. Returns the bytes reserved; 0 when none fit. */
async function grow(
  { collections, organizationId, limits, token }: Reservation,
  minBytes: number,
): Promise<number> {
  const reserve = (bytes: number) => growUpload(collections, organizationId, { token, bytes }, limits)
  const wanted = Math.max(minBytes, portionBytes)
  if (await reserve(wanted)) return wanted
  return (await reserve(minBytes)) ? minBytes : 0
}
