import { idsOfImport } from '../../shared/contract/schemas/import.ts'
import type { Database } from '../../shared/runtime/database.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { Part } from '../../shared/runtime/service.ts'
import type { Staging } from '../../shared/storage/staging/staging.ts'
import type { Uploads } from '../../shared/storage/uploads/open-uploads.ts'
import { enforcePendingFences } from '../../shared/store/fence.ts'
import { dropSecrets, finalizedWithSecrets } from '../../shared/store/secrets.ts'
import { listImportsWithOldLogs, listNotFinalizedAmong, markLogsPurged } from '../../shared/store/imports.ts'
import { deleteRange, keyRanges } from '../../shared/store/key-ranges.ts'
import { heartbeatMs } from '../../shared/store/leases.ts'
import { removeImportEntry, removeLostEntries } from '../../shared/store/staged-usage.ts'
import { enforcePendingLimits } from '../../shared/store/subscriber-quota.ts'
import { notifyEngines } from '../../shared/store/wake-up.ts'
import { dayMs, hourMs, minuteMs } from '../../shared/values/durations.ts'
import { subscribersOfList } from '../../shared/values/identity.ts'
import { callbackBounds } from './callbacks/callback-bounds.ts'
import { PollLoop, withJitter } from '../scheduler/poll-loop.ts'
import { takeOverFromEngines } from '../scheduler/take-over.ts'
import { cutLeases } from '../store/lease-cuts.ts'
import { dueDeletedFields, endPass, removeValues } from '../store/deleted-fields.ts'

/** A job that every engine runs at an interval. Two engines may run it at the same time. */
export interface MaintenanceJob {
  name: string
  everyMs: number
  run(): Promise<void>
}

/** Every job of an engine. */
export function maintenanceJobs(deps: {
  database: Database
  staging: Staging
  uploads: Uploads
  log: Logger
}): MaintenanceJob[] {
  const { database, uploads, log } = deps
  return [
    takeOverFromEngines(database, log),
    cutLongLeases(database, log),
    enforceLimits(database, log),
    sweepStaging(database, deps, log),
    purgeUploads(uploads, log),
    purgeLogs(database, log),
    removeDeletedFieldValues(database, log),
    dropImportSecrets(database, log),
  ]
}

/** A stop waits this long for a running job, which may be broken off anywhere. With the database away it could take seconds. */
const stopGraceMs = 300

/** Runs a job at once and then at its interval, until it is stopped. */
export function startMaintenance(job: MaintenanceJob, log: Logger): Part {
  const loop = new MaintenanceLoop(job, log)
  loop.start()
  return loop
}

class MaintenanceLoop extends PollLoop {
  readonly #job: MaintenanceJob

  constructor(job: MaintenanceJob, log: Logger) {
    super({ problem: `${job.name} failed`, graceMs: stopGraceMs, log })
    this.#job = job
  }

  protected override async poll(): Promise<number> {
    await this.#job.run()
    return this.retryMs()
  }

