import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { RequestError } from '../../../shared/contract/errors.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { nextPiece, pieceBytes } from '../pieces.ts'
import { bodyPieces } from './body-pieces.ts'
import { JsonSkeleton } from './json-skeleton.ts'
import { parseJson } from './json-text.ts'
import { SampledContent, type ContentSample } from './sampled-content.ts'
import { StagedContent, type InlineContent } from './staged-content.ts'

export const megabyte = 1024 * 1024

/** What a request's body comes to. */
export interface RequestBody {
  /** Its JSON; undefined where the request has none. */
  value: unknown
  /** SHA-256 of its bytes, decompressed, as base64url. */
  hash: string
  /** The text at the path that is staged, if there is one: in `value` stands a placeholder for it. */
  content: InlineContent | null
  /** Its beginning instead, where nothing is staged. */
  sample: ContentSample | null
  /** Removes the content, unless it was kept. */
  discard: () => Promise<void>
}

/** What a body may keep in memory without a turn (largeBodies): small requests never wait for large ones. */
const smallBytes = 4 * 1024

/** Resolves when a body that isn't small may be read on. */
export type BeginLargeBody = () => Promise<void>

/**
 * Reads a body of at most 1 MB. Throws `invalid_request`, 413, 503 when the process stops before it is there, and what
 * `beginLarge` does.
 */
export async function readSmallBody(
  request: IncomingMessage,
  { stopping }: Pick<ControlPlane, 'stopping'>,
  beginLarge: BeginLargeBody,
): Promise<RequestBody> {
  const pieces: Buffer[] = []
  let size = 0
  for await (const piece of bodyPieces(request, megabyte, { stopping })) {
    if (size <= smallBytes && size + piece.length > smallBytes) await beginLarge()
    size += piece.length
    pieces.push(piece)
  }
  // A megabyte of JSON is parsed at once.
  if (size > pieceBytes) await nextPiece()
  const bytes = Buffer.concat(pieces)
  return {
    value: bytes.length === 0 ? undefined : parseJson(bytes),
    hash: createHash('sha256').update(bytes).digest('base64url'),
    content: null,
    sample: null,
    discard: async () => undefined,
  }
}

/**
 * Reads a body of which the string at `path` may be large: it goes into the staging as it arrives, or with
 * `sampledBytes` its beginning is kept in memory. The rest is at most 1 MB. Throws as readSmallBody does, and what the
 * staging throws; then nothing stays there.
 */
export async function readInlineBody(
  request: IncomingMessage,
  { path, sampledBytes }: { path: readonly string[]; sampledBytes: number | undefined },
  { settings, staging, database, stopping }: ControlPlane,
  beginLarge: BeginLargeBody,
): Promise<RequestBody> {
  const hash = createHash('sha256')
  const staged = new StagedContent(staging, database)
  const sampled = sampledBytes === undefined ? null : new SampledContent(sampledBytes)
  const skeleton = new JsonSkeleton({ path, limit: megabyte, sink: sampled ?? staged })
  let refusal: { error: unknown } | null = null
  let size = 0
  let hasSlot = false
  try {
    const limit = settings.HTTP_INLINE_LIMIT_MB * megabyte
    for await (const piece of bodyPieces(request, limit, { stopping })) {
      size += piece.length
      // Large content takes turns with other large bodies and replies.
      if (size > pieceBytes) await nextPiece()
      hash.update(piece)
      // A body that is refused is read to its end: that it is too large would have to be said first.
      if (refusal !== null) continue
      try {
        skeleton.write(piece)
        await staged.flush()
        if (hasSlot || skeleton.length + (sampled?.size ?? 0) <= smallBytes) continue
        hasSlot = true
        await beginLarge()
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
    (inner, key) =>
      typeof inner === 'object' && inner !== null && Object.hasOwn(inner, key)
        ? (inner as Record<string, unknown>)[key]
        : undefined,
    value,
  )
}
