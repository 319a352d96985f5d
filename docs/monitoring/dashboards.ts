import { type Dashboard, MappingType } from '@grafana/grafana-foundation-sdk/dashboard'
import { above, below, dashboard, graph, heat, single, stacked } from './dashboard.ts'

/**
 * The dashboards, each for one question of an operator. `npm run dashboards` writes Grafana's files. A test compares
 * them with this file, and runs every query on a real Prometheus.
 *
 * Several processes report the same metrics of the whole installation, so the queries use the largest value. Metrics of
 * one process are summed. Red limits are those of the alerts where there is one. No metric has a label
 * of an organization.
 */

/** A metric of the chosen processes. */
const own = (metric: string, labels = '') => `${metric}{instance=~"$process"${labels && `,${labels}`}}`
/** 0 where there is no value yet, or none that is a number. */
const orZero = (expr: string) => `(${expr}) >= 0 or on () vector(0)`
const rate = (by: string, metric: string, labels = '') =>
  orZero(`sum by (${by}) (rate(${own(metric, labels)}[$__rate_interval]))`)
const perMinute = (by: string, metric: string) => `60 * (${rate(by, metric)})`
const legend = (by: string) => by.replaceAll(/\w+/g, '{{$&}}').replaceAll(',', '')
const rateBy = (by: string, metric: string, labels = '') => ({ [legend(by)]: rate(by, metric, labels) })
const perMinuteBy = (by: string, metric: string) => ({ [legend(by)]: perMinute(by, metric) })
const quantile = (q: number, by: string, metric: string) =>
  orZero(`histogram_quantile(${q}, sum by (le, ${by}) (rate(${own(`${metric}_bucket`)}[$__rate_interval])))`)
const buckets = (metric: string, labels = '') =>
  `sum by (le) (increase(${own(`${metric}_bucket`, labels)}[$__rate_interval]))`

/**
 * What a counter counted in the last `hours`. Of a process that started since then it is the counter itself where
 * `increase` is 0: it sees nothing of a counter that was above 0 when it was first scraped.
 */
const times = (metric: string, hours: number) =>
  orZero(
    `sum(increase(${metric}[${hours * 60}m]) > 0 or (${metric} and on (job, instance) (time() - process_start_time_seconds < ${hours * 3_600})))`,
  )

/** 0, 1 with a warning, 2 with a critical alert. Without the rules there is no value, rather than a good one. */
function state(title: string, area: string, look: string, job?: string) {
  const rings = (severity: string) =>
    [`area="${area}"`, ...(job === undefined ? [] : [`job="rollcall-${job}"`])]
      .map((labels) => `ALERTS{alertstate="firing",severity="${severity}",${labels}}`)
      .join(' or ')
  const expr = `max(2 * (${rings('critical')}) or ${rings('warning')}) or 0 * max(rollcall:processes:up)`
  const text = `Good while no alert rings. Otherwise see "Alerts that ring", the runbook, and "${look}". No data: Prometheus has no rules.`
  const options = { 0: { text: 'good' }, 1: { text: 'warning' }, 2: { text: 'critical' } }
  return single(title, 'short', above(1, 2), { text, show: expr }).mappings([
    { type: MappingType.ValueToText, options },
  ])
}
const up = (job: string) => `sum(rollcall:processes:up{job="rollcall-${job}"})`