  protected override retryMs(): number {
    return withJitter(this.#job.everyMs)
  }
}

/** Ends what dead processes had leased in time although the database's clock was set back. */
export function cutLongLeases({ collections }: Database, log: Logger): MaintenanceJob {
  return {
    name: "cutting leases that the database's clock made longer",
    everyMs: 10_000,
    async run() {
      const cut = await cutLeases(collections, { callbackLeaseMs: callbackBounds.leaseMs })
      if (cut > 0)
        log.warn({ leases: cut }, "the database's clock was set back: leases are cut to their length")
    },
  }
}

/** Enforces changed subscriber limits, pauses and cancels whose control plane died before it had enforced them. */
export function enforceLimits(database: Database, log: Logger): MaintenanceJob {
  return {
    name: 'enforcing changed subscriber limits, pauses and cancels',
    everyMs: heartbeatMs,
    async run() {
      await enforcePendingFences({ database, log })
      const organizations = await enforcePendingLimits({ database, log })
      if (organizations.length > 0) await notifyEngines(database.collections, 'limit')
    },
  }
}

/** Younger files are left alone: inline content is staged before its import is stored, and no request takes this long. */
const minStagedAgeMs = hourMs

/**
 * Removes files that no import needs, and pins of imports that have ended. Such files are left by a creation that broke
 * off, or were written while their import was finalized.
 */
export function sweepStaging(
  { collections }: Database,
  { staging, uploads }: { staging: Staging; uploads: Uploads },
  log: Logger,
): MaintenanceJob {
  return {
    name: 'sweeping the staging',
    everyMs: 10 * minuteMs,
    async run() {
      const old = await staging.listImports({ olderThanMs: minStagedAgeMs })
      // Read before the imports: an import that begins in between needs its pin.
      const pinned = await uploads.listPinned()
      const needed = new Set(await listNotFinalizedAmong(collections, [...old, ...pinned]))
      for (const id of pinned) if (!needed.has(id)) await uploads.unpin(id)
      for (const id of old) {
        if (needed.has(id)) continue
        await staging.removeImport(id)
        await removeImportEntry(collections, id)
        log.info({ import_id: id }, 'removed staged files that no import needs')
      }
      await removeLostEntries(collections)
    },
  }
}

/** An upload that broke off can be resumed for this time. */
const unfinishedDays = 7

/** Removes uploads that broke off and were not resumed. */
export function purgeUploads(uploads: Uploads, log: Logger): MaintenanceJob {
  return {
    name: 'purging unfinished uploads',
    everyMs: hourMs,
    async run() {
      const removed = await uploads.purge({ olderThanMs: unfinishedDays * dayMs })
      if (removed > 0) log.info({ uploads: removed }, 'removed uploads that broke off a week ago')
    },
  }
}

/** Removes the logs of imports that ended long ago. Their counts stay in the import. */
export function purgeLogs(database: Database, log: Logger): MaintenanceJob {
  const { collections } = database
  return {
    name: 'purging old logs',
    everyMs: 10 * minuteMs,
    async run() {
      for (const id of await listImportsWithOldLogs(collections)) {
        await deleteRange(collections.outcomes, idsOfImport(id))
        await deleteRange(collections.failures, idsOfImport(id))
        await markLogsPurged(database, id)
        log.info({ import_id: id }, 'purged the logs of an import that ended long ago')
      }
    },
  }
}

/**
 * Removes the subscribers' values of deleted custom fields. A run may break off anywhere: the next one, in any engine,
 * resumes after the last key range that was done. A request that read the field before it was deleted may write a value
 * into a range that is already done. So a second pass over all subscribers of the list follows minutes later
 * (`second_pass_at`).
 */
export function removeDeletedFieldValues({ collections }: Database, log: Logger): MaintenanceJob {
  return {
    name: 'removing the values of deleted custom fields',
    everyMs: minuteMs,
    async run() {
      for (const field of await dueDeletedFields(collections)) {
        const list = subscribersOfList(field.mailing_list_id)
        const rest = { ...list, $gte: field.removed_to ?? list.$gte }
        let removed = 0
        for await (const range of keyRanges(collections.subscribers, rest))
          removed += await removeValues(collections, field, range)
        await endPass(collections, field)
        if (removed > 0 || field.second_pass_at === undefined)
          log.info(
            { field_id: field._id, subscribers: removed },
            'removed the values of a deleted custom field',
          )
      }
    },
  }
}

/**
 * Drops the secrets of imports that need them no longer. Usually this happens when the import or its callback ends. Some
 * are left where an engine died in between.
 */
export function dropImportSecrets({ collections }: Database, log: Logger): MaintenanceJob {
  return {
    name: 'dropping the secrets of ended imports',
    everyMs: 10 * minuteMs,
    async run() {
      let imports = 0
      for await (const id of finalizedWithSecrets(collections))
        if (await dropSecrets(collections, id)) imports += 1
      if (imports > 0) log.info({ imports }, 'dropped the secrets of imports that need them no longer')
    },
  }
}
