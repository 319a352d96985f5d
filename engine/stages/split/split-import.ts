import { randomUUID } from 'node:crypto'
import { inTransactionOf, nextIds } from '../../../shared/runtime/database.ts'
import { ImportError, messageOf } from '../../../shared/contract/errors.ts'
import { reactionsPerRecord } from '../../../shared/store/import-plan.ts'
import { openPartition } from '../../../shared/csv/partition-file.ts'
import {
  chunkId,
  contentFormat,
  noCounts,
  type ChunkDocument,
  type ImportDocument,
  type ImportPlan,
} from '../../../shared/contract/schemas/import.ts'
import { DiskReserveReached } from '../../../shared/storage/staging/disk-reserve.ts'
import { openSource } from '../../../shared/storage/staging/packed-content.ts'
import { stagedPartition } from '../../../shared/storage/staging/staging.ts'
import { replaceChunks } from '../../../shared/store/chunks.ts'
import { writeInStep } from '../../../shared/store/import-steps.ts'
import { QuotaTaken } from '../obtain/source.ts'
import { refuseIfWrittenInto } from '../obtain/upload-directory.ts'
import type { StepRun } from '../../scheduler/step.ts'
import type { Range } from './range-writer.ts'
import { splitFile, type SplitResult } from './split.ts'
import type { HelperThread } from './tail-scan.ts'

/**
 * The part of a step that makes chunks of a staged source: splits it, enters the chunks, and removes what is of no use any
 * more. `staged`: the source's name. Throws ImportError `source_missing`, and what splitFile throws.
 */
export async function splitImport(run: StepRun, plan: ImportPlan, staged: string): Promise<void> {
  const { document, staging, uploads, pool, log, signal } = run
  await refuseIfWrittenInto(document, staged, uploads)
  const partition = stagedPartition(document._id, randomUUID())
  const secondHalf = `${partition}-tail`
  const second: HelperThread = {
    source: staged,
    output: secondHalf,
    minBytes: run.twoThreadsFrom,
    progress: run.progress.shared,
    scan: (task) => pool.runSecondHalf(task),
    onBrokenOff: (error) => {
      if (!signal.aborted)
        log.warn(`a worker's part of a split broke off, it is done without: ${messageOf(error)}`)
    },
    removeOutput: () =>
      staging.remove(secondHalf).catch((error: unknown) => {
        log.debug(`a worker's part of a split stays until the split's end: ${messageOf(error)}`)
      }),
  }
  let bytes = 0
  const source = await openSource(staging, staged)
  if (source === null)
    throw new ImportError('source_missing', 'the staged file is gone: was DATA_DIR/staging emptied?', {
      isMissing: true,
    })
  try {
    await reservePartition(run, source.size)
    const output = await staging.create(partition)
    try {
      const result = await splitFile({
        source,
        output,
        reopen: (secondHalf) =>
          openPartition(staging, { partition, ...(secondHalf && { partition_tail: secondHalf }) }),
        second,
        plan,
        format: contentFormat(document),
        signal,
        // Whatever came of it, it came of another file if this one was written into.
        // oxlint-disable-next-line typescript/no-misused-promises -- what a callback of finally returns is waited for
      }).finally(() => refuseIfWrittenInto(document, staged, uploads))
      // Chunks in a folder that only this engine sees would be of use to nobody.
      await run.folder.require({ fresh: true })
      run.metrics.bytes('split', source.size)
      await enterImporting(run, plan, { result, partition })
      bytes = result.ranges.reduce((sum, { length }) => sum + length, 0)
    } catch (error) {
      // The import waits for space, which this would take.
      if (error instanceof DiskReserveReached) await staging.remove(partition).catch(() => undefined)
      throw error
    } finally {
      await output.close()
    }
  } finally {
    await source.close()
  }
  await leaveOnly(run, partition, bytes)
}

/** Records come with their identities and numbers: of short ones the partition has twice the bytes. */
const partitionRatio = 2

async function reservePartition({ document, quota }: StepRun, sourceBytes: number): Promise<void> {
  if (!(await quota.reservePartition(document, sourceBytes * partitionRatio))) throw new QuotaTaken()
}

/** The source, and what was left of tries that were killed, is of no use once there are chunks. */
async function leaveOnly(run: StepRun, partition: string, bytes: number): Promise<void> {
  const { document, step, database, staging, uploads, quota, log, signal } = run
  if (signal.aborted) return
  const current = await database.collections.imports.findOne(
    { _id: step.id },
    { projection: { partition: 1, partition_tail: 1 } },
  )
  if (current?.partition !== partition) return
  const keep = [partition, ...(current.partition_tail === undefined ? [] : [current.partition_tail.name])]
  try {
    await staging.removeImport(step.id, { keep })
    await uploads.unpin(step.id)
    await quota.hasPartition(document, bytes)
  } catch (error) {
    log.debug(`a staged source stays until the import's end: ${messageOf(error)}`)
  }
}

/** The chunks and the state that lets them be claimed appear together. */
async function enterImporting(
  run: StepRun,
  plan: ImportPlan,
  { result, partition }: { result: SplitResult; partition: string },
): Promise<void> {
  const { document, step, session } = run
  const { collections } = run.database
  const firstSubscriberId =
    result.records === 0 ? 1 : await nextIds(collections, 'subscriber', result.records)
  const reactions = result.records * reactionsPerRecord(plan)
  const firstReactionId = reactions === 0 ? 1 : await nextIds(collections, 'reaction', reactions)
  const chunks = chunkDocuments(document, plan, result.ranges, { firstSubscriberId, firstReactionId })
  const moved = await inTransactionOf(session, async () => {
    const set = {
      state: 'importing' as const,
      step_deaths: 0,
      step_failures: 0,
      number_of_records: result.records,
      header: result.header,
      warnings: [...document.warnings, ...result.warnings],
      partition,
      ...(result.secondHalf === null ? {} : { partition_tail: result.secondHalf }),
    }
    const update = { $set: set, $unset: { missing: '' as const } }
    if (!(await writeInStep(collections, { ...step, state: 'splitting' }, update, session))) return false
    await replaceChunks(collections, session, document._id, chunks)
    return true
  })
  if (moved) run.log.info({ records: result.records, chunks: chunks.length }, 'split')
}

function chunkDocuments(
  document: ImportDocument,
  plan: ImportPlan,
  ranges: Range[],
  ids: { firstSubscriberId: number; firstReactionId: number },
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
      extents: range.extents,
      crc32: range.crc32,
      record_count: range.records,
      first_subscriber_id: ids.firstSubscriberId + before,
      first_reaction_id: ids.firstReactionId + before * reactionsPerRecord(plan),
      places_held: 0,
      places_used: 0,
      token: null,
      engine_id: null,
      attempt: 0,
      lease_until: null,
      next_record: 0,
      deactivated_to: null,
      counts: noCounts(),
    }
  })
}