const overview = dashboard({
  uid: 'rollcall-overview',
  title: 'Rollcall: overview',
  description: 'Does everything work?',
  jobs: 'rollcall-.+',
  rows: {
    '': [
      state('API', 'api', 'API', 'control-plane'),
      single('Control planes that answer', 'short', below(1, 1), {
        text: 'As many as you run. None: there is no API; start one (RollcallNoControlPlane).',
        show: up('control-plane'),
      }),
      single('Requests that failed', 'percentunit', above(0.01, 0.05), {
        text: 'Under 1 %. More: MongoDB, or a defect that the log of a control plane has (RollcallApiErrors).',
        show: 'rollcall:http_server_errors:ratio_rate5m',
      }),
      single('99 of 100 requests within', 's', above(1, 2.5), {
        text: 'Under 1 s. More: see "Slowest routes" on "API" (RollcallApiSlow).',
        show: orZero('rollcall:http_request_duration_seconds:p99_5m'),
      }),
      state('Engines', 'engines', 'engine and workers', 'engine'),
      single('Engines that work', 'short', below(1, 1), {
        text: 'As many as you run. None: imports wait; start one (RollcallNoEngine).',
        show: 'max(rollcall:engines:max{state="alive"})',
      }),
      single('Lanes in use', 'percentunit', [], {
        text: 'Full while there is much to import. Full all the time, and imports wait: start another engine.',
        show: 'avg(rollcall_worker_utilization_ratio)',
      }),
      single('Leases lost in an hour', 'short', above(1, 4), {
        text: 'None. Some: an engine was suspended, or had no processor time (RollcallLeasesLost).',
        show: times('rollcall_engine_leases_lost_total', 1),
      }),
      state('Uploads', 'uploads', 'FTP and uploads', 'ftp'),
      single('FTP servers that answer', 'short', below(1, 1), {
        text: 'As many as you run. None: no file comes by FTP; start one (RollcallNoFtp).',
        show: up('ftp'),
      }),
      single('Transfers broken off in 15 min', 'short', above(3, 10), {
        text: 'Few: clients resume them. Many: check firewall and passive ports (RollcallFtpTransfersBreaking).',
        show: times('rollcall_ftp_transfers_total{result="broken_off"}', 0.25),
      }),
      single('Disk free', 'percentunit', below(0.1, 0.05), {
        text: 'Over 10 %. Less: have old uploads deleted, or enlarge the disk (RollcallDiskLow).',
        show: 'min(rollcall_disk_free_bytes / rollcall_disk_size_bytes)',
      }),
      state('Imports', 'imports', 'imports and throughput'),
      single('Longest wait for a start', 's', above(60, 3600), {
        text: 'Seconds. Longer: no engine begins it (RollcallImportsNotStarted), or its list is taken (RollcallListStuck).',
        show: 'max(rollcall_import_queue_age_seconds)',
      }),
      single('Longest without progress', 's', above(60, 300), {
        text: 'Under a minute. More: the log of an engine names the import after 5 minutes (RollcallImportStuck).',
        show: 'max(rollcall_import_progress_age_seconds)',
      }),
      single('Failed in an hour', 'short', above(1), {
        text: 'None. Some: see "Failed, by reason" on "imports and throughput" (RollcallImportFailed).',
        show: times('rollcall_imports_ended_total{state="failed"}', 1),
      }),
      state('Database', 'database', 'engine and workers'),
      single('MongoDB answers', 'short', below(1, 1), {
        text: '1 where it answers every process. 0: look at its log and its replica set (RollcallDatabaseDown).',
        show: 'min(rollcall_database_up)',
      }),
      single('A write takes', 's', above(0.1, 0.25), {
        text: 'Under 100 ms on average. More: its disk, its cache, or too many engines (RollcallDatabaseSlow).',
        show: orZero('max(rollcall:database_server_latency_seconds:avg_rate5m{kind="writes"})'),
      }),
      single('Cache not written to the disk', 'percentunit', above(0.05, 0.2), {
        text: 'Under 5 %. More: the disk is too slow, or the cache too small (RollcallDatabaseCacheFull).',
        show: 'max(rollcall_database_server_cache_ratio{kind="dirty"})',
      }),
      stacked('Rows by result', 'rowsps', [], {
        text: 'Above 0 while an import is importing. None for long: see "Longest without progress".',
        show: rateBy('result', 'rollcall_import_rows_total'),
      })
        .span(12)
        .height(6),
      stacked('Alerts that ring', 'short', above(1), {
        text: 'None. The runbook has a section for each.',
        show: {
          '{{alertname}}': orZero(
            'count by (alertname) (ALERTS{alertstate="firing",alertname=~"Rollcall.+"})',
          ),
        },
      })
        .span(12)
        .height(6),
    ],
  },
})

