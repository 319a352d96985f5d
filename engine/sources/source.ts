import path from 'node:path'
import { createGunzip } from 'node:zlib'
import { pipeline } from 'node:stream/promises'
import { PassThrough, type Readable } from 'node:stream'
import { ImportError, messageOf } from '../../shared/errors.ts'
import type { ImportDocument } from '../../shared/schemas/import.ts'
import type { Staging } from '../../shared/staging/staging.ts'

/**
 * Where an import's bytes come from. A source brings them into staging, whole, under `stagedSource(id)`; from there on
 * the engine knows no difference. Bringing them again replaces them.
 *
 * Throws ImportError: `retryable` where a later try may go well.
 */
export type Source = (document: ImportDocument, context: SourceContext) => Promise<void>

export interface SourceContext {
  staging: Staging
  dataFolder: string
  /** CIDRs and host names that may be reached although they are private. */
  allowedHosts: readonly string[]
  signal: AbortSignal
  /** Bytes that came so far and how many will, if that is known. */
  onProgress: (received: number, expected: number | null) => void
}

export const isGzipName = (name: string): boolean => path.extname(name).toLowerCase() === '.gz'

/** The unpacked bytes of a gzip stream. What isn't gzip, or ends early, is an ImportError. */
export async function* gunzip(
  packed: AsyncIterable<Uint8Array> | Readable,
  what: string,
): AsyncGenerator<Buffer> {
  const unpacked = new PassThrough()
  let failure: unknown = null
  const done = pipeline(packed, createGunzip(), unpacked).catch((error: unknown) => {
    failure = error
  })
  try {
    for await (const piece of unpacked) yield piece as Buffer
  } catch (error) {
    failure ??= error
  } finally {
    unpacked.destroy()
    await done
  }
  if (failure === null) return
  if (failure instanceof ImportError) throw failure
  const code = (failure as NodeJS.ErrnoException).code ?? ''
  if (code.startsWith('Z_'))
    throw new ImportError('source_unreadable', `${what} is no intact gzip file: ${messageOf(failure)}`, {
      cause: failure,
    })
  throw failure as Error
}
