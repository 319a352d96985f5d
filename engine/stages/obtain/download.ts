import { ImportError } from '../../../shared/contract/errors.ts'
import { classifyDownloadFailure, parseScheme } from '../../../shared/net/download-failure.ts'
import { beginAttempt, writeInStep } from '../../../shared/store/import-steps.ts'
import { downloadTimeLeft, type StepRun } from '../../runner/step.ts'
import { bringSource, type BroughtSource } from './bring-source.ts'

export const progressEveryMs = 1_000

/** Fields of the import's document. */
interface Progress {
  'download.bytes_received': number
  'download.bytes_expected': number | null
}

/**
 * One try of a download, with its progress stored once a second. Resolves to the source and the final progress, null when
 * the step is lost; throws what bringSource does.
 */
export async function download(
  run: StepRun,
  target: string,
): Promise<{ brought: BroughtSource; progress: Progress } | null> {
  const { document, step, bounds, metrics, signal } = run
  const { collections } = run.database
  const endsAt = await beginAttempt(collections, step, bounds.totalMs)
  if (endsAt === null) return null
  document.download.ends_at = endsAt
  const progress: Progress = { 'download.bytes_received': 0, 'download.bytes_expected': null }
  let hasMoved = false
  const onProgress = (bytes: number, expected: number | null) => {
    metrics.bytes('download', bytes - progress['download.bytes_received'])
    progress['download.bytes_received'] = bytes
    progress['download.bytes_expected'] = expected
    hasMoved = true
    // The first megabyte is looked at before anything is staged, which may take long where it comes slowly.
    run.progress.add()
  }
  const remainingMs = await downloadTimeLeft(run)
  const timer = setInterval(() => {
    if (!hasMoved) return
    hasMoved = false
    writeInStep(collections, { ...step, state: 'downloading' }, { $set: progress }).catch(() => undefined)
  }, progressEveryMs)
  try {
    const brought = await bringSource(run, target, { remainingMs: remainingMs, onProgress })
    metrics.downloadAttempt('ok')
    return { brought, progress }
  } catch (error) {
    if (error instanceof ImportError && !signal.aborted) {
      metrics.downloadAttempt(error.retryable ? 'failed' : 'refused')
      metrics.downloadFailed(parseScheme(document.source.url ?? ''), classifyDownloadFailure(error))
    }
    throw error
  } finally {
    clearInterval(timer)
  }
}
