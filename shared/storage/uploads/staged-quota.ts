import { ImportError } from '../../contract/errors.ts'
import type { Collections } from '../../contract/schemas/collections.ts'
import type { ImportDocument } from '../../contract/schemas/import.ts'
import { makeLedger, uploadLimits } from '../../store/ledger.ts'
import {
  enterImport,
  growSource,
  removeImportEntry,
  removeLostEntries,
  reservePartition,
  setStaged,
  type StagedLimits,
} from '../../store/staged-usage.ts'
import { binaryMegabyte, decimalMegabyte } from '../../values/byte-sizes.ts'

/** Bytes that are reserved at once, so that few pieces need a write to the database. */
const minReservedBytes = 4 * binaryMegabyte

type ImportRef = Pick<ImportDocument, '_id' | 'organization_id'>

interface StagedQuotaOptions {
  collections: Collections
  limits: StagedLimits
}

/**
 * The storage quota of organizations, for imports. An import gets an entry before it is created, and loses it when
 * its files are removed. It reserves the bytes of its files before they are written. All methods throw the database's
 * errors.
 */
export class StagedQuota {
  readonly #options: StagedQuotaOptions

  constructor(options: StagedQuotaOptions) {
    this.#options = options
  }

  /** Adds the entry of an import that is about to be created, with the bytes that are staged for it already. */
  async enter(
    organizationId: number,
    importId: number,
    bytes: number,
  ): Promise<'entered' | 'over_quota' | 'too_many_imports'> {
    const { collections, limits } = this.#options
    const tryEnter = () => enterImport(collections, organizationId, { importId, bytes }, limits)
    if (await tryEnter()) return 'entered'
    await makeLedger(collections, organizationId)
    await removeLostEntries(collections, organizationId)
    if (await tryEnter()) return 'entered'
    const ledger = await collections.ledgers.findOne({ _id: organizationId })
    return (ledger?.imports.length ?? 0) >= limits.imports ? 'too_many_imports' : 'over_quota'
  }

  /** Removes the entry of an import that was not created, or whose files are removed. `keptBytes`: those of its totals. */
  async removeEntry({ _id, organization_id }: ImportRef, keptBytes?: number): Promise<void> {
    await removeImportEntry(this.#options.collections, _id, { organizationId: organization_id, keptBytes })
  }

  /**
   * Passes the content of the import's source on, and reserves each piece before. With `within: 'staged'` only the
   * staged bytes of imports count, without the upload directory. `besides` returns the bytes of the import's other staged
   * files, which may be removed meanwhile. Throws ImportError `quota_exceeded`.
   */
  async *reserved(
    document: ImportRef,
    content: AsyncIterable<Uint8Array>,
    within: 'all' | 'staged',
    besides = () => 0,
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
    await set(besides())
    try {
      for await (const piece of content) {
        size += piece.length
        if (size > granted) {
          const minBytes = size - granted
          const wanted = Math.max(minBytes, minReservedBytes)
          if (await grow(wanted)) granted += wanted
          else if (await grow(minBytes)) granted = size
          else throw this.#overQuota(within)
        }
        yield piece
      }
      isWhole = true
    } finally {
      // Nothing of an incomplete source stays in the staging.
      await set(besides() + (isWhole ? size : 0)).catch(() => undefined)
    }
  }

  /** Reserves the partition of an import; false while other imports of the organization leave too little. */
  async reservePartition({ _id, organization_id }: ImportRef, bytes: number): Promise<boolean> {
    const { collections, limits } = this.#options
    if (limits.bytes === Infinity) return true
    return reservePartition(collections, organization_id, { importId: _id, bytes }, limits.bytes)
  }

  /** Records that the source was split and removed, and the size of the partition. */
  async recordPartition({ _id, organization_id }: ImportRef, partition: number): Promise<void> {
    const { collections, limits } = this.#options
    if (limits.bytes === Infinity) return
    await setStaged(collections, organization_id, _id, { source: 0, partition })
  }

  #overQuota(within: 'all' | 'staged'): ImportError {
    const what =
      within === 'all'
        ? 'its uploads, the files of its unfinished imports and the failed rows of the last 7 days'
        : 'the files of its unfinished imports'
    return new ImportError(
      'quota_exceeded',
      `the file does not fit into the organization's quota of ${this.#options.limits.bytes / decimalMegabyte} MB (UPLOAD_MAX_MB), which ${what} share: remove uploads, cancel imports or let them end, and create the import again`,
    )
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
