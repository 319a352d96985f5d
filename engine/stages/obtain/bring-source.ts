import { ImportError } from '../../../shared/contract/errors.ts'
import { readRange } from '../../../shared/containers/random-access-file.ts'
import type { SourceType } from '../../../shared/contract/schemas/import.ts'
import { beginningBytes, readBeginning } from '../../../shared/csv/file-beginning.ts'
import { requireSource } from '../../../shared/storage/staging/packed-content.ts'
import type { Staging } from '../../../shared/storage/staging/staging.ts'
import type { StepRun } from '../../runner/step.ts'
import { ContentReader, requestOf, type ReadContent } from './content-reader.ts'
import { jsonSource } from './json.ts'
import type { Source, SourceContext } from './source.ts'
import { uploadDirectorySource } from './upload-directory.ts'
import { urlSource } from './url.ts'

/** How the bytes of each type of source get into the staging. */
const sources: Record<SourceType, Source> = {
  json: jsonSource,
  upload_directory: uploadDirectorySource,
  url: urlSource,
}

export interface BroughtSource extends ReadContent {
  /** Name of the staged source. */
  staged: string
}

/**
 * Brings the import's source into staging, against the organization's quota, and reads its beginning. Throws as Source
 * does, and ImportError `content_refused` for what isn't CSV text in its character set.
 */
export async function bringSource(
  run: StepRun,
  target: string,
  download: Pick<SourceContext, 'remainingMs' | 'onProgress'> = {
    remainingMs: 0,
    onProgress: () => undefined,
  },
): Promise<BroughtSource> {
  const { document, uploads, secrets, guard, bounds, signal } = run
  const within = document.source.type === 'url' ? 'all' : 'staged'
  const reader = new ContentReader(document)
  const staging: Staging = {
    ...run.staging,
    write: (name, content) =>
      run.staging.write(name, run.quota.reserved(document, reader.read(content), within)),
  }
  try {
    const staged = await sources[document.source.type](document, {
      ...{ staging, target, uploads, secrets, guard, bounds, signal },
      spool: zipSpool(run, target, within),
      ...download,
    })
    if (reader.result !== null) return { staged, ...reader.result }
    const inPlace = await readStaged(run, staged)
    if (!inPlace.isTranscoded) return inPlace
    await copyConverted(run, staged, (content) => staging.write(target, content))
    return { staged: target, ...reader.result! }
  } catch (error) {
    throw error instanceof ImportError ? error : (reader.refusal ?? error)
  }
}

/**
 * Stores the zips of a source next to it in the staging while they are unpacked: at most two, the second of which is in
 * the first. Throws ImportError `quota_exceeded`, and the errors of the staging.
 */
function zipSpool(
  { staging, quota, document }: StepRun,
  target: string,
  within: 'all' | 'staged',
): SourceContext['spool'] {
  /** Sizes of the zips that are there, by their staged names. */
  const sizes = new Map<string, number>()
  const besides = () => [...sizes.values()].reduce((sum, size) => sum + size, 0)
  return async (content) => {
    const name = `${target}-zip${sizes.size}`
    const size = await staging.write(name, quota.reserved(document, content, within, besides))
    const file = await staging.open(name)
    if (file === null) throw new Error(`the staged file ${name} is gone: was DATA_DIR/staging emptied?`)
    sizes.set(name, size)
    return {
      size,
      read: (buffer, position) => file.read(buffer, position),
      close: async () => {
        sizes.delete(name)
        await file.close()
        await staging.remove(name)
      },
    }
  }
}

/** Reads the beginning of a source that is staged already. */
async function readStaged(
  { document, staging }: StepRun,
  staged: string,
): Promise<BroughtSource & { isTranscoded: boolean }> {
  const file = await requireSource(staging, staged)
  try {
    const bytes = Buffer.alloc(Math.min(beginningBytes, file.size))
    const read = await file.read(bytes, 0)
    const sample = { bytes: bytes.subarray(0, read), isWhole: file.size <= beginningBytes }
    const { stored, warnings, transcodedFrom } = readBeginning(sample, requestOf(document))
    return { staged, beginning: stored, warnings, isTranscoded: transcodedFrom !== null }
  } finally {
    await file.close()
  }
}

/** Copies an upload into the staging, converted. Uploads that needn't be converted are read in place. */
async function copyConverted(
  { staging, signal }: StepRun,
  staged: string,
  write: (content: AsyncIterable<Uint8Array>) => Promise<unknown>,
): Promise<void> {
  const file = await requireSource(staging, staged)
  try {
    await write(readRange(file, { start: 0, end: file.size, signal }))
  } finally {
    await file.close()
  }
}
