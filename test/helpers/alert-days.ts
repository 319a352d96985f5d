/**
 * For each alert rule a bad day on which it fires, and a similar good one on which it never does. Series are in
 * promtool's notation, with a sample each 30 s, from which `scraped` makes those of other intervals.
 */
export interface AlertDays {
  bad: Record<string, string>
  /** A bad day of a process that starts in the middle of it: what happened before its first scrape counts too. */
  started?: Record<string, string>
  /** A bad day of a process that starts again after it: what happened before still counts. */
  restarted?: Record<string, string>
  /** A bad day of a process that stops before what happened is scraped. */
  unseen?: Record<string, string>
  good: Record<string, string>
  /** The labels of the firing alert, without its severity. */
  labels?: Record<string, string>
  /** When it fires on its bad day. */
  at?: string
}

/** What Prometheus has of a series that it scrapes at this interval. Like it, marks where a series vanishes. */
export function scraped(series: string, seconds: number): string {
  const samples = series.split(' ').flatMap((part): (number | null)[] => {
    const [, from = '', step = '0', times = '0'] = /^(-?\d[\d.]*|_|stale)(\+\d+)?(?:x(\d+))?$/.exec(part)!
    const value = Number(from)
    if (Number.isNaN(value)) return Array<null>(from === 'stale' ? 8 : Number(times)).fill(null)
    return Array.from({ length: Number(times) + 1 }, (_, index) => value + index * Number(step))
  })
  const seen = Array.from(
    { length: Math.floor(((samples.length - 1) * 30) / seconds) + 1 },
    (_, index) => samples[Math.floor((index * seconds) / 30)]!,
  )
  return seen.map((value, index) => value ?? (typeof seen[index - 1] === 'number' ? 'stale' : '_')).join(' ')
}

const engine = 'job="rollcall-engine",instance="engine:9464"'
const engineLabels = { job: 'rollcall-engine', instance: 'engine:9464' }
const engineStart = `process_start_time_seconds{${engine}}`
const ended = (state: string) => `rollcall_imports_ended_total{state="${state}",source="url",${engine}}`
const failures = (reason: string) => `rollcall_import_failures_total{reason="${reason}",${engine}}`
const requests = (status: string) =>
  `rollcall_http_request_duration_seconds_count{route="/x",status="${status}"}`
const durations = (le: string) => `rollcall_http_request_duration_seconds_bucket{le="${le}"}`
const uploads = (result: string) =>
  `rollcall_ftp_transfers_total{protocol="ftp",kind="in",result="${result}"}`
const callbacks = (result: string) => `rollcall_callback_attempts_total{result="${result}"}`
const up = (job: string, number: number) => `up{job="${job}",instance="172.30.77.${number}:80"}`
/** All targets of a job vanish, or one of two. */
const gone = (job: string): AlertDays => ({
  bad: { [up(job, 1)]: '1x20 stale', [up(job, 2)]: '1x10 stale' },
  good: { [up(job, 1)]: '1x60', [up(job, 2)]: '1x10 stale' },
})
/** Two minutes, which is one scrape at the longest interval. */
const oneFailedScrape = '1x20 0x3 1x36'
/** The number of living engines that a process reports, and whether it answers its scrapes. */
const seenBy = (instance: string, alive: string, answers = '1x60') => ({
  [`rollcall_engines{state="alive",job="rollcall-engine",instance="${instance}"}`]: alive,
  [`up{job="rollcall-engine",instance="${instance}"}`]: answers,
})
const of = (series: string, bad: string, good: string): AlertDays => ({
  bad: { [series]: bad },
  good: { [series]: good },
})
/** An event of an engine; on the good day its counter is what it was hours ago. */
const event = (series: string): AlertDays => ({
  bad: { [series]: '0x30 1x30', [engineStart]: '-9000x60' },
  started: { [series]: '_x20 1x40', [engineStart]: '_x20 600x40' },
  restarted: { [series]: '0x20 1x10 0x30', [engineStart]: '-9000x30 930x30' },
  good: { [series]: '1x60', [engineStart]: '-9000x60' },
})

