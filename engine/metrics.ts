import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { importErrorCodes } from '../shared/contract/errors.ts'
import { endedStates, type ImportState } from '../shared/contract/import-state.ts'
import { clock } from '../shared/runtime/clock.ts'
import { CachedMetric, registerGauges } from '../shared/runtime/metrics/cached-metric.ts'
import { knownCounter } from '../shared/runtime/metrics/known-counter.ts'
import { rowResults, sourceTypes, type SourceType } from '../shared/contract/schemas/import.ts'
import { downloadFailures, downloadSchemes, type DownloadFailure } from '../shared/net/download-failure.ts'
import type { Staging } from '../shared/storage/staging/staging.ts'
import type { EngineRegistration } from './registration.ts'
import type { WorkerStats } from './workers/pool.ts'
import type { BatchReport } from './stages/write/chunk-run.ts'
import { retryReasons } from './stages/write/transaction.ts'

/*
 * The metrics of an engine alone. Those of all processes are in `shared/runtime/metrics/`, those of all imports in
 * `shared/processes/import-metrics.ts`, which control planes export too.
 *
 * One table of the counters and histograms (kind, name, help, labels, place) would be hardly shorter. Callers would write
 * `record.chunks(1, { result })` and a second call for the duration where they write `chunkEnded(result, seconds)`,
 * labels would need a mapped type with casts, and no test would keep the column of places true. The gauges are tables
 * already.
 */

/** `wait` lasts from `begins_at` to the start. */
const stages = ['wait', 'obtain', 'split', 'import', 'finish'] as const

/** Why an import failed: the code of an ImportError, or a reason without one. */
const failureReasons = [...importErrorCodes, 'attempts_exhausted', 'broken_step', 'engines_died'] as const
export type FailureReason = (typeof failureReasons)[number]

/** Everything that the engine counts. Rows are counted once a batch. */
export type EngineMetrics = ReturnType<typeof createEngineMetrics>

/** The gauges are 0 until an engine runs. Throws when the registry has these metrics already. */
export function createEngineMetrics(registry: Registry) {
  const metrics = {
    ...countRows(registry),
    ...countImports(registry),
    ...countDownloads(registry),
    ...countCallbacks(registry),
    ...countLeases(registry),
    /** The parts that the gauges are about. The engine sets this function, and each scrape calls it. */
    registration: (): EngineRegistration | null => null,
  }
  observeWork(registry, metrics)
  return metrics
}

function countRows(registry: Registry) {
  const rows = knownCounter(registry, {
    name: 'rollcall_import_rows_total',
    help: 'Records by result',
    labels: { result: rowResults },
  })
  const bytes = knownCounter(registry, {
    name: 'rollcall_import_bytes_total',
    help: 'Bytes of import files by the stage that has processed them',
    labels: { stage: ['download', 'stage', 'split', 'import'] },
  })
  const chunks = knownCounter(registry, {
    name: 'rollcall_import_chunks_total',
    help: 'Chunk tasks by how they ended',
    labels: { result: ['done', 'stopped', 'lost', 'failed'] },
  })
  const retries = knownCounter(registry, {
    name: 'rollcall_import_batch_retries_total',
    help: 'Retries of batch transactions by reason',
    labels: { reason: retryReasons },
  })
  const chunkDurations = new Histogram({
    name: 'rollcall_import_chunk_duration_seconds',
    help: 'Time from the claim of a chunk to its end in this engine',
    buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
    registers: [registry],
  })
  const writes = new Histogram({
    name: 'rollcall_bulk_write_duration_seconds',
    help: 'Time from the first read of a batch to its commit, retries included',
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    registers: [registry],
  })
  return {
    batch(report: BatchReport): void {
      for (const result of rowResults)
        if (report.counts[result] > 0) rows.inc({ result }, report.counts[result])
      bytes.inc({ stage: 'import' }, report.bytes)
      writes.observe(report.writeMs / 1000)
      for (const [reason, count] of Object.entries(report.retries)) retries.inc({ reason }, count)
    },
    bytes: (stage: 'download' | 'stage' | 'split', count: number) => bytes.inc({ stage }, count),
    chunkEnded(result: 'done' | 'stopped' | 'lost' | 'failed', seconds: number): void {
      chunks.inc({ result })
      chunkDurations.observe(seconds)
    },
  }
}

function countImports(registry: Registry) {
  const stageDurations = new Histogram({
    name: 'rollcall_import_stage_duration_seconds',
    help: 'Time that an import spent in a stage; `import` is the time from its start to its end, pauses included',
    labelNames: ['stage'],
    buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600],
    registers: [registry],
  })
  for (const stage of stages) stageDurations.zero({ stage })
  const ends = knownCounter(registry, {
    name: 'rollcall_imports_ended_total',
    help: 'Ended imports that this engine finalized, by final state and source type',
    labels: { state: endedStates, source: sourceTypes },
  })
  const failures = knownCounter(registry, {
    name: 'rollcall_import_failures_total',
    help: 'Imports that failed on this engine, by reason',
    labels: { reason: failureReasons },
  })
  const missing = new Counter({
    name: 'rollcall_import_files_missing_total',
    help: 'Times that this engine missed a staged file of an import, and left the import alone for a minute',
    registers: [registry],
  })
  const allFailed = new Counter({
    name: 'rollcall_imports_every_row_failed_total',
    help: 'Imports that finished without a valid row, without dry runs, and that this engine finalized',
    registers: [registry],
  })
  return {
    stageEnded: (stage: (typeof stages)[number], seconds: number) =>
      stageDurations.observe({ stage }, seconds),
    /** An import was finalized. */
    importEnded: (state: ImportState, source: SourceType) => ends.inc({ state, source }),
    importFailed: (reason: FailureReason) => failures.inc({ reason }),
    /** This engine didn't find a staged file. */
    fileMissing: () => missing.inc(),
    /** An import finished without a valid row. */
    everyRowFailed: () => allFailed.inc(),
  }
}

