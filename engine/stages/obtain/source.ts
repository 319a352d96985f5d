import type { AddressGuard } from '../../../shared/net/address-guard.ts'
import type { ImportDocument } from '../../../shared/contract/schemas/import.ts'
import type { SecretBox } from '../../../shared/runtime/secret-box.ts'
import type { DownloadBounds } from '../../../shared/net/download-bounds.ts'
import type { Staging } from '../../../shared/storage/staging/staging.ts'
import type { Uploads } from '../../../shared/storage/uploads/upload-store.ts'

/**
 * Where an import's bytes come from. A source brings them into staging, whole, under the name `target`, which is this
 * try's own, or finds them there. Resolves to the name that they have there.
 *
 * Elsewhere the engine tells sources apart where it must: an upload is kept before its import begins (import-starter.ts),
 * and one that is split where it lies is looked at again (split-import.ts); inline content, which is UTF-8, keeps the
 * name that the request gave it, and a URL has several tries (process-import.ts).
 *
 * Throws ImportError: `retryable` where a later try may go well; StillWritten where it is to be looked at again. Errors of
 * the staging are thrown as they are.
 */
export type Source = (document: ImportDocument, context: SourceContext) => Promise<string>

export interface SourceContext {
  staging: Staging
  target: string
  uploads: Uploads
  secrets: SecretBox
  /** Says which addresses may be reached. */
  guard: AddressGuard
  bounds: DownloadBounds
  /** What is left of the time for all tries of a download. */
  leftMs: number
  signal: AbortSignal
  /** Bytes that came so far and how many will, if that is known; both before any decoding. */
  onProgress: (received: number, expected: number | null) => void
}

/** Other imports of the organization take what its quota has for staged files: it is tried again. */
export class QuotaTaken extends Error {
  override readonly name = 'QuotaTaken'
}

/** Something else than our FTP server still writes the upload; the fingerprint is how it looks now. */
export class StillWritten extends Error {
  override readonly name = 'StillWritten'
  readonly fingerprint: string

  constructor(filename: string, fingerprint: string) {
    super(`${JSON.stringify(filename)} is still being written`)
    this.fingerprint = fingerprint
  }
}