const imports = dashboard({
  uid: 'rollcall-imports',
  title: 'Rollcall: imports and throughput',
  description: 'Does it work, how fast, which import makes no progress, and which source fails?',
  jobs: 'rollcall-engine',
  rows: {
    Work: [
      stacked('Rows by result', 'rowsps', [], {
        text: 'Most are "added", "updated" or skipped. Many "failed": the files or their mapping are wrong; tell their senders.',
        show: rateBy('result', 'rollcall_import_rows_total'),
      }),
      graph('Bytes by stage', 'Bps', [], {
        text: 'All stages move while imports run. One that stays at 0 is the limit: a slow source, disk or database.',
        show: rateBy('stage', 'rollcall_import_bytes_total'),
      }),
      stacked('Unfinished imports by state', 'short', [], {
        text: 'They rise and fall. A rising count of "scheduled" or "paused": see "Due and not started".',
        show: {
          '{{state}}': 'rollcall:imports:max{state=~"scheduled|downloading|splitting|importing|paused"}',
        },
      }),
      graph('Without progress, or not started', 's', above(60, 300), {
        text: 'Under 5 minutes. Which one: the line "an import has made no progress" in the log. Runbook: RollcallImportStuck.',
        show: {
          'a running import': 'max(rollcall_import_progress_age_seconds)',
          'a due import': 'max(rollcall_import_queue_age_seconds)',
        },
      }),
      graph('Due and not started', 'short', [], {
        text: 'Waiting for "list" is normal: a list takes one import at a time. Waiting for "engine": start another one.',
        show: { 'waits for {{waits_for}}': 'rollcall:imports_due:max' },
      }),
      graph('Share of the largest organization', 'percentunit', [], {
        text: '1 where one imports alone. 1 while others wait: GET /jobs/all_on_all_organizations?state=importing says which.',
        show: { 'of the running chunks': 'max(rollcall_import_largest_organization_ratio)' },
      }),
    ],
    Ends: [
      stacked('Ended', 'cpm', [], {
        text: 'Most finish. Many failed ones of one source: see "Failed, by reason". Runbook: RollcallImportsFailing.',
        show: perMinuteBy('state, source', 'rollcall_imports_ended_total'),
      }),
      stacked('Failed, by reason', 'cpm', above(0.1), {
        text: 'None. What each reason asks for is in the runbook: RollcallImportsFailing, RollcallDefect, RollcallEveryRowFailed.',
        show: {
          '{{reason}}': perMinute('reason', 'rollcall_import_failures_total'),
          'every row failed': perMinute('', 'rollcall_imports_every_row_failed_total'),
        },
      }),
      stacked('Failed downloads', 'cpm', [], {
        text: 'Few: each is tried again. One reason for all hosts is your network. Runbook: RollcallDownloadsFailing.',
        show: perMinuteBy('scheme, reason', 'rollcall_import_download_failures_total'),
      }),
    ],
    Afterwards: [
      stacked('Callbacks', 'cpm', [], {
        text: 'Most are delivered. Others: the log of an engine has host and reason. Runbook: RollcallCallbacksFailing.',
        show: {
          '{{result}}': perMinute('result', 'rollcall_callback_attempts_total'),
          'given up': perMinute('', 'rollcall_callbacks_given_up_total'),
        },
      }),
      graph('Waiting callbacks', 'short', above(20), {
        text: 'Under 20. More: receivers fail, see "Callbacks".',
        show: { pending: 'max(rollcall_callbacks_pending)' },
      }),
      graph('Waiting mail', 's', above(900), {
        text: 'Under 15 minutes. More: no mail sender takes it. Runbook: RollcallOutboxStuck.',
        show: { 'oldest message not taken': 'max(rollcall_outbox_age_seconds)' },
      }),
    ],
  },
})

