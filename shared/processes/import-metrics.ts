import { Gauge, type Registry } from 'prom-client'
import { clock } from '../runtime/clock.ts'
import { databaseTime, type Database } from '../runtime/database.ts'
import type { Logger } from '../runtime/logger.ts'
import { callbacksIndex } from '../contract/schemas/collections.ts'
import { countEndedImports, readImportStats, type ImportStats, type RunningImport } from './import-stats.ts'
import { readDueQueues } from '../store/outbox.ts'
import { CachedMetric, registerGauges } from '../runtime/metrics/cached-metric.ts'

/**
 * Metrics of the imports of the whole installation. Every control plane and every engine exports the same values, so
 * they are there also without an engine; dashboards use the maximum. No label is an id: the log names a stalled
 * import.
 */
export function observeImports(registry: Registry, database: Database, log: Logger): void {
  const { collections } = database
  const stallDetector = new StallDetector(log)
  const metric = new CachedMetric(async () => {
    const stats = await readImportStats(collections)
    return { ...stats, progressAge: stallDetector.observe(stats.running) }
  })
  // Millions may have ended. The alert that reads this metric is in no hurry, so it may be older.
  const ended = new CachedMetric(() => countEndedImports(collections), { maxAgeMs: 20_000 })
  observeStates(registry, metric, ended)
  registerGauges(registry, metric, [
    {
      name: 'rollcall_import_queue_age_seconds',
      help: 'Seconds for which the longest-waiting due import has waited for its start; 0 when none waits',
      of: ({ queueAge }) => queueAge,
    },
    {
      name: 'rollcall_imports_due',
      help: 'Imports that are due and not started, by what they wait for: another import of their list, or an engine',
      label: 'waits_for',
      of: ({ due }) => due,
    },
    {
      name: 'rollcall_import_progress_age_seconds',
      help: 'Seconds since the last progress of the running import that has made none for the longest; 0 when none runs',
      of: ({ progressAge }) => progressAge,
    },
    {
      name: 'rollcall_import_chunks',
      help: 'Chunks of running imports: ready to be claimed, running, and running although their lease has expired',
      label: 'state',
      of: ({ chunks }) => chunks,
    },
    {
      name: 'rollcall_import_organizations',
      help: 'Organizations that have an import running',
      of: ({ running }) => new Set(running.map(({ organizationId }) => organizationId)).size,
    },
    {
      name: 'rollcall_import_largest_organization_ratio',
      help: 'Share of all running chunks that belong to the organization with the most of them; 0 when none is running',
      of: ({ running }) => largestShare(running),
    },
    {
      name: 'rollcall_engines',
      help: 'Registered engines, by whether their lease is valid (alive) or has expired (overdue)',
      label: 'state',
      of: ({ engines }) => engines,
    },
  ])
  observeOutbox(registry, database)
  registerGauges(
    registry,
    new CachedMetric(() =>
      collections.callbacks.countDocuments({ state: 'waiting' }, { hint: callbacksIndex }),
    ),
    [
      {
        name: 'rollcall_callbacks_pending',
        help: 'Callbacks that are being sent or wait for their next try',
        of: (count) => count,
      },
    ],
  )
}

function observeStates(
  registry: Registry,
  unfinished: CachedMetric<ImportStats>,
  ended: CachedMetric<Record<string, number>>,
): void {
  new Gauge({
    name: 'rollcall_imports',
    help: 'Imports by state',
    labelNames: ['state'],
    registers: [registry],
    async collect() {
      const [unfinishedStats, endedCounts] = await Promise.all([unfinished.value(), ended.value()])
      this.reset()
      for (const [state, count] of Object.entries({ ...unfinishedStats?.unfinished, ...endedCounts }))
        this.set({ state }, count)
    },
  })
}

function observeOutbox(registry: Registry, { db, collections }: Database): void {
  const metric = new CachedMetric(async () => {
    const now = await databaseTime(db)
    const [first] = (await readDueQueues(collections, 'all', now)).open
    return first === undefined ? 0 : (now.getTime() - first.dueAt.getTime()) / 1000
  })
  registerGauges(registry, metric, [
    {
      name: 'rollcall_outbox_age_seconds',
      help: 'Seconds since the oldest message without a lease became due, without those of paused autoresponders',
      of: (age) => age,
    },
  ])
}

function largestShare(running: readonly RunningImport[]): number {
  const byOrganization = new Map<number, number>()
  for (const { organizationId, chunks } of running)
    byOrganization.set(organizationId, (byOrganization.get(organizationId) ?? 0) + chunks)
  const all = [...byOrganization.values()]
  const sum = all.reduce((a, b) => a + b, 0)
  return sum === 0 ? 0 : Math.max(...all) / sum
}

/** An import without progress for this time is named in the log. */
const stalledAfterMs = 5 * 60_000

interface Progress {
  mark: string
  /** When the mark was read first, by the monotonic clock. */
  since: number
  warnAt: number
}

/**
 * Remembers since when each running import has made no progress, at most since the start of the process. The log names a
 * stalled import, and names it again after each further `stalledAfterMs`.
 */
class StallDetector {
  readonly #log: Logger
  #progress = new Map<number, Progress>()

  constructor(log: Logger) {
    this.#log = log
  }

  /** Seconds since the last progress of the import that has made none for the longest. */
  observe(running: readonly RunningImport[]): number {
    const now = clock.monotonicMs()
    const progress = new Map<number, Progress>()
    let longestMs = 0
    for (const { importId, organizationId, state, mark } of running) {
      const before = this.#progress.get(importId)
      const entry = before?.mark === mark ? before : { mark, since: now, warnAt: now + stalledAfterMs }
      progress.set(importId, entry)
      const idleMs = now - entry.since
      longestMs = Math.max(longestMs, idleMs)
      if (now < entry.warnAt) continue
      entry.warnAt = now + stalledAfterMs
      this.#log.warn(
        { import_id: importId, organization_id: organizationId, state },
        `an import has made no progress for ${Math.round(idleMs / 60_000)} minutes`,
      )
    }
    this.#progress = progress
    return longestMs / 1000
  }
}
