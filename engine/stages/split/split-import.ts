import { randomUUID } from 'node:crypto'
import { runInTransaction } from '../../../shared/runtime/transactions.ts'
import { errorMessage } from '../../../shared/contract/errors.ts'
import { reactionsPerRecord } from '../../../shared/store/import-plan.ts'
import { openPartition } from '../../../shared/csv/partition-file.ts'
import {
  chunkId,
  contentFormat,
  noCounts,
  type ChunkDocument,
  type SourceBeginning,
  type ImportDocument,
  type ImportPlan,
} from '../../../shared/contract/schemas/import.ts'
import { freeLease } from '../../../shared/contract/schemas/lease.ts'
import { logImportState } from '../../../shared/processes/import-log.ts'
import { requireSource } from '../../../shared/storage/staging/packed-content.ts'
import { isStagingFull, stagedPartition } from '../../../shared/storage/staging/staging.ts'
import { replaceChunks } from '../../../shared/store/chunks.ts'
import { writeInStep } from '../../../shared/store/import-steps.ts'
import { noTries } from '../../../shared/store/work-leases.ts'
import { QuotaInUse } from '../obtain/source.ts'
import type { StepRun } from '../../runner/step.ts'
import type { Range } from './range-writer.ts'
import { splitFile, type SplitResult } from './split.ts'

/** A partition stores a header and the identity with each record: twice the bytes of a source with short records. */
const partitionRatio = 2

/**
 * Splits the staged source named `staged` and stores the chunks, then removes the files that are no longer needed. The
 * import must have the source's `beginning`.
 * Throws ImportError `source_missing`, QuotaInUse, and what splitFile throws.
 */
export async function splitImport(run: StepRun, plan: ImportPlan, staged: string): Promise<void> {
  const { document, staging, quota, signal } = run
  const { beginning } = document
  if (beginning === undefined) throw new Error("the beginning of the import's source wasn't read")
  const partition = stagedPartition(document._id, randomUUID())
  let bytes = 0
  const source = await requireSource(staging, staged)
  try {
    if (!(await quota.reservePartition(document, source.size * partitionRatio))) throw new QuotaInUse()
    const output = await staging.create(partition)
    try {
      const result = await splitFile({
        source,
        output,
        reopen: () => openPartition(staging, { partition }),
        plan,
        format: contentFormat(document),
        beginning,
        signal,
      })
      // Other engines could not read chunks in a folder that only this engine has.
      await run.folder.require({ fresh: true })
      run.metrics.bytes('split', beginning.source_bytes ?? source.size)
      await enterImporting(run, plan, { beginning, result, partition })
      bytes = result.ranges.reduce((sum, { length }) => sum + length, 0)
    } catch (error) {
      // The import waits for disk space, which this file would take.
      if (isStagingFull(error)) await staging.remove(partition).catch(() => undefined)
      throw error
    } finally {
      await output.close()
    }
  } finally {
    await source.close()
  }
  await removeUnused(run, partition, bytes)
}

/** Once the chunks are stored, the source and the files of killed tries are no longer needed. */
async function removeUnused(run: StepRun, partition: string, bytes: number): Promise<void> {
  const { document, step, database, staging, uploads, quota, log, signal } = run
  if (signal.aborted) return
  const current = await database.collections.imports.findOne(
    { _id: step.id },
    { projection: { partition: 1 } },
  )
  if (current?.partition !== partition) return
  try {
    await staging.removeImport(step.id, { keep: [partition] })
    await uploads.unpin(step.id)
    await quota.recordPartition(document, bytes)
  } catch (error) {
    log.debug(`a staged source stays until the end of the import: ${errorMessage(error)}`)
  }
}

/** Stores the chunks and the state `importing`, in which they can be claimed, in one transaction. */
async function enterImporting(
  run: StepRun,
  plan: ImportPlan,
  { beginning, result, partition }: { beginning: SourceBeginning; result: SplitResult; partition: string },
): Promise<void> {
  const { document, step, session } = run
  const { collections } = run.database
  const firstIds = await allocateIds(run.database, plan, result.records)
  const chunks = chunkDocuments(document, plan, result.ranges, firstIds)
  const keepsAbsent = document.options.deactivate_subscribers_not_in_import && result.mayMissRecords
  const isStored = await runInTransaction(session, async () => {
    const set = {
      state: 'importing' as const,
      ...noTries,
      number_of_records: result.records,
      header: result.header,
      warnings: [...document.warnings, ...result.warnings, ...(keepsAbsent ? [absentKept] : [])],
      ...(keepsAbsent ? { keeps_absent: true as const } : {}),
      beginning,
      partition,
    }
    const update = { $set: set, $unset: { content: '' as const } }
    if (!(await writeInStep(collections, { ...step, state: 'splitting' }, update, session))) return false
    await replaceChunks(collections, session, document._id, chunks)
    return true
  })
  if (!isStored) return
  run.log.info({ records: result.records, chunks: chunks.length }, 'split')
  logImportState(run.log, document, { from: 'splitting', to: 'importing', by: { by: 'service' } })
}

const absentKept =
  'deactivate_subscribers_not_in_import deactivates no subscriber, because records of the file may have swallowed others: correct the file and import it again'

interface FirstIds {
  firstSubscriberId: number
  firstReactionId: number
}

/** Ids for the subscribers and reactions that the records may become. */
export async function allocateIds(
  { ids }: StepRun['database'],
  plan: ImportPlan,
  records: number,
): Promise<FirstIds> {
  const reactions = records * reactionsPerRecord(plan)
  return {
    firstSubscriberId: records === 0 ? 1 : await ids.allocate('subscriber', records),
    firstReactionId: reactions === 0 ? 1 : await ids.allocate('reaction', reactions),
  }
}

export function chunkDocuments(
  document: ImportDocument,
  plan: ImportPlan,
  ranges: Range[],
  ids: FirstIds,
): ChunkDocument[] {
  let records = 0
  return ranges.map((range, number) => {
    const before = records
    records += range.records
    return {
      _id: chunkId(document._id, number),
      import_id: document._id,
      organization_id: document.organization_id,
      dry_run: document.options.dry_run,
      number,
      state: 'ready',
      kind: range.kind,
      from: range.from?.toString() ?? null,
      to: range.to?.toString() ?? null,
      pieces: range.pieces,
      crc32: range.crc32,
      record_count: range.records,
      first_subscriber_id: ids.firstSubscriberId + before,
      first_reaction_id: ids.firstReactionId + before * reactionsPerRecord(plan),
      quota_reserved: 0,
      quota_used: 0,
      lease: freeLease,
      fence: 0,
      next_record: 0,
      deactivated_to: null,
      counts: noCounts(),
    }
  })
}
