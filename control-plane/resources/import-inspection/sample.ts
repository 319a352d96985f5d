import type { Readable } from 'node:stream'
import { AddressGuard } from '../../../shared/net/address-guard.ts'
import { ImportError } from '../../../shared/contract/errors.ts'
import { RequestError } from '../../api/request-error.ts'
import { downloadBounds } from '../../../shared/net/download-bounds.ts'
import { downloadedContent } from '../../../shared/net/download.ts'
import { gunzipUpload, isGzipName } from '../../../shared/net/gzip.ts'
import type { ContentSample } from '../../api/body/sampled-content.ts'
import type { ControlPlane } from '../../control-plane.ts'
import type { CheckedSource } from '../subscriber-imports/create/options.ts'
import { beginningBytes } from '../../../shared/csv/file-beginning.ts'
import type { Sample } from '../../../shared/csv/sampled-records.ts'

/** Of every kind of source, inline content included. */
export const maxBytes = beginningBytes
export const maxUrlMs = 30_000

/** Reads the beginning of the source. Throws `validation_failed` when an import couldn't read it either. */
export async function readSample(
  deps: ControlPlane,
  organizationId: number,
  source: CheckedSource,
  content: ContentSample | null,
): Promise<Sample> {
  switch (source.type) {
    case 'json':
      if (content === null) throw new Error('inline content was checked, and is missing')
      return content
    case 'upload_directory':
      return sampleUpload(deps, organizationId, source.filename)
    case 'url':
      return sampleUrl(deps, source)
  }
}

async function sampleUpload(
  { uploads }: ControlPlane,
  organizationId: number,
  name: string,
): Promise<Sample> {
  const file = await uploads.directory(organizationId).open(name)
  if (file === null)
    throw new RequestError(
      'validation_failed',
      `file_source.filename ${JSON.stringify(name)} is not in the upload directory`,
    )
  const stream = file.read()
  const stored: AsyncIterable<Buffer> = stream
  const pieces = isGzipName(name) ? gunzipUpload(stored, JSON.stringify(name)) : stored
  try {
    return await readBeginning(pieces)
  } catch (error) {
    throw refusal('file_source.filename', error)
  } finally {
    destroy(stream)
  }
}

/** Closes a stream before its end. A later error has no other listener, and would end the process. */
function destroy(stream: Readable): void {
  stream.on('error', () => undefined).destroy()
}

async function sampleUrl({ settings, stopping }: ControlPlane, source: CheckedSource): Promise<Sample> {
  const ended = new AbortController()
  const timer = setTimeout(() => ended.abort(), maxUrlMs)
  const received: Buffer[] = []
  const pieces = downloadedContent(new URL(source.url ?? ''), source.filename, {
    guard: new AddressGuard(settings.URL_IMPORT_ALLOW),
    bounds: { ...downloadBounds, connectMs: maxUrlMs, silenceMs: maxUrlMs },
    signal: AbortSignal.any([stopping, ended.signal]),
    remainingMs: maxUrlMs * 2,
    onProgress: () => undefined,
  })
  try {
    return await readBeginning(pieces, received, () => ended.abort())
  } catch (error) {
    if (!ended.signal.aborted) throw refusal('file_source.url', error)
    // The time is up, and what was received is enough for a sample.
    if (received.length > 0) return { bytes: Buffer.concat(received), isWhole: false }
    throw new RequestError(
      'validation_failed',
      `file_source.url can't be read: its server sent nothing within ${maxUrlMs / 1000} s`,
    )
  } finally {
    clearTimeout(timer)
  }
}

async function readBeginning(
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

/** Turns an error with which the import would fail into a refusal of the request. */
function refusal(field: string, error: unknown): unknown {
  if (!(error instanceof ImportError)) return error
  return new RequestError('validation_failed', `${field} can't be read: ${error.message}`, { cause: error })
}