export const alertDays: Record<string, AlertDays> = {
  RollcallTargetDown: { ...of(`up{${engine}}`, '0x60', oneFailedScrape), labels: engineLabels },
  RollcallNoControlPlane: { ...gone('rollcall-control-plane'), at: '17m' },
  RollcallNoFtp: { ...gone('rollcall-ftp'), at: '17m' },
  RollcallNoEngineSeen: { ...gone('rollcall-engine'), at: '17m' },
  RollcallFewerProcesses: {
    bad: { [up('rollcall-ftp', 1)]: '1x60', [up('rollcall-ftp', 2)]: '1x20 stale' },
    good: { [up('rollcall-ftp', 1)]: '1x60', [up('rollcall-ftp', 2)]: '_x20 1x40' },
    labels: { job: 'rollcall-ftp' },
    at: '17m',
  },
  RollcallNoEngine: {
    // The killed engine's last word is that it works.
    bad: { ...seenBy('1', '0x60'), ...seenBy('2', '1x20 stale', '1x20 0x40'), rollcall_database_up: '1x60' },
    // The metric is left out of some scrapes.
    good: { ...seenBy('1', '1x20 _x4 1x40'), rollcall_database_up: '1x60' },
    at: '17m',
  },
  RollcallFewerEngines: {
    // A killed engine counts beside its successor until its lease has run out.
    bad: { 'rollcall_engines{state="alive"}': '2x20 1x30' },
    good: {
      'rollcall_engines{state="alive"}': '1x10 2x20 3x0 2x28',
      'rollcall_engines{state="alive",instance="successor"}': '_x32 3x0 2x28',
    },
    at: '17m',
  },
  RollcallDatabaseDown: {
    ...of('rollcall_database_up{job="rollcall-ftp"}', '0x60', oneFailedScrape),
    labels: { job: 'rollcall-ftp' },
  },
  RollcallRestarting: {
    ...of(`process_start_time_seconds{${engine}}`, '1+1x60', '1x20 2x40'),
    labels: engineLabels,
  },
  RollcallImportStuck: of('rollcall_import_progress_age_seconds', '0+30x60', '20x60'),
  RollcallImportsNotStarted: {
    bad: { 'rollcall_imports_due{waits_for="engine"}': '3x60', rollcall_import_queue_age_seconds: '0+30x60' },
    // Thousands of one organization are due, and engines begin some of them all the time.
    good: {
      'rollcall_imports_due{waits_for="engine"}': '3000x60',
      rollcall_import_queue_age_seconds: '0+30x60',
      'rollcall_import_stage_duration_seconds_count{stage="wait"}': '0+5x60',
    },
  },
  RollcallListStuck: {
    bad: { 'rollcall_imports_due{waits_for="list"}': '1x200', rollcall_import_queue_age_seconds: '0+60x200' },
    good: { 'rollcall_imports_due{waits_for="list"}': '1x200', rollcall_import_queue_age_seconds: '60x200' },
    at: '80m',
  },
  RollcallImportFailed: {
    ...event(ended('failed')),
    unseen: { 'rollcall_imports{state="failed"}': '3x20 4x40' },
  },
  RollcallImportsFailing: {
    bad: { [ended('failed')]: '0+1x60', [ended('finished')]: '0x60' },
    good: { [ended('failed')]: '0+1x60', [ended('finished')]: '0+5x60' },
  },
  RollcallEveryRowFailed: event(`rollcall_imports_every_row_failed_total{${engine}}`),
  RollcallDefect: {
    ...event(failures('audit_mismatch')),
    good: { [failures('source_refused')]: '0x5 1x55', [engineStart]: '0x60' },
    labels: { reason: 'audit_mismatch' },
  },
  RollcallDownloadsFailing: {
    ...of('rollcall_import_download_failures_total{scheme="https",reason="timeout"}', '0+2x60', '0x30 5x30'),
    labels: { reason: 'timeout' },
  },
  RollcallLeasesLost: of(`rollcall_engine_leases_lost_total{${engine}}`, '0+1x60', '0x30 1x30'),
  RollcallWriteConflicts: {
    bad: {
      'rollcall_import_batch_retries_total{reason="write_conflict"}': '0+300x60',
      rollcall_bulk_write_duration_seconds_count: '0+60x60',
    },
    good: {
      'rollcall_import_batch_retries_total{reason="write_conflict"}': '0+60x60',
      rollcall_bulk_write_duration_seconds_count: '0+60x60',
    },
  },
  RollcallDatabaseSlow: {
    bad: {
      'rollcall_database_server_operation_seconds_total{kind="writes"}': '0+30x60',
      'rollcall_database_server_operations_total{kind="writes"}': '0+60x60',
    },
    good: {
      'rollcall_database_server_operation_seconds_total{kind="writes"}': '0+1x60',
      'rollcall_database_server_operations_total{kind="writes"}': '0+60x60',
    },
    labels: { kind: 'writes' },
  },
  RollcallDatabaseCacheFull: of('rollcall_database_server_cache_ratio{kind="dirty"}', '0.3x60', '0.05x60'),
  RollcallConnectionsExhausted: {
    ...of(`rollcall_database_checkouts_waiting{${engine}}`, '4x60', '0x30 4x3 0x30'),
    labels: { job: 'rollcall-engine' },
  },
  RollcallEventLoopBlocked: {
    ...of(`nodejs_eventloop_lag_p99_seconds{${engine}}`, '0.8x60', '0.02x60'),
    labels: { job: 'rollcall-engine' },
  },
  RollcallWorkerHeapHigh: {
    bad: {
      'rollcall_worker_heap_used_bytes{worker="0"}': '500x60',
      'rollcall_worker_heap_limit_bytes{worker="0"}': '512x60',
    },
    good: {
      'rollcall_worker_heap_used_bytes{worker="0"}': '100x60',
      'rollcall_worker_heap_limit_bytes{worker="0"}': '512x60',
    },
  },
  RollcallDataFolderUnavailable: of('rollcall_data_folder_available', '0x60', '1x60'),
  RollcallDiskLow: {
    bad: { rollcall_disk_free_bytes: '1000000000x60', rollcall_disk_size_bytes: '100000000000x60' },
    good: { rollcall_disk_free_bytes: '50000000000x60', rollcall_disk_size_bytes: '100000000000x60' },
  },
  RollcallStagingStopped: of('rollcall_import_steps_without_space', '2x60', '0x60'),
  RollcallApiErrors: {
    bad: { [requests('500')]: '0+10x60', [requests('200')]: '0+90x60' },
    good: { [requests('404')]: '0+10x60', [requests('200')]: '0+90x60' },
  },
  RollcallApiSlow: {
    bad: { [durations('2.5')]: '0+50x60', [durations('5')]: '0+100x60', [durations('+Inf')]: '0+100x60' },
    good: { [durations('2.5')]: '0+100x60', [durations('5')]: '0+100x60', [durations('+Inf')]: '0+100x60' },
  },
  RollcallApiLoginStorm: of(requests('401'), '0+60x60', '0+1x60'),
  RollcallApiFull: of('rollcall_http_connections_refused_total{reason="in_all"}', '0+1x60', '5x60'),
  RollcallFtpLoginStorm: of('rollcall_ftp_logins_total{result="wrong"}', '0+30x60', '0+1x60'),
  RollcallFtpFull: of('rollcall_ftp_connections_refused_total', '0+1x60', '5x60'),
  RollcallFtpTransfersBreaking: {
    bad: { [uploads('broken_off')]: '0+2x60', [uploads('done')]: '0+1x60' },
    good: { [uploads('broken_off')]: '0+2x60', [uploads('done')]: '0+20x60' },
  },
  RollcallCallbacksGivenUp: event(`rollcall_callbacks_given_up_total{${engine}}`),
  RollcallCallbacksFailing: {
    bad: {
      [callbacks('failed')]: '0+2x60',
      [callbacks('delivered')]: '0+1x60',
      rollcall_callbacks_pending: '30x60',
    },
    good: {
      [callbacks('failed')]: '0+2x60',
      [callbacks('delivered')]: '0+20x60',
      rollcall_callbacks_pending: '30x60',
    },
  },
  RollcallOutboxStuck: of('rollcall_outbox_age_seconds', '2000x60', '20x60'),
}