const engines = dashboard({
  uid: 'rollcall-engines',
  title: 'Rollcall: engine and workers',
  description: 'Do the engines work, and is MongoDB, the disk or the processor their limit?',
  jobs: 'rollcall-.+',
  rows: {
    Work: [
      graph('Engines', 'short', [], {
        text: 'All are alive. "overdue" ones missed their lease: others take over their work. Runbook: RollcallFewerEngines.',
        show: { '{{state}}': 'rollcall:engines:max' },
      }),
      graph('Lanes in use', 'percentunit', [], {
        text: 'Full while there is work. Full all the time, and MongoDB is not busy: start another engine.',
        show: { '{{instance}}': own('rollcall_worker_utilization_ratio') },
      }),
      graph('Chunks', 'short', [], {
        text: '"ready" ones wait for a lane. "overdue" for more than seconds: an engine died, and another one takes them over.',
        show: { '{{state}}': 'rollcall:import_chunks:max' },
      }),
      graph('Chunks that ended', 'ops', [], {
        text: 'Most are "done". "lost" or "failed" again and again: see the log of the engines.',
        show: rateBy('result', 'rollcall_import_chunks_total'),
      }),
      graph('Repeated batches', 'ops', [], {
        text: 'Few. Many: requests write the subscribers of a list that is imported. Runbook: RollcallWriteConflicts.',
        show: rateBy('reason', 'rollcall_import_batch_retries_total'),
      }),
      graph('Leases', 'ops', above(0.01), {
        text: 'None. Runbook: RollcallLeasesLost.',
        show: {
          lost: rate('', 'rollcall_engine_leases_lost_total'),
          'renewals without an answer': rate('', 'rollcall_engine_lease_renewals_total', 'result="failed"'),
        },
      }),
    ],
    'Threads and files': [
      graph('Threads: computing', 'percentunit', [], {
        text: 'Near 1: the processor is the limit, not MongoDB.',
        show: {
          '{{instance}} thread {{worker}}': own('rollcall_worker_event_loop_utilization_ratio'),
        },
      }),
      graph('Threads: memory for objects', 'percentunit', above(0.7, 0.85), {
        text: 'Under 85 % of the limit, at which a thread is ended. Runbook: RollcallWorkerHeapHigh.',
        show: {
          '{{instance}} thread {{worker}}': `${own('rollcall_worker_heap_used_bytes')} / rollcall_worker_heap_limit_bytes`,
        },
      }),
      graph('Disk', 'bytes', [], {
        text: 'Free space stays. It falls: see what is staged, and the uploads. Runbook: RollcallDiskLow.',
        show: { 'staged files': 'max(rollcall_staging_bytes)', free: 'min(rollcall_disk_free_bytes)' },
      }),
      graph('Imports without space on the disk', 'short', above(1, 1), {
        text: 'None. Make space; they continue by themselves. Runbook: RollcallStagingStopped.',
        show: { waiting: 'max(rollcall_import_steps_without_space)' },
      }),
      graph('Missing files and folders', 'short', above(1, 1), {
        text: 'None. Check the mount of DATA_DIR on that machine. Runbook: RollcallDataFolderUnavailable.',
        show: {
          '{{job}} {{instance}}: DATA_DIR away': orZero(`1 - ${own('rollcall_data_folder_available')}`),
          'files missed in a minute': perMinute('', 'rollcall_import_files_missing_total'),
        },
      }),
    ],
    Processes: [
      graph('Memory of the processes', 'bytes', [], {
        text: 'Steady, under the limit of the container. It rises for hours: restart the process and report it.',
        show: { '{{job}} {{instance}}': own('process_resident_memory_bytes', 'job=~"rollcall-.+"') },
      }),
      graph('Processor', 'percentunit', [], {
        text: '1 is one core. A control plane uses one at most: at 1, start another one.',
        show: rateBy('job, instance', 'process_cpu_seconds_total', 'job=~"rollcall-.+"'),
      }),
      graph('Garbage collection', 'percentunit', above(0.1, 0.3), {
        text: 'Under 10 % of the time. More: the heap is too small (operating.md, Memory).',
        show: rateBy('job, instance', 'nodejs_gc_duration_seconds_sum', 'job=~"rollcall-.+"'),
      }),
      graph('Delay of the event loop, p99', 's', above(0.1, 0.5), {
        text: 'Under 100 ms. More: too little processor for this process. Runbook: RollcallEventLoopBlocked.',
        show: { '{{job}} {{instance}}': own('nodejs_eventloop_lag_p99_seconds', 'job=~"rollcall-.+"') },
      }),
    ],
    MongoDB: [
      graph('MongoDB: latency by kind', 's', above(0.1, 0.25), {
        text: 'Writes under 100 ms. More: its disk, its cache, or too many engines. Runbook: RollcallDatabaseSlow.',
        show: { '{{kind}}': 'rollcall:database_server_latency_seconds:avg_rate5m' },
      }),
      graph('MongoDB: operations by kind', 'ops', [], {
        text: 'Follows the work. Many without an import: another client, or a flood of requests.',
        show: {
          '{{kind}}': 'max by (kind) (rate(rollcall_database_server_operations_total[$__rate_interval]))',
        },
      }),
      graph('MongoDB: cache', 'percentunit', above(0.95), {
        text: '"used" stays at 80 %, "dirty" under 5 %. "dirty" at 20 %: operations write pages first. Runbook: RollcallDatabaseCacheFull.',
        show: { '{{kind}}': 'max by (kind) (rollcall_database_server_cache_ratio)' },
      }),
      graph('MongoDB: free tickets and waiting operations', 'short', [], {
        text: 'Tickets are left, nothing waits. Otherwise the server is full: fewer engines, or a faster disk.',
        show: {
          '{{operation}} tickets': 'min by (operation) (rollcall_database_server_tickets_available)',
          '{{operation}} waiting': 'max by (operation) (rollcall_database_server_queued_operations)',
        },
      }),
      graph('MongoDB: connections of this service', 'short', [], {
        text: 'None waits. Otherwise operations are slow, or a process needs a second one. Runbook: RollcallConnectionsExhausted.',
        show: {
          '{{job}} in use': `sum by (job) (${own('rollcall_database_connections_in_use')})`,
          '{{job}} waiting': `sum by (job) (${own('rollcall_database_checkouts_waiting')})`,
        },
      }),
      graph('MongoDB: wait for a connection, p99', 's', above(0.01, 1), {
        text: 'Under 10 ms. More: as for the connections of this service.',
        show: { '{{job}}': quantile(0.99, 'job', 'rollcall_database_checkout_duration_seconds') },
      }),
    ],
  },
})

