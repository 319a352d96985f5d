import { AddressGuard } from '../../../shared/net/address-guard.ts'
import { ImportError } from '../../../shared/contract/errors.ts'
import { downloadBounds } from '../../../shared/net/download-bounds.ts'
import type { ContentSample } from '../../api/body/parse-body.ts'
import type { ControlPlane } from '../../control-plane.ts'
import type { CheckedSource } from '../subscriber-imports/create/options.ts'
import { beginningBytes } from '../../../shared/csv/file-beginning.ts'
import type { Sample } from '../../../shared/csv/sampled-records.ts'
import { faultySource } from '../subscriber-imports/create/refusals.ts'
import { unreadableSource } from './refusals.ts'
import { readBeginning, unpackSample } from './unpack-sample.ts'

/** Bytes that are read of any source, inline content included; of a packed source also before it is unpacked. */
export const maxBytes = beginningBytes
export const maxUrlMs = 30_000

/** Reads the beginning of the source. Throws `validation_failed` when an import couldn't read it either. */
export async function readSample(
  deps: ControlPlane,
  organizationId: number,
  source: CheckedSource,
  content: ContentSample | null,
): Promise<Sample> {
  try {
    switch (source.type) {
      case 'json':
        if (content === null) throw new Error('inline content was checked, and is missing')
        return {
          ...content,
          bytes: Buffer.from(content.bytes.buffer, content.bytes.byteOffset, content.bytes.length),
        }
      case 'upload_directory':
        return await sampleUpload(deps, organizationId, source.filename)
      case 'url': {
        const what = JSON.stringify(source.filename)
        const options = { what, signal: deps.stopping, maxBytes }
        return await unpackSample(await downloadBeginning(deps, source), options)
      }
    }
  } catch (error) {
    throw error instanceof ImportError ? unreadableSource[source.type](error.message) : error
  }
}

async function sampleUpload(
  { uploads, stopping }: ControlPlane,
  organizationId: number,
  name: string,
): Promise<Sample> {
  const file = await uploads.open(organizationId, name)
  if (file === null) throw faultySource.noSuchUpload(name)
  try {
    const bytes = Buffer.alloc(Math.min(maxBytes, file.size))
    const length = await file.read(bytes, 0)
    const beginning = { bytes: bytes.subarray(0, length), isWhole: file.size <= maxBytes }
    return await unpackSample(beginning, {
      what: JSON.stringify(name),
      signal: stopping,
      ...{ maxBytes, file },
    })
  } finally {
    await file.close()
  }
}

async function downloadBeginning(
  { settings, stopping }: ControlPlane,
  source: CheckedSource,
): Promise<Sample> {
  // Loading the HTTP and FTP clients takes a fifth of a process's start, and is left to the first inspection of a URL.
  const { downloadedContent } = await import('../../../shared/net/download.ts')
  const ended = new AbortController()
  const timer = setTimeout(() => ended.abort(), maxUrlMs)
  const received: Buffer[] = []
  const pieces = downloadedContent(new URL(source.url ?? ''), {
    guard: new AddressGuard(settings.URL_IMPORT_ALLOW),
    bounds: { ...downloadBounds, connectMs: maxUrlMs, silenceMs: maxUrlMs },
    signal: AbortSignal.any([stopping, ended.signal]),
    remainingMs: maxUrlMs * 2,
    onProgress: () => undefined,
  })
  try {
    return await readBeginning(pieces, maxBytes, { received, onEnough: () => ended.abort() })
  } catch (error) {
    if (!ended.signal.aborted) throw error
    // The time is up, and what was received is enough for a sample.
    if (received.length > 0) return { bytes: Buffer.concat(received), isWhole: false }
    throw unreadableSource.url(`its server sent nothing within ${maxUrlMs / 1000} s`)
  } finally {
    clearTimeout(timer)
  }
}
