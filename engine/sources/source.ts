import type { AddressGuard } from '../../shared/address-guard.ts'
import type { ImportDocument } from '../../shared/schemas/import.ts'
import type { Staging } from '../../shared/staging/staging.ts'
import type { DownloadBounds } from './download-bounds.ts'

/**
 * Where an import's bytes come from. A source brings them into staging, whole, under `stagedSource(id)`; from there on
 * the engine knows no difference. Bringing them again replaces them.
 *
 * Throws ImportError: `retryable` where a later try may go well. Errors of the staging are thrown as they are.
 */
export type Source = (document: ImportDocument, context: SourceContext) => Promise<void>

export interface SourceContext {
  staging: Staging
  dataFolder: string
  /** Says which addresses may be reached. */
  guard: AddressGuard
  bounds: DownloadBounds
  /** What is left of the time for all tries of a download. */
  leftMs: number
  signal: AbortSignal
  /** Bytes that came so far and how many will, if that is known; both before any decoding. */
  onProgress: (received: number, expected: number | null) => void
}