const requests = 'rollcall_http_request_duration_seconds'
const api = dashboard({
  uid: 'rollcall-api',
  title: 'Rollcall: API',
  description: 'Does the control plane answer, how fast, and what does it refuse?',
  jobs: 'rollcall-control-plane',
  rows: {
    Replies: [
      stacked('Requests by status', 'reqps', [], {
        text: 'Most are 2xx. 5xx: the log has each with its stack (RollcallApiErrors). 499: the client left before the reply.',
        show: rateBy('status', `${requests}_count`),
      }),
      stacked('Refusals by code', 'reqps', [], {
        text: 'Few. A client that repeats one does something wrong: the log of requests has its key and address.',
        show: rateBy('error_code', `${requests}_count`, 'error_code!=""'),
      }),
      graph('Wrong credentials and too many requests', 'reqps', above(1), {
        text: 'Under one a second. More: an old key in a script, or an attack. Runbook: RollcallApiLoginStorm.',
        show: {
          wrong: rate('', `${requests}_count`, 'status="401"'),
          'too many': rate('', `${requests}_count`, 'status="429"'),
        },
      }),
    ],
    Durations: [
      graph('Duration', 's', above(1, 2.5), {
        text: 'p99 under 1 s. More: see "Slowest routes". Runbook: RollcallApiSlow.',
        show: Object.fromEntries([0.5, 0.95, 0.99].map((q) => [`p${q * 100}`, quantile(q, '', requests)])),
      }),
      graph('Slowest routes, p95', 's', [], {
        text: 'Creating imports with much inline content may take seconds, reading may not: see MongoDB on "engine and workers".',
        show: { '{{method}} {{route}}': `topk(10, ${quantile(0.95, 'method, route', requests)})` },
      }),
      stacked('Requests by route', 'reqps', [], {
        text: 'The 15 most frequent ones. One that rises alone is one client: the log of requests says which.',
        show: { '{{method}} {{route}}': `topk(15, ${rate('method, route', `${requests}_count`)})` },
      }),
    ],
    Connections: [
      graph('Connections', 'short', [], {
        text: 'Under HTTP_MAX_CONNECTIONS. Many, and few requests: clients that open them and send nothing.',
        show: {
          '{{instance}}': own('rollcall_http_connections'),
          '{{instance}}: requests': own('rollcall_http_requests_in_flight'),
          '{{instance}}: event streams': own('rollcall_event_streams'),
        },
      }),
      graph('Connections refused', 'cpm', above(1), {
        text: 'None. The log names an address. Runbook: RollcallApiFull.',
        show: perMinuteBy('reason', 'rollcall_http_connections_refused_total'),
      }),
    ],
  },
})

