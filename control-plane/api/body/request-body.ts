import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { RequestError } from '../request-error.ts'
import { binaryMegabyte } from '../../../shared/values/byte-sizes.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { pieceBytes } from '../pieces.ts'
import { basePath } from '../scope.ts'
import { isHash } from '../validation.ts'
import { bodyPieces } from './body-pieces.ts'
import { JsonSkeleton } from './json-skeleton.ts'
import { parseJson } from './json-text.ts'
import { SampledContent, type ContentSample } from './sampled-content.ts'
import { StagedContent, type InlineContent } from './staged-content.ts'

/** A request's body, read and parsed. */
export interface RequestBody {
  /** The JSON value; undefined for a request without a body. */
  value: unknown
  /** SHA-256 of the decompressed bytes, as base64url. */
  hash: string
  /** The staged text, for which `value` has a placeholder; null when there is none. */
  content: InlineContent | null
  /** The beginning of that text, where nothing is staged. */
  sample: ContentSample | null
  /** Removes the staged text unless it was kept. */
  discard: () => Promise<void>
}

/** A body up to this size needs no slot of `largeBodies`, so that small requests never wait for large ones. */
const smallBytes = 4 * 1024

/** Waits for the slot in which a body that isn't small may be read further. */
type AcquireLargeBody = () => Promise<void>

/**
 * Reads a body of at most 1 MiB. Throws `invalid_request`, 413, 503 when the process stops before the body has arrived,
 * and the errors of `acquireLarge`.
 */
export async function readSmallBody(
  request: IncomingMessage,
  { stopping, pacer }: Pick<ControlPlane, 'stopping' | 'pacer'>,
  acquireLarge: AcquireLargeBody,
): Promise<RequestBody> {
  const pieces: Buffer[] = []
  let size = 0
  for await (const piece of bodyPieces(request, binaryMegabyte, { stopping })) {
    if (size <= smallBytes && size + piece.length > smallBytes) await acquireLarge()
    size += piece.length
    pieces.push(piece)
  }
  // Parsing 1 MiB blocks the event loop, so it waits like a piece of a large reply.
  if (size > pieceBytes) await pacer.nextPiece()
  const bytes = Buffer.concat(pieces)
  return {
    value: bytes.length === 0 ? undefined : parseJson(bytes),
    hash: createHash('sha256').update(bytes).digest('base64url'),
    content: null,
    sample: null,
    discard: async () => undefined,
  }
}

export const largerHint = `: send what is larger by PUT ${basePath}/uploads/NAME, and import it with the file_source {"type": "upload_directory", "filename": "NAME"}`

/**
 * Reads a body whose string at `path` may be large. That string is staged as it arrives, or with `sampledBytes` only
 * its beginning is kept in memory. Everything else may have 1 MiB. Throws as readSmallBody does, and the errors of the
 * staging; then nothing stays staged.
 */
export async function readInlineBody(
  request: IncomingMessage,
  { path, sampledBytes }: { path: readonly string[]; sampledBytes: number | undefined },
  { settings, staging, database, stopping, pacer }: ControlPlane,
  acquireLarge: AcquireLargeBody,
): Promise<RequestBody> {
  const hash = createHash('sha256')
  const staged = new StagedContent(staging, database)
  const sampled = sampledBytes === undefined ? null : new SampledContent(sampledBytes)
  const skeleton = new JsonSkeleton({ path, limit: binaryMegabyte, sink: sampled ?? staged })
  let refusal: { error: unknown } | null = null
  let size = 0
  let hasSlot = false
  try {
    const limit = settings.HTTP_INLINE_LIMIT_MB * binaryMegabyte
    for await (const piece of bodyPieces(request, limit, { stopping }, largerHint)) {
      size += piece.length
      // The pieces of large bodies and replies share the event loop.
      if (size > pieceBytes) await pacer.nextPiece()
      hash.update(piece)
      // A refused body is read to its end, because a 413 has precedence over the refusal.
      if (refusal !== null) continue
      try {
        skeleton.write(piece)
        await staged.flush()
        if (hasSlot || skeleton.length + (sampled?.size ?? 0) <= smallBytes) continue
        hasSlot = true
        await acquireLarge()
      } catch (error) {
        if (error instanceof RequestError && error.status === 413) throw error
        refusal = { error }
        await staged.discard()
      }
    }
    if (refusal !== null) throw refusal.error
    const value = size === 0 ? undefined : parseJson(skeleton.end())
    const hasContent = skeleton.standsForString(valueAt(value, path))
    return {
      value,
      hash: hash.digest('base64url'),
      content: hasContent && sampled === null ? await staged.finish() : null,
      sample: hasContent && sampled !== null ? sampled.finish() : null,
      discard: () => staged.discard(),
    }
  } catch (error) {
    await staged.discard()
    throw error
  }
}

function valueAt(value: unknown, path: readonly string[]): unknown {
  return path.reduce(
    (inner, key) => (isHash(inner) && Object.hasOwn(inner, key) ? inner[key] : undefined),
    value,
  )
}
