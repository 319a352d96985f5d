import type { Readable } from 'node:stream'
import { AddressGuard } from '../../../shared/net/address-guard.ts'
import { ImportError, RequestError } from '../../../shared/contract/errors.ts'
import { downloadBounds } from '../../../shared/net/download-bounds.ts'
import { downloadedContent } from '../../../shared/net/download.ts'
import { gunzipUpload, isGzipName } from '../../../shared/net/gzip.ts'
import type { ContentSample } from '../../api/body/sampled-content.ts'
import type { ControlPlane } from '../../control-plane.ts'
import type { CheckedSource } from '../subscriber-imports/create/options.ts'

/** The beginning of a source. */
export interface Sample {
  bytes: Buffer
  /** Nothing comes behind it. */
  isWhole: boolean
}

/** Of inline content too. */
export const maxBytes = 1024 * 1024
export const maxUrlMs = 30_000

/** Reads the beginning of what an import would read; refused with a reason where it would get nothing. */
export async function takeSample(
  deps: ControlPlane,
  organizationId: number,
  source: CheckedSource,
  content: ContentSample | null,
): Promise<Sample> {
  switch (source.type) {
    case 'json':
      return content!
    case 'upload_directory':
      return ofUpload(deps, organizationId, source.filename)
    case 'url':
      return ofUrl(deps, source)
  }
}

async function ofUpload({ uploads }: ControlPlane, organizationId: number, name: string): Promise<Sample> {
  const stream = await uploads.directory(organizationId).read(name, 0)
  if (stream === null)
    throw new RequestError(
      'validation_failed',
      `file_source.filename ${JSON.stringify(name)} is not in the upload directory`,
    )
  const pieces: AsyncIterable<Buffer> = isGzipName(name)
    ? gunzipUpload(stream as AsyncIterable<Buffer>, JSON.stringify(name))
    : (stream as AsyncIterable<Buffer>)
  try {
    return await beginningOf(pieces)
  } catch (error) {
    throw refusal('file_source.filename', error)
  } finally {
    destroy(stream)
  }
}

/** A stream that is left before its end has nobody to tell what befalls it. */
function destroy(stream: Readable): void {
  stream.on('error', () => undefined).destroy()
}

async function ofUrl({ settings, stopping }: ControlPlane, source: CheckedSource): Promise<Sample> {
  const enough = new AbortController()
  const timer = setTimeout(() => enough.abort(), maxUrlMs)
  const received: Buffer[] = []
  const pieces = downloadedContent(new URL(source.url!), source.filename, {
    guard: new AddressGuard(settings.URL_IMPORT_ALLOW),
    bounds: { ...downloadBounds, connectMs: maxUrlMs, silenceMs: maxUrlMs },
    signal: AbortSignal.any([stopping, enough.signal]),
    leftMs: maxUrlMs * 2,
    onProgress: () => undefined,
  })
  try {
    return await beginningOf(pieces, received, () => enough.abort())
  } catch (error) {
    if (!enough.signal.aborted) throw refusal('file_source.url', error)
    // What came until then is looked at.
    if (received.length > 0) return { bytes: Buffer.concat(received), isWhole: false }
    throw new RequestError(
      'validation_failed',
      `file_source.url can't be read: nothing came within ${maxUrlMs / 1000} s`,
    )
  } finally {
    clearTimeout(timer)
  }
}

async function beginningOf(
  pieces: AsyncIterable<Buffer>,
  received: Buffer[] = [],
  onEnough: () => void = () => undefined,
): Promise<Sample> {
  let length = 0
  for await (const piece of pieces) {
    received.push(piece)
    length += piece.length
    if (length < maxBytes) continue
    onEnough()
    return { bytes: Buffer.concat(received).subarray(0, maxBytes), isWhole: false }
  }
  return { bytes: Buffer.concat(received), isWhole: true }
}

/** What an import would fail with, as what it is here: the request's fault. */
function refusal(field: string, error: unknown): unknown {
  if (!(error instanceof ImportError)) return error
  return new RequestError('validation_failed', `${field} can't be read: ${error.message}`, { cause: error })
}