const ftp = dashboard({
  uid: 'rollcall-ftp',
  title: 'Rollcall: FTP and uploads',
  description: 'Who is connected, what is transferred by FTP and HTTP, and what breaks off?',
  jobs: 'rollcall-(ftp|control-plane)',
  rows: {
    Transfers: [
      graph('Bytes of files', 'Bps', [], {
        text: 'Above 0 while transfers run.',
        show: rateBy('protocol, direction', 'rollcall_ftp_bytes_total'),
      }),
      graph('Running transfers', 'short', [], {
        text: 'They rise and fall. Some that stay, and no bytes: clients that hang; they are cut.',
        show: { '{{protocol}} {{kind}}': `sum by (protocol, kind) (${own('rollcall_ftp_transfers')})` },
      }),
      stacked('Transfers by result', 'cpm', [], {
        text: 'Most are done. Many broken off: firewall, passive ports, a full disk. Runbook: RollcallFtpTransfersBreaking.',
        show: perMinuteBy('protocol, kind, result', 'rollcall_ftp_transfers_total'),
      }),
      heat('Uploads: durations', {
        text: 'Dark is frequent. Long ones are large files or slow partners.',
        show: buckets('rollcall_ftp_transfer_duration_seconds', 'kind="in"'),
      }),
    ],
    'FTP sessions': [
      graph('Sessions', 'short', [], {
        text: 'Under FTP_MAX_SESSIONS. Many that are idle: clients that do not close them.',
        show: { '{{instance}}': own('rollcall_ftp_sessions') },
      }),
      stacked('Logins', 'cpm', [], {
        text: 'Most are ok. "wrong" is an old key, "throttled" an address with many wrong ones. Runbook: RollcallFtpLoginStorm.',
        show: perMinuteBy('result', 'rollcall_ftp_logins_total'),
      }),
      stacked('Sessions that ended, by reason', 'cpm', [], {
        text: 'Most quit. Many "idle" or "connection_lost": clients, or a firewall that drops silent connections.',
        show: perMinuteBy('reason', 'rollcall_ftp_disconnections_total'),
      }),
      graph('Connections refused', 'cpm', above(1), {
        text: 'None. Raise FTP_MAX_SESSIONS, or start another server. Runbook: RollcallFtpFull.',
        show: { 'too many sessions': perMinute('', 'rollcall_ftp_connections_refused_total') },
      }),
    ],
  },
})

const stageTimes = 'rollcall_import_stage_duration_seconds'
const timings = dashboard({
  uid: 'rollcall-timings',
  title: 'Rollcall: stages and heat maps',
  description: 'Where does the time of an import go?',
  jobs: 'rollcall-.+',
  rows: {
    Stages: [
      graph('Stages, p95', 's', [], {
        text: '`import` is the whole of an import, from its start to its end, pauses included. The longest other stage is what to look at.',
        show: { '{{stage}}': orZero('rollcall:import_stage_duration_seconds:p95_5m') },
      }),
      ...Object.entries({
        wait: 'Seconds. Longer: the engines are full, or the list is taken.',
        obtain: 'As long as the source takes. All are long: your network or disk.',
        split: 'A small part of the import. Long: the disk.',
        import: 'Follows the size of the files. Long for small ones: MongoDB.',
        finish: 'Seconds. Long: many absent subscribers are deactivated, or MongoDB is slow.',
      }).map(([stage, good]) =>
        heat(`Stage: ${stage}`, { text: good, show: buckets(stageTimes, `stage="${stage}"`) }),
      ),
    ],
    'Chunks and batches': [
      heat('Chunks', {
        text: 'Seconds. A second band far above: an engine that waits for MongoDB or the processor.',
        show: buckets('rollcall_import_chunk_duration_seconds'),
      }),
      heat('Batches', {
        text: 'Under 1 s. It rises with each further engine: MongoDB is the limit.',
        show: buckets('rollcall_bulk_write_duration_seconds'),
      }),
    ],
    MongoDB: [
      heat('Database operations, measured by the processes', {
        text: 'Milliseconds; waits for wake-ups take up to 30 s. The rest rises: MongoDB or the network.',
        show: buckets('rollcall_database_operation_duration_seconds'),
      }),
    ],
  },
})

export const dashboards: Dashboard[] = [overview, imports, engines, api, ftp, timings]
