import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { importStates } from '../shared/import-state.ts'
import { callbacksIndex, type Collections } from '../shared/schemas/collections.ts'
import { rowResults } from '../shared/schemas/import.ts'
import type { BatchReport } from './workers/messages.ts'

export type Stage = 'obtain' | 'split' | 'import' | 'finish'

const callbackResults = ['delivered', 'failed', 'refused'] as const
export type CallbackResult = (typeof callbackResults)[number]

/** Everything the engine counts. Added to per batch, never per row. */
export interface EngineMetrics {
  batch(report: BatchReport): void
  chunkEnded(result: 'done' | 'stopped' | 'lost' | 'failed'): void
  stageEnded(stage: Stage, seconds: number): void
  bytes(stage: 'download' | 'stage' | 'split', bytes: number): void
  downloadAttempt(result: 'ok' | 'failed' | 'refused'): void
  leaseLost(): void
  callbackAttempt(result: CallbackResult): void
  callbackGivenUp(): void
  reactionsMoved(count: number): void
  /** Seconds for which the earliest reaction has been due that isn't in the outbox yet. */
  reactionLag: number
  /** Asked at every scrape. */
  utilization: () => number
}

export function createEngineMetrics(registry: Registry, collections: Collections): EngineMetrics {
  const registers = [registry]
  const rows = new Counter({
    name: 'rollcall_import_rows_total',
    help: 'Records by what became of them',
    labelNames: ['result'],
    registers,
  })
  for (const result of rowResults) rows.inc({ result }, 0)
  const bytes = new Counter({
    name: 'rollcall_import_bytes_total',
    help: 'Bytes of import files by the stage that they went through',
    labelNames: ['stage'],
    registers,
  })
  for (const stage of ['download', 'stage', 'split', 'import']) bytes.inc({ stage }, 0)
  const chunks = new Counter({
    name: 'rollcall_import_chunks_total',
    help: 'Chunk tasks by how they ended',
    labelNames: ['result'],
    registers,
  })
  for (const result of ['done', 'stopped', 'lost', 'failed']) chunks.inc({ result }, 0)
  const retries = new Counter({
    name: 'rollcall_import_batch_retries_total',
    help: 'Batch transactions that were done again, by reason',
    labelNames: ['reason'],
    registers,
  })
  for (const reason of ['write_conflict', 'duplicate_key', 'network', 'transient', 'commit_unknown'])
    retries.inc({ reason }, 0)
  const stages = new Histogram({
    name: 'rollcall_import_stage_duration_seconds',
    help: 'Time that an import spent in a stage',
    labelNames: ['stage'],
    buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600],
    registers,
  })
  for (const stage of ['obtain', 'split', 'import', 'finish']) stages.zero({ stage })
  const writes = new Histogram({
    name: 'rollcall_bulk_write_duration_seconds',
    help: 'Time that a batch took from its first read to its commit, retries included',
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    registers,
  })
  const downloads = new Counter({
    name: 'rollcall_import_download_attempts_total',
    help: 'Tries to download a file',
    labelNames: ['result'],
    registers,
  })
  for (const result of ['ok', 'failed', 'refused']) downloads.inc({ result }, 0)
  const leases = new Counter({
    name: 'rollcall_engine_leases_lost_total',
    help: 'Times that this engine was taken for dead by the others, or a chunk of it was taken over',
    registers,
  })
  new Gauge({
    name: 'rollcall_imports',
    help: 'Imports by state',
    labelNames: ['state'],
    registers,
    async collect() {
      const counts = await Promise.all(
        importStates.map((state) => collections.imports.countDocuments({ state })),
      )
      importStates.forEach((state, i) => this.set({ state }, counts[i]!))
    },
  })
  new Gauge({
    name: 'rollcall_import_queue_age_seconds',
    help: 'How long the import that is due for longest has been waiting for its start; 0 when none waits',
    registers,
    async collect() {
      const oldest = await collections.imports.findOne(
        { settled: false, state: 'scheduled' },
        { sort: { begins_at: 1 }, projection: { begins_at: 1 } },
      )
      this.set(oldest === null ? 0 : Math.max(0, (Date.now() - oldest.begins_at.getTime()) / 1000))
    },
  })

  const reactions = new Counter({
    name: 'rollcall_reactions_dispatched_total',
    help: 'Autoresponder reactions that this engine put into the outbox when they were due',
    registers,
  })
  new Gauge({
    name: 'rollcall_outbox_messages',
    help: 'Messages that wait for a mail sender or are in the hand of one, those of paused autoresponders too',
    registers,
    async collect() {
      this.set(await collections.outbox.estimatedDocumentCount())
    },
  })

  const callbacks = new Counter({
    name: 'rollcall_callback_attempts_total',
    help: 'Tries to send the callback of an import that has ended; refused is an address that may not be reached',
    labelNames: ['result'],
    registers,
  })
  for (const result of callbackResults) callbacks.inc({ result }, 0)
  const givenUp = new Counter({
    name: 'rollcall_callbacks_given_up_total',
    help: 'Callbacks of which the last try failed',
    registers,
  })
  new Gauge({
    name: 'rollcall_callbacks_pending',
    help: 'Callbacks that are being sent or wait for their next try',
    registers,
    async collect() {
      this.set(await collections.callbacks.countDocuments({ state: 'waiting' }, { hint: callbacksIndex }))
    },
  })

  const metrics: EngineMetrics = {
    batch(report) {
      for (const result of rowResults)
        if (report.counts[result]! > 0) rows.inc({ result }, report.counts[result])
      bytes.inc({ stage: 'import' }, report.bytes)
      writes.observe(report.writeMs / 1000)
      for (const [reason, count] of Object.entries(report.retries)) retries.inc({ reason }, count)
    },
    chunkEnded(result) {
      chunks.inc({ result })
      if (result === 'lost') leases.inc()
    },
    stageEnded: (stage, seconds) => stages.observe({ stage }, seconds),
    bytes: (stage, count) => bytes.inc({ stage }, count),
    downloadAttempt: (result) => downloads.inc({ result }),
    leaseLost: () => leases.inc(),
    callbackAttempt: (result) => callbacks.inc({ result }),
    callbackGivenUp: () => givenUp.inc(),
    reactionsMoved: (count) => reactions.inc(count),
    reactionLag: 0,
    utilization: () => 0,
  }
  new Gauge({
    name: 'rollcall_worker_utilization_ratio',
    help: "Share of the engine's lanes that have a chunk in hand",
    registers,
    collect() {
      this.set(metrics.utilization())
    },
  })
  new Gauge({
    name: 'rollcall_reaction_lag_seconds',
    help: 'How long the earliest due reaction has been waiting for its way into the outbox; 0 when none waits',
    registers,
    collect() {
      this.set(metrics.reactionLag)
    },
  })
  return metrics
}
