import type { Database } from '../../shared/runtime/database.ts'
import { errorMessage } from '../../shared/contract/errors.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import { heartbeatMs } from '../../shared/store/leases.ts'
import type { Staging } from '../../shared/storage/staging/staging.ts'
import type { Uploads } from '../../shared/storage/uploads/open-uploads.ts'
import { PollLoop, withJitter } from '../runner/poll-loop.ts'
import { isAnythingLeftBehind } from '../store/left-behind.ts'
import { takeOverFromEngines } from '../runner/take-over.ts'
import { cutLongLeases } from './cut-long-leases.ts'
import { dropImportSecrets } from './drop-import-secrets.ts'
import { enforceLimits } from './enforce-limits.ts'
import { purgeLogs } from './purge-logs.ts'
import { purgeUploads } from './purge-uploads.ts'
import { removeDeletedFieldValues } from './remove-deleted-field-values.ts'
import { sweepStaging } from './sweep-staging.ts'

/** A job that every engine runs at an interval. Two engines may run it at the same time. */
export interface MaintenanceJob {
  name: string
  everyMs: number
  /** Resolves to the number of things that were changed, by their name. It may break off anywhere. */
  runOnce: () => Promise<Record<string, number>>
  /** The log line of a run that changed something. Without it the job logs each change itself. */
  done?: { level: 'info' | 'warn'; text: string }
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
    recovery(database, log),
    sweepStaging(database, deps, log),
    purgeUploads(uploads),
    purgeLogs(database, log),
    removeDeletedFieldValues(database, log),
    dropImportSecrets(database),
  ]
}

/** Does what dead processes left behind. One read says whether there is anything, since at rest there isn't. */
function recovery(database: Database, log: Logger): MaintenanceJob {
  const jobs = [takeOverFromEngines(database, log), cutLongLeases(database), enforceLimits(database, log)]
  const run = (job: MaintenanceJob) =>
    runJob(job, log).catch((error: unknown) => {
      log.warn(`${job.name} failed, trying again: ${errorMessage(error)}`)
    })
  return {
    name: 'looking for what dead processes left behind',
    everyMs: heartbeatMs,
    runOnce: async () => {
      if (await isAnythingLeftBehind(database)) await Promise.all(jobs.map(run))
      return {}
    },
  }
}

async function runJob({ runOnce, done }: MaintenanceJob, log: Logger): Promise<void> {
  const counts = await runOnce()
  if (done !== undefined && Object.values(counts).some((count) => count > 0))
    log[done.level](counts, done.text)
}

/** A stop waits this long for a running job. With the database away it could take seconds. */
const stopGraceMs = 300

/** Runs a job at once and then at its interval, until it is stopped. */
export function startMaintenance(job: MaintenanceJob, log: Logger): PollLoop {
  const nextMs = () => withJitter(job.everyMs)
  const poll = async () => {
    await runJob(job, log)
    return nextMs()
  }
  const problem = `${job.name} failed`
  return new PollLoop({ poll, problem, retryMs: nextMs, graceMs: stopGraceMs, log }).start()
}
