import { ImportError } from '../../contract/errors.ts'
import type { Collections } from '../../contract/schemas/collections.ts'
import type { ImportDocument } from '../../contract/schemas/import.ts'
import {
  enterImport,
  growSource,
  leaveImport,
  makeUsage,
  reservePartition,
  setStaged,
  type StagedLimits,
} from '../../store/staged-usage.ts'
import { readUsage, uploadLimits } from '../../store/upload-usage.ts'
import { countPinned, countUsage } from './count-usage.ts'
import type { Uploads } from './upload-store.ts'

/** Reserved ahead of what is written, so that few pieces ask the database. */
const portionBytes = 4 * 1024 * 1024
const oldMs = 3_600_000
/** Figures that were counted a moment ago are not counted again for the next refusal. */
const freshMs = 2_000

type OfImport = Pick<ImportDocument, '_id' | 'organization_id'>

export interface StagedQuotaOptions {
  collections: Collections
  uploads: Uploads
  limits: StagedLimits
}

/**
 * The quota of organizations as their imports meet it: an import is entered before it is created, reserves what it
 * stages before that is written, and leaves when its files are gone. All of it throws the database's errors.
 */
export class StagedQuota {
  readonly #options: StagedQuotaOptions

  constructor(options: StagedQuotaOptions) {
    this.#options = options
  }

  /** Enters an import that is about to be created, with the bytes that are staged for it already. */
  async enter(
    organizationId: number,
    importId: number,
    bytes: number,
  ): Promise<'entered' | 'over quota' | 'too many imports'> {
    const { collections, limits } = this.#options
    const tryIt = (maxAgeMs: number) =>
      enterImport(collections, organizationId, { importId, bytes, maxAgeMs }, limits)
    if (await tryIt(oldMs)) return 'entered'
    const usage = await readUsage(collections, organizationId)
    if (usage === null && limits.bytes === Infinity) await makeUsage(collections, organizationId)
    else if (usage === null || usage.counted_at.getTime() < usage.now.getTime() - freshMs)
      await this.#count(organizationId)
    // Where much is going on no count may be possible: old figures are no reason to refuse.
    if (await tryIt(Infinity)) return 'entered'
    const { imports = [] } = (await readUsage(collections, organizationId)) ?? {}
    return imports.length >= limits.imports ? 'too many imports' : 'over quota'
  }

  /** The import was not created, or its files are gone. */
  async leave({ _id, organization_id }: OfImport): Promise<void> {
    const { collections } = this.#options
    const usage =
      (await leaveImport(collections, _id, organization_id)) ??
      (await collections.uploadUsage.findOne({ _id: organization_id }))
    if ((usage?.pinned ?? 0) > 0) await this.#countPinned(organization_id)
  }

  /**
   * The content as it is staged as the import's source, each piece reserved before it passes. With `within` `staged`
   * what counts is what imports have staged, without the upload directory. Throws ImportError `quota_exceeded`.
   */
  async *reserved(
    document: OfImport,
    content: AsyncIterable<Uint8Array>,
    within: 'all' | 'staged',
  ): AsyncGenerator<Uint8Array> {
    const { collections, limits } = this.#options
    const { _id: importId, organization_id: organizationId } = document
    if (limits.bytes === Infinity) {
      yield* content
      return
    }
    const grow = (bytes: number) =>
      growSource(collections, organizationId, { importId, bytes, within }, limits.bytes)
    const set = (source: number) => setStaged(collections, organizationId, importId, { source })
    let size = 0
    let granted = 0
    let isWhole = false
    await set(0)
    try {
      for await (const piece of content) {
        size += piece.length
        if (size > granted) {
          const minBytes = size - granted
          const wanted = Math.max(minBytes, portionBytes)
          const more = (await grow(wanted)) ? wanted : await this.#growAtLeast(organizationId, minBytes, grow)
          if (more === 0) throw this.#overQuota(within)
          granted += more
        }
        yield piece
      }
      isWhole = true
    } finally {
      // Of one that broke off nothing stays in the staging.
      await set(isWhole ? size : 0).catch(() => undefined)
    }
  }

  /** Reserves an import's partition; false while other imports of the organization take too much. */
  async reservePartition({ _id, organization_id }: OfImport, bytes: number): Promise<boolean> {
    const { collections, limits } = this.#options
    if (limits.bytes === Infinity) return true
    const reserve = () =>
      reservePartition(collections, organization_id, { importId: _id, bytes }, limits.bytes)
    if (await reserve()) return true
    await this.#count(organization_id)
    return reserve()
  }

  /** The source is split and gone, and the partition has that many bytes. */
  async hasPartition({ _id, organization_id }: OfImport, partition: number): Promise<void> {
    const { collections, limits } = this.#options
    if (limits.bytes === Infinity) return
    await setStaged(collections, organization_id, _id, { source: 0, partition })
    await this.#countPinned(organization_id)
  }

  async #growAtLeast(
    organizationId: number,
    bytes: number,
    grow: (bytes: number) => Promise<boolean>,
  ): Promise<number> {
    if (await grow(bytes)) return bytes
    await this.#count(organizationId)
    return (await grow(bytes)) ? bytes : 0
  }

  #overQuota(within: 'all' | 'staged'): ImportError {
    const what =
      within === 'all'
        ? 'its uploads, the files of its unfinished imports and the failed rows of the last 7 days'
        : 'the files of its unfinished imports'
    return new ImportError(
      'quota_exceeded',
      `the file does not fit into the organization's quota of ${this.#options.limits.bytes / 1e6} MB (UPLOAD_MAX_MB), which ${what} share: remove uploads, cancel imports or let them end, and create the import again`,
    )
  }

  #count(organizationId: number): Promise<void> {
    const { collections, uploads } = this.#options
    return countUsage(collections, organizationId, uploads.directory(organizationId))
  }

  #countPinned(organizationId: number): Promise<void> {
    const { collections, uploads } = this.#options
    return countPinned(collections, organizationId, uploads.directory(organizationId))
  }
}

export const stagedLimits = (settings: {
  UPLOAD_MAX_FILES: number
  UPLOAD_MAX_MB: number
  IMPORTS_MAX_UNFINISHED: number
}): StagedLimits => ({
  bytes: uploadLimits(settings).bytes,
  imports: settings.IMPORTS_MAX_UNFINISHED,
})
