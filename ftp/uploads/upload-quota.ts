import type { Collections } from '../../shared/contract/schemas/collections.ts'
import {
  addName,
  freeUsage,
  reserveUpload,
  isUnlimited,
  readUsage,
  type UploadLimits,
} from '../../shared/store/upload-usage.ts'
import { countPinned, countUsage } from '../../shared/storage/uploads/count-usage.ts'
import type { UploadStore } from '../../shared/storage/uploads/upload-store.ts'
import { ReservedQuota } from './reserved-quota.ts'
import { withUploadLocks } from './with-upload-locks.ts'

/** Reserved as an upload begins: most are small and never ask for more. */
const firstPortionBytes = 64 * 1024
const oldMs = 3_600_000

export interface UploadQuotaOptions {
  collections: Collections
  organizationId: number
  limits: UploadLimits
  store: UploadStore
}

/**
 * The limits of one organization's upload directory. Its figures are kept as uploads begin, grow and end; the
 * directory itself is counted only when there are none yet, when they are old (others may fill it too), and before an
 * upload is refused, because processes may have been killed meanwhile.
 */
export class UploadQuota {
  readonly #options: UploadQuotaOptions

  constructor(options: UploadQuotaOptions) {
    this.#options = options
  }

  /**
   * Reserves for an upload, under the lock of its name. Null when the upload would pass a limit. All sizes in bytes, null where there is no such
   * file; `expected`: the size that it will have, where that was announced. Throws the database's errors.
   */
  async reserve(upload: {
    name: string
    token: string
    /** Bytes that it begins with. */
    start: number
    finished: number | null
    unfinished: number | null
    expected: number | null
  }): Promise<ReservedQuota | null> {
    const { collections, organizationId, limits, store } = this.#options
    const { name, token, start, finished, unfinished, expected } = upload
    const isKnown = finished !== null || unfinished !== null
    if (isUnlimited(limits)) return new ReservedQuota(null, { granted: Infinity, unfinished, isKnown })
    // One byte more than there is: a full directory takes no upload.
    const minBytes = Math.max(start + 1, unfinished ?? 0, expected ?? 0)
    const files = isKnown ? 0 : 1
    const tryIt = async (bytes: number, maxAgeMs = oldMs) => {
      const reservation = { token, name, bytes, files }
      const asked = { reservation, moved: unfinished ?? 0, maxAgeMs }
      const seen = await reserveUpload(collections, organizationId, asked, limits)
      if (seen === null) return null
      const recount = () => this.#count()
      return new ReservedQuota(
        { collections, organizationId, limits, store, name, token, seen, recount },
        { granted: bytes, unfinished, isKnown },
      )
    }
    const quota = (await tryIt(minBytes + firstPortionBytes)) ?? (await tryIt(minBytes))
    if (quota !== null) return quota
    await this.#count()
    // In a directory where much is going on no count may be possible: old figures are no reason to refuse.
    return (await tryIt(minBytes)) ?? (await tryIt(minBytes, Infinity))
  }

  /** Removes the finished file; false when there is none. */
  remove(name: string): Promise<boolean> {
    const { store } = this.#options
    return this.withUploadLocks([name], async () => {
      const seen = await this.#countedAt()
      const finished = await store.find(name)
      if (finished === null || !(await store.remove(name))) return false
      await this.#freed(seen, { bytes: finished.size, files: (await this.#staysKnown(name)) ? 0 : 1 })
      await this.#countPinned()
      return true
    })
  }

  /** Removes the unfinished upload, of which the caller has the lock. */
  async removeUnfinished(name: string): Promise<void> {
    const { store } = this.#options
    await this.withUploadLocks([name], async () => {
      const seen = await this.#countedAt()
      const unfinished = await store.findUnfinished(name)
      if (unfinished === null) return
      await store.removeUnfinished(name)
      await this.#freed(seen, {
        bytes: unfinished.size,
        files: (await store.find(name)) === null ? 1 : 0,
      })
    })
  }

  /** Gives the finished file another name, and says what came of it. */
  rename(from: string, to: string): Promise<'renamed' | 'missing' | 'over limit'> {
    const { store } = this.#options
    return this.withUploadLocks([from, to], async () => {
      const [source, target] = await Promise.all([store.find(from), store.find(to)])
      if (source === null) return 'missing'
      if (from === to) return 'renamed'
      const stays = await this.#staysKnown(from)
      const isKnown = target !== null || (await this.#staysKnown(to))
      const isOneMore = stays && !isKnown
      if (isOneMore && !(await this.#addName())) return 'over limit'
      const seen = await this.#countedAt()
      if (!(await store.rename(from, to))) {
        if (isOneMore) await this.#freed(seen, { bytes: 0, files: 1 })
        return 'missing'
      }
      await this.#freed(seen, { bytes: target?.size ?? 0, files: !stays && isKnown ? 1 : 0 })
      if (target !== null) await this.#countPinned()
      return 'renamed'
    })
  }

  /** One at a time for each name, see with-upload-locks.ts; where nothing is counted, nobody waits. */
  withUploadLocks<T>(names: string[], work: () => Promise<T>): Promise<T> {
    const { collections, organizationId, limits } = this.#options
    return isUnlimited(limits) ? work() : withUploadLocks(collections, organizationId, names, work)
  }

  async #freed(seen: Date | null, { bytes, files }: { bytes: number; files: number }): Promise<void> {
    const { collections, organizationId } = this.#options
    if (seen !== null) await freeUsage(collections, organizationId, { bytes: -bytes, files: -files }, seen)
  }

  /** When the figures were counted last; null when there are none. */
  async #countedAt(): Promise<Date | null> {
    const { collections, organizationId, limits } = this.#options
    if (isUnlimited(limits)) return null
    return (await readUsage(collections, organizationId))?.counted_at ?? null
  }

  /** Whether the name counts without its finished file: that of an unfinished upload does, unless it is reserved. */
  async #staysKnown(name: string): Promise<boolean> {
    const { collections, organizationId, limits, store } = this.#options
    if (isUnlimited(limits)) return false
    const usage = await readUsage(collections, organizationId)
    const reservation = usage?.uploads.find((upload) => upload.name === name)
    return reservation === undefined ? (await store.findUnfinished(name)) !== null : reservation.files === 0
  }

  async #addName(): Promise<boolean> {
    const { collections, organizationId, limits } = this.#options
    const tryIt = () => addName(collections, organizationId, limits)
    if (await tryIt()) return true
    await this.#count()
    return tryIt()
  }

  #count(): Promise<void> {
    const { collections, organizationId, store } = this.#options
    return countUsage(collections, organizationId, store)
  }

  /** After a name went: an import may keep its file. The figures are counted anew before they refuse anybody. */
  async #countPinned(): Promise<void> {
    const { collections, organizationId, limits, store } = this.#options
    if (!isUnlimited(limits)) await countPinned(collections, organizationId, store).catch(() => undefined)
  }
}
