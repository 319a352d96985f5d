import { clock } from '../clock.ts'
import type { Collections } from '../schemas/collections.ts'
import {
  changeUsage,
  correctUsage,
  endUpload,
  growUpload,
  holdUpload,
  isUnlimited,
  listLiveUploads,
  readUsage,
  type UploadLimits,
} from '../store/upload-usage.ts'
import type { UploadStore } from './upload-store.ts'

/**
 * The limits of one organization's upload directory. Its figures are kept as uploads begin, grow and end; the
 * directory itself is counted only when there are none yet, when they are old (others may fill it too), and before an
 * upload is refused, because processes may have been killed meanwhile.
 */

/** Reserved ahead of what is written, so that few blocks ask the database. */
const portionBytes = 4 * 1024 * 1024
const oldMs = 3_600_000
/** Counting meets changes; it is tried so often, and what is known holds otherwise. */
const mostCounts = 3

export interface UploadQuotaOptions {
  collections: Collections
  organizationId: number
  limits: UploadLimits
  store: UploadStore
}

export class UploadQuota {
  readonly #options: UploadQuotaOptions

  constructor(options: UploadQuotaOptions) {
    this.#options = options
  }

  /** Null when the upload would pass a limit. `expected`: the size it will have, where that was announced. */
  async hold(upload: {
    name: string
    token: string
    /** Bytes that it begins with. */
    start: number
    finished: number | null
    unfinished: number | null
    expected: number | null
  }): Promise<HeldQuota | null> {
    const { collections, organizationId, limits } = this.#options
    const { name, token, start, finished, unfinished, expected } = upload
    if (isUnlimited(limits)) return new HeldQuota(null, { granted: Infinity, finished, unfinished })
    await this.#countIfOld()
    // One byte more than there is: a full directory takes no upload.
    const bytes = Math.max(start + 1, unfinished ?? 0, expected ?? 0)
    const files = finished === null && unfinished === null ? 1 : 0
    const held = { token, name, bytes, files }
    const tryIt = () => holdUpload(collections, organizationId, held, unfinished ?? 0, limits)
    if (!(await tryIt()) && !((await this.#count()) && (await tryIt()))) return null
    return new HeldQuota(this.#accountOf(token), { granted: bytes, finished, unfinished })
  }

  /** Files are gone that were there. */
  async freed(bytes: number, files: number): Promise<void> {
    const { collections, organizationId, limits } = this.#options
    if (!isUnlimited(limits)) await changeUsage(collections, organizationId, { bytes: -bytes, files: -files })
  }

  #accountOf(token: string): Account {
    const { collections, organizationId, limits } = this.#options
    const grow = (bytes: number) => growUpload(collections, organizationId, { token, bytes }, limits)
    return {
      async grow(least) {
        const wanted = Math.max(least, portionBytes)
        if (await grow(wanted)) return wanted
        return (await grow(least)) ? least : 0
      },
      recount: () => this.#count(),
      end: (change) => endUpload(collections, organizationId, token, change),
    }
  }

  async #countIfOld(): Promise<void> {
    const usage = await readUsage(this.#options.collections, this.#options.organizationId)
    if (usage === null || clock.now().getTime() - usage.counted_at.getTime() > oldMs) await this.#count()
  }

  /** False when others changed the figures each time that they were counted. */
  async #count(): Promise<boolean> {
    const { collections, organizationId, store } = this.#options
    for (let tries = 0; tries < mostCounts; tries += 1) {
      const usage = await readUsage(collections, organizationId)
      const uploads = await listLiveUploads(collections, usage)
      const { finished, unfinished } = await store.count()
      // What an upload in progress has is in its reservation.
      for (const { name } of uploads) unfinished.delete(name)
      const names = new Set([...finished.keys(), ...unfinished.keys()])
      for (const { name, files } of uploads) if (files === 0) names.add(name)
      const bytes = [...finished.values(), ...unfinished.values()].reduce((sum, size) => sum + size, 0)
      if (await correctUsage(collections, organizationId, usage, { bytes, files: names.size, uploads }))
        return true
    }
    return false
  }
}

interface Account {
  /** More bytes, at least so many; 0 when they aren't to be had. */
  grow(least: number): Promise<number>
  recount(): Promise<boolean>
  end(change: { bytes: number; files: number }): Promise<void>
}

/** What one upload has reserved. */
export class HeldQuota {
  readonly #account: Account | null
  readonly #finished: number | null
  readonly #unfinished: number | null
  #granted: number

  constructor(
    account: Account | null,
    known: { granted: number; finished: number | null; unfinished: number | null },
  ) {
    this.#account = account
    this.#granted = known.granted
    this.#finished = known.finished
    this.#unfinished = known.unfinished
  }

  /** Before the upload grows to this size. False when it must not. */
  async allow(size: number): Promise<boolean> {
    if (size <= this.#granted) return true
    const least = size - this.#granted
    let more = await this.#account!.grow(least)
    if (more === 0 && (await this.#account!.recount())) more = await this.#account!.grow(least)
    this.#granted += more
    return more > 0
  }

  /** With the size of what was published; of what stays unfinished; or with what became of none. */
  async end(
    outcome: { published: number } | { unfinished: number } | 'removed' | 'untouched',
  ): Promise<void> {
    const before = this.#finished === null && this.#unfinished === null ? 0 : 1
    if (outcome === 'untouched') return this.#account?.end({ bytes: this.#unfinished ?? 0, files: 0 })
    if (outcome === 'removed')
      return this.#account?.end({ bytes: 0, files: (this.#finished === null ? 0 : 1) - before })
    if ('unfinished' in outcome) return this.#account?.end({ bytes: outcome.unfinished, files: 1 - before })
    return this.#account?.end({ bytes: outcome.published - (this.#finished ?? 0), files: 1 - before })
  }
}

/** The settings as limits; 0 is none. */
export const uploadLimits = (settings: {
  UPLOAD_MAX_FILES: number
  UPLOAD_MAX_MB: number
}): UploadLimits => ({
  files: settings.UPLOAD_MAX_FILES === 0 ? Infinity : settings.UPLOAD_MAX_FILES,
  bytes: settings.UPLOAD_MAX_MB === 0 ? Infinity : settings.UPLOAD_MAX_MB * 1_000_000,
})