function countDownloads(registry: Registry) {
  const downloads = knownCounter(registry, {
    name: 'rollcall_import_download_attempts_total',
    help: 'Attempts to download a file, by result',
    labels: { result: ['ok', 'failed', 'refused'] },
  })
  const downloadProblems = knownCounter(registry, {
    name: 'rollcall_import_download_failures_total',
    help: 'Failed attempts to download a file, by the scheme of the URL and by reason',
    labels: { scheme: downloadSchemes, reason: downloadFailures },
  })
  return {
    downloadAttempt: (result: 'ok' | 'failed' | 'refused') => downloads.inc({ result }),
    downloadFailed: (scheme: string, reason: DownloadFailure) => downloadProblems.inc({ scheme, reason }),
  }
}

function countCallbacks(registry: Registry) {
  const callbacks = knownCounter(registry, {
    name: 'rollcall_callback_attempts_total',
    help: 'Attempts to send the callback of an ended import; `refused`: the address is not allowed',
    labels: { result: ['delivered', 'failed', 'refused'] },
  })
  const givenUp = new Counter({
    name: 'rollcall_callbacks_given_up_total',
    help: 'Callbacks whose last attempt failed',
    registers: [registry],
  })
  return {
    callbackAttempt: (result: 'delivered' | 'failed' | 'refused') => callbacks.inc({ result }),
    callbackGivenUp: () => givenUp.inc(),
  }
}

function countLeases(registry: Registry) {
  const leases = new Counter({
    name: 'rollcall_engine_leases_lost_total',
    help: 'Times that other engines took this one for dead, or took over a chunk of it while it was alive',
    registers: [registry],
  })
  const renewals = knownCounter(registry, {
    name: 'rollcall_engine_lease_renewals_total',
    help: "Renewals of the engine's lease, by result",
    labels: { result: ['ok', 'failed'] },
  })
  const leaderSince = new Gauge({
    name: 'rollcall_engine_leader_since_timestamp_seconds',
    help: 'When this engine began to lead, in seconds since 1970; 0 while another one leads',
    registers: [registry],
  })
  let isLeader = false
  return {
    /** Whether the engine leads, as it has just read. */
    leads(now: boolean): void {
      if (now !== isLeader) leaderSince.set(now ? clock.now().getTime() / 1000 : 0)
      isLeader = now
    },
    leaseLost: () => leases.inc(),
    leaseRenewal: (result: 'ok' | 'failed') => renewals.inc({ result }),
  }
}

/** Gauges of the engine's work and of its threads. The label of a thread is its number, and there are few threads. */
function observeWork(registry: Registry, metrics: EngineMetrics): void {
  const now = new CachedMetric(() => Promise.resolve(metrics), { freshMs: 0 })
  registerGauges(registry, now, [
    {
      name: 'rollcall_worker_utilization_ratio',
      help: "Share of the engine's lanes that run a chunk",
      of: ({ registration }) => registration()?.imports.utilization ?? 0,
    },
    {
      name: 'rollcall_worker_lanes',
      help: 'Chunks that this engine can run at once',
      of: ({ registration }) => registration()?.pool.lanes ?? 0,
    },
    {
      name: 'rollcall_engine_steps',
      help: 'Steps (downloads; splitting and finishing) that this engine runs',
      label: 'kind',
      of: ({ registration }) => registration()?.imports.steps ?? { download: 0, other: 0 },
    },
    {
      name: 'rollcall_import_steps_without_space',
      help: 'Imports that wait on this engine because the disk of DATA_DIR has less than DISK_RESERVE_MB left',
      of: ({ registration }) => registration()?.imports.importsWithoutSpace ?? 0,
    },
  ])
  const byWorker = (workers: WorkerStats[], value: (worker: WorkerStats) => number) =>
    Object.fromEntries(workers.map((worker, number) => [String(number), value(worker)]))
  registerGauges(registry, new CachedMetric(async () => metrics.registration()?.pool.stats() ?? []), [
    {
      name: 'rollcall_worker_heap_used_bytes',
      help: 'Heap memory in use by a worker thread',
      label: 'worker',
      of: (workers) => byWorker(workers, ({ heapUsed }) => heapUsed),
    },
    {
      name: 'rollcall_worker_heap_limit_bytes',
      help: 'Heap limit at which a worker thread is ended',
      label: 'worker',
      of: (workers) => byWorker(workers, ({ heapLimit }) => heapLimit),
    },
    {
      name: 'rollcall_worker_event_loop_utilization_ratio',
      help: 'Share of the time since the last scrape in which a worker thread was computing',
      label: 'worker',
      of: (workers) => byWorker(workers, ({ computing }) => computing),
    },
  ])
}

export function observeStaging(registry: Registry, staging: Staging): void {
  registerGauges(registry, new CachedMetric(() => staging.size()), [
    {
      name: 'rollcall_staging_bytes',
      help: 'Size of the staged files: sources and partitions of imports that are not finalized yet',
      of: (bytes) => bytes,
    },
  ])
}
