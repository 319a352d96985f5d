import type { ImportPlan } from '../../../shared/contract/schemas/import.ts'
import { contentFormat } from '../../../shared/contract/schemas/import.ts'
import { clock } from '../../../shared/runtime/clock.ts'
import { batchRecords } from '../../../shared/csv/chunk-records.ts'
import { MemoryFile } from '../../../shared/storage/staging/memory-file.ts'
import { requireSource } from '../../../shared/storage/staging/packed-content.ts'
import type { StepRun } from '../../runner/step.ts'
import { cancellation, progressIndex, type SmallImportReport } from '../../workers/messages.ts'
import { allocateIds, chunkDocuments } from './split-import.ts'
import { minRangeBytes, splitFile } from './split.ts'

/**
 * Imports a small source in one go: splits it in memory, and hands its records to a worker, which writes all of it and the
 * import's end in one transaction (../write/small-import.ts). Null where it isn't small, or can't be written so: then
 * nothing is written, and the import goes the long way.
 */
export async function importSmall(
  run: StepRun,
  plan: ImportPlan,
  staged: string,
): Promise<Exclude<SmallImportReport, { end: 'not_written' }> | null> {
  const { document, staging, pool, signal, step, database, metrics, log } = run
  const { content: _, ...withoutContent } = document
  const { beginning, options } = document
  if (beginning === undefined || options.deactivate_subscribers_not_in_import) return null
  // A stored plan may be older than this claim of the step, and so than a new limit of the organization.
  if (document.plan !== null) return null
  const source = await requireSource(staging, staged)
  const partition = new MemoryFile()
  const beganAt = clock.monotonicMs()
  try {
    if (source.size > minRangeBytes) return null
    const { ranges, records, header, warnings } = await splitFile({
      ...{ source, output: partition, reopen: () => Promise.resolve(partition) },
      ...{ plan, format: contentFormat(document), beginning, signal },
    })
    if (records > batchRecords) return null
    const splitAt = clock.monotonicMs()
    const ids = await allocateIds(database, plan, records)
    // An abort until here is heard by no listener.
    signal.throwIfAborted()
    const cancelled = new Int32Array(new SharedArrayBuffer(8))
    run.progress.waitsForLane = () => Atomics.load(cancelled, progressIndex) === 0
    const cancel = () => Atomics.store(cancelled, 0, cancellation.stop)
    signal.addEventListener('abort', cancel)
    const report = await pool
      .writeSmallImport({
        document: {
          ...withoutContent,
          ...{ plan, header, number_of_records: records, warnings: [...document.warnings, ...warnings] },
        },
        chunks: chunkDocuments(document, plan, ranges, ids),
        ...{ bytes: partition.bytes, token: step.token, cancellation: cancelled.buffer },
      })
      .finally(() => signal.removeEventListener('abort', cancel))
    if (report.end === 'not_written') {
      log.debug(`the import takes the long way: ${report.reason}`)
      return null
    }
    metrics.bytes('split', beginning.source_bytes ?? source.size)
    metrics.stageEnded('split', (splitAt - beganAt) / 1000)
    if (report.end === 'finished')
      for (const _ of ranges) metrics.chunkEnded('done', (clock.monotonicMs() - splitAt) / 1000)
    return report
  } finally {
    await source.close()
  }
}
