import {
  addName,
  expireUsage,
  freeUsage,
  reserveUpload,
  isUnlimited,
  readUsage,
} from '../../store/upload-usage.ts'
import { countPinned, countUsage, maxUsageAgeMs, retryAfterCount } from './count-usage.ts'
import { ReservedQuota, type LimitedDirectory } from './reserved-quota.ts'
import { withUploadLocks } from './with-upload-locks.ts'

/** Reserved at the beginning of an upload. Small uploads, which are the usual case, need no other reservation. */
const firstPortionBytes = 64 * 1024

/**
 * The limits of one organization's upload directory. Its usage is updated when uploads begin, grow and end. The
 * directory is counted when there is no usage, when the usage is old, and before a refusal, because killed processes
 * may have left reservations.
 */
export class UploadQuota {
  readonly #options: LimitedDirectory

  constructor(options: LimitedDirectory) {
    this.#options = options
  }

  /**
   * Reserves quota for an upload, under the lock of its name. Null when the upload would pass a limit. Sizes are in
   * bytes; null stands for a missing file or no announced size. Throws the database's errors.
   */
  async reserve(upload: {
    name: string
    token: string
    /** The size with which the upload begins. */
    start: number
    finished: number | null
    unfinished: number | null
    /** The final size, where the client announced it. */
    expected: number | null
  }): Promise<ReservedQuota | null> {
    const { collections, organizationId, limits, store } = this.#options
    const { name, token, start, finished, unfinished, expected } = upload
    const isKnown = finished !== null || unfinished !== null
    if (isUnlimited(limits)) return new ReservedQuota(null, { granted: Infinity, unfinished, isKnown })
    // One byte more than the present size, so that a full directory refuses the upload at its beginning.
    const minBytes = Math.max(start + 1, unfinished ?? 0, expected ?? 0)
    const files = isKnown ? 0 : 1
    const tryReserve = async (bytes: number, maxAgeMs = maxUsageAgeMs) => {
      const request = { reservation: { token, name, bytes, files }, moved: unfinished ?? 0, maxAgeMs }
      const countedAt = await reserveUpload(collections, organizationId, request, limits)
      if (countedAt === null) return null
      return new ReservedQuota(
        { ...this.#options, name, token, countedAt },
        { granted: bytes, unfinished, isKnown },
      )
    }
    const quota = (await tryReserve(minBytes + firstPortionBytes)) ?? (await tryReserve(minBytes))
    if (quota !== null) return quota
    await countUsage(collections, organizationId, store)
    // In a busy directory a count may fail each time; an old usage alone must not refuse the upload.
    return (await tryReserve(minBytes)) ?? (await tryReserve(minBytes, Infinity))
  }

  /** Removes the finished file; false when there is none. */
  remove(name: string): Promise<boolean> {
    const { store } = this.#options
    return this.withUploadLocks([name], async () => {
      const countedAt = await this.#readCountedAt()
      const finished = await store.find(name)
      if (finished === null || !(await store.remove(name))) return false
      await afterChange(async () => {
        await this.#free(countedAt, { bytes: finished.size, files: (await this.#staysKnown(name)) ? 0 : 1 })
        await this.#countPinned()
      })
      return true
    })
  }

  /** Removes the unfinished upload; the caller has its lock. */
  async removeUnfinished(name: string): Promise<void> {
    const { store } = this.#options
    await this.withUploadLocks([name], async () => {
      const countedAt = await this.#readCountedAt()
      const unfinished = await store.findUnfinished(name)
      if (unfinished === null) return
      await store.removeUnfinished(name)
      await afterChange(async () => {
        const files = (await store.find(name)) === null ? 1 : 0
        await this.#free(countedAt, { bytes: unfinished.size, files })
      })
    })
  }

  /** Renames the finished file. `over_quota`: its old name stays counted, and the new one is one too many. */
  rename(from: string, to: string): Promise<'renamed' | 'missing' | 'over_quota'> {
    const { collections, organizationId, limits, store } = this.#options
    return this.withUploadLocks([from, to], async () => {
      const [source, target] = await Promise.all([store.find(from), store.find(to)])
      if (source === null) return 'missing'
      if (from === to) return 'renamed'
      const stays = await this.#staysKnown(from)
      const isKnown = target !== null || (await this.#staysKnown(to))
      const isOneMore = stays && !isKnown
      const add = () => addName(collections, organizationId, limits)
      if (isOneMore && !(await retryAfterCount(collections, organizationId, store, add))) return 'over_quota'
      const countedAt = await this.#readCountedAt()
      if (!(await store.rename(from, to))) {
        if (isOneMore) await this.#free(countedAt, { bytes: 0, files: 1 })
        return 'missing'
      }
      const change = { bytes: target?.size ?? 0, files: !stays && isKnown ? 1 : 0 }
      await afterChange(async () => {
        // A count that was written meanwhile may have met neither name: files on disk are listed first and then read.
        if (!(await this.#free(countedAt, change))) await expireUsage(collections, organizationId)
        if (target !== null) await this.#countPinned()
      })
      return 'renamed'
    })
  }

  /** Without limits nothing is counted, so no lock is needed. */
  withUploadLocks<T>(names: string[], work: () => Promise<T>): Promise<T> {
    const { collections, organizationId, limits } = this.#options
    return isUnlimited(limits) ? work() : withUploadLocks(collections, organizationId, names, work)
  }

  /** False where the usage was counted since `countedAt`, also for the first time. */
  async #free(countedAt: Date | null, { bytes, files }: { bytes: number; files: number }): Promise<boolean> {
    const { collections, organizationId, limits } = this.#options
    if (isUnlimited(limits)) return true
    if (countedAt === null) return (await readUsage(collections, organizationId)) === null
    return freeUsage(collections, organizationId, { bytes: -bytes, files: -files }, countedAt)
  }

  /** When the usage was counted last; null without limits or usage. */
  async #readCountedAt(): Promise<Date | null> {
    const { collections, organizationId, limits } = this.#options
    if (isUnlimited(limits)) return null
    return (await readUsage(collections, organizationId))?.counted_at ?? null
  }

  /** Whether the usage still counts the name without its finished file, because of an unfinished upload. */
  async #staysKnown(name: string): Promise<boolean> {
    const { collections, organizationId, limits, store } = this.#options
    if (isUnlimited(limits)) return false
    const usage = await readUsage(collections, organizationId)
    const reservation = usage?.uploads.find((upload) => upload.name === name)
    return reservation === undefined ? (await store.findUnfinished(name)) !== null : reservation.files === 0
  }

  /** To call after a name was removed, since an import may still use its file. */
  async #countPinned(): Promise<void> {
    const { collections, organizationId, limits, store } = this.#options
    if (!isUnlimited(limits)) await countPinned(collections, organizationId, store)
  }
}

/**
 * Corrects the usage after a change of the directory. Errors are ignored: the change is done and visible, and the usage
 * is recounted before it refuses an upload.
 */
const afterChange = (correct: () => Promise<void>): Promise<void> => correct().catch(() => undefined)
