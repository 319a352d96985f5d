import { Gauge, type Registry } from 'prom-client'
import { clock } from '../runtime/clock.ts'
import { databaseTime, type Database } from '../runtime/database.ts'
import type { Logger } from '../runtime/logger.ts'
import { callbacksIndex } from '../contract/schemas/collections.ts'
import { countEndedImports, readImportStats, type ImportStats, type RunningImport } from './import-stats.ts'
import { openQueues } from './outbox.ts'
import { CachedMetric, registerGauges } from '../runtime/metrics/cached-metric.ts'

/**
 * How the imports of the whole installation stand, told alike by every control plane and every engine, so that it is
 * known also when no engine is left: dashboards take the largest. No label is an id; which import it is that stands
 * still is a line of the log.
 */
export function observeImports(registry: Registry, database: Database, log: Logger): void {
  const { collections } = database
  const progress = new ProgressWatch(log)
  const metric = new CachedMetric(async () => {
    const stats = await readImportStats(collections)
    return { ...stats, progressAge: progress.observe(stats.running) }
  })
  // Of millions that have ended; nobody waits for this figure.
  const ended = new CachedMetric(() => countEndedImports(collections), { maxAgeMs: 20_000 })
  observeStates(registry, metric, ended)
  registerGauges(registry, metric, [
    {
      name: 'rollcall_import_queue_age_seconds',
      help: 'How long the import that is due for longest has been waiting for its start; 0 when none waits',
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
      help: 'How long the running import that has stood still for longest has done so; 0 when none runs',
      of: ({ progressAge }) => progressAge,
    },
    {
      name: 'rollcall_import_chunks',
      help: 'Chunks of running imports: ready to be claimed, running, and running although their lease has run out',
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
      help: 'Share of the chunks in hand that the organization with the most of them has; 0 when none is in hand',
      of: ({ running }) => largestShare(running),
    },
    {
      name: 'rollcall_engines',
      help: 'Engines that are entered, by whether their lease runs',
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
      const [now, before] = await Promise.all([unfinished.value(), ended.value()])
      this.reset()
      for (const [state, count] of Object.entries({ ...now?.unfinished, ...before }))
        this.set({ state }, count)
    },
  })
}

function observeOutbox(registry: Registry, { db, collections }: Database): void {
  const metric = new CachedMetric(async () => {
    const [messages, [first], now] = await Promise.all([
      collections.outbox.estimatedDocumentCount(),
      openQueues(collections, 'all'),
      databaseTime(db),
    ])
    const age = first === undefined ? 0 : (now.getTime() - first.dueAt.getTime()) / 1000
    return { messages, age: Math.max(0, age) }
  })
  registerGauges(registry, metric, [
    {
      name: 'rollcall_outbox_messages',
      help: 'Messages that wait for a mail sender or are in the hand of one, those of paused autoresponders too',
      of: ({ messages }) => messages,
    },
    {
      name: 'rollcall_outbox_age_seconds',
      help: 'How long the message that nobody has taken has been due for longest, paused autoresponders left out',
      of: ({ age }) => age,
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

/** After so long it is said which import it is, and again after each such time. */
const standsStillMs = 5 * 60_000

/** Remembers when each running import was last seen to have got on: since the process began, at the earliest. */
class ProgressWatch {
  readonly #log: Logger
  #seen = new Map<number, { mark: string; since: number; sayAt: number }>()

  constructor(log: Logger) {
    this.#log = log
  }

  /** Seconds for which the one that stands still for longest has done so. */
  observe(running: readonly RunningImport[]): number {
    const now = clock.monotonicMs()
    const seen = new Map<number, { mark: string; since: number; sayAt: number }>()
    let longestMs = 0
    for (const { importId, organizationId, state, mark } of running) {
      const before = this.#seen.get(importId)
      const entry = before?.mark === mark ? before : { mark, since: now, sayAt: now + standsStillMs }
      seen.set(importId, entry)
      const stillMs = now - entry.since
      longestMs = Math.max(longestMs, stillMs)
      if (now < entry.sayAt) continue
      entry.sayAt = now + standsStillMs
      this.#log.warn(
        { import_id: importId, organization_id: organizationId, state },
        `an import has made no progress for ${Math.round(stillMs / 60_000)} minutes`,
      )
    }
    this.#seen = seen
    return longestMs / 1000
  }
}
