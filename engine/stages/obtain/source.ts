import type { UnpackOptions } from '../../../shared/containers/unpack.ts'
import type { ImportDocument } from '../../../shared/contract/schemas/import.ts'
import type { StepRun } from '../../runner/step.ts'

/**
 * Where an import's bytes come from. A source brings the whole content into staging under the name `target`, which no
 * other try uses, or finds it there under another name. Resolves to the staged name.
 *
 * Elsewhere the engine tells the sources apart in these places. An upload is pinned before its import begins
 * (starts.ts). Inline content is UTF-8 and keeps the name that the request gave it; a URL has several tries
 * (process-import.ts).
 *
 * Throws ImportError, `retryable` where a later try may succeed. The staging's errors are thrown as they are.
 */
export type Source = (document: ImportDocument, context: SourceContext) => Promise<string>

export interface SourceContext extends Pick<
  StepRun,
  'staging' | 'uploads' | 'secrets' | 'guard' | 'bounds' | 'signal'
> {
  target: string
  /** Stores a zip of the import for as long as it is unpacked. */
  spool: UnpackOptions['spool']
  /** Time that remains for all tries of a download. */
  remainingMs: number
  /** Called with the bytes received so far and the expected total, if known; both before any decoding. */
  onProgress: (received: number, expected: number | null) => void
}

/** The organization's other imports use up its quota for staged files; the step is tried again later. */
export class QuotaInUse extends Error {
  override readonly name = 'QuotaInUse'
}
