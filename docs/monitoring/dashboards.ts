import type { Dashboard, Panel, Query } from './dashboard.ts'

/**
 * The dashboards, each for one question of an operator. `npm run dashboards` writes Grafana's files. A test compares
 * them with this file, and runs every query on a real Prometheus.
 *
 * Several processes report the same metrics of the whole installation, so the queries use the largest value. Metrics of
 * one process are summed.
 */

const query = (expr: string, legend = ''): Query => ({ expr, legend })
const graph = (title: string, unit: string, queries: Query[], description?: string): Panel => ({
  kind: 'timeseries',
  title,
  unit,
  queries,
  ...(description === undefined ? {} : { description }),
})
const stacked = (title: string, unit: string, queries: Query[], description?: string): Panel => ({
  ...graph(title, unit, queries, description),
  stacked: true,
})
const stat = (title: string, unit: string, expr: string): Panel => ({
  kind: 'stat',
  title,
  unit,
  queries: [query(expr)],
})
const heat = (title: string, metric: string, filter = ''): Panel => ({
  kind: 'heatmap',
  title,
  unit: 's',
  queries: [query(`sum by (le) (increase(${metric}_bucket${filter}[$__rate_interval]))`, '{{le}}')],
})

const rate = (by: string, metric: string): string => `sum by (${by}) (rate(${metric}[$__rate_interval]))`
const quantile = (q: number, by: string, metric: string): string =>
  `histogram_quantile(${q}, sum by (${by === '' ? 'le' : `le, ${by}`}) (rate(${metric}_bucket[$__rate_interval])))`
const quantiles = (metric: string): Query[] =>
  [0.5, 0.95, 0.99].map((q) => query(quantile(q, '', metric), `p${q * 100}`))

const processes = 'job=~"rollcall-.+"'

const imports: Dashboard = {
  uid: 'rollcall-imports',
  title: 'Rollcall: imports and throughput',
  description: 'Does it work, how fast, which import makes no progress, and which source fails?',
  panels: [
    stat('Running', 'short', 'sum(rollcall:imports:max{state=~"downloading|splitting|importing"})'),
    stat('Rows per second', 'short', 'sum(rollcall:import_rows:rate1m)'),
    stat('Longest without progress', 's', 'max(rollcall_import_progress_age_seconds)'),
    stat('Longest wait for a start', 's', 'max(rollcall_import_queue_age_seconds)'),
    stacked('Rows by result', 'short', [query(rate('result', 'rollcall_import_rows_total'), '{{result}}')]),
    graph('Bytes by stage', 'Bps', [query('rollcall:import_bytes:rate1m', '{{stage}}')]),
    stacked('Unfinished imports by state', 'short', [
      query('rollcall:imports:max{state=~"scheduled|downloading|splitting|importing|paused"}', '{{state}}'),
    ]),
    graph('Due and not started', 'short', [query('rollcall:imports_due:max', 'waits for {{waits_for}}')]),
    graph(
      'Without progress, or not started',
      's',
      [
        query('max(rollcall_import_progress_age_seconds)', 'a running import'),
        query('max(rollcall_import_queue_age_seconds)', 'a due import'),
      ],
      'Which one: the line "an import has made no progress" in the log, after 5 minutes.',
    ),
    graph(
      'Organizations',
      'short',
      [
        query('max(rollcall_import_organizations)', 'organizations with a running import'),
        query('100 * max(rollcall_import_largest_organization_ratio)', 'share of the largest, in %'),
      ],
      'Which one: GET /jobs/all_on_all_organizations?state=importing with the key of a system admin.',
    ),
    stacked('Ended', 'short', [
      query(
        'sum by (state, source) (increase(rollcall_imports_ended_total[$__rate_interval]))',
        '{{state}} ({{source}})',
      ),
    ]),
    stacked('Failed, by reason', 'short', [
      query('sum by (reason) (increase(rollcall_import_failures_total[$__rate_interval]))', '{{reason}}'),
      query('sum(increase(rollcall_imports_every_row_failed_total[$__rate_interval]))', 'every row failed'),
    ]),
    stacked('Downloads', 'short', [
      query(
        'sum by (result) (increase(rollcall_import_download_attempts_total[$__rate_interval]))',
        '{{result}}',
      ),
    ]),
    stacked('Failed downloads', 'short', [
      query(
        'sum by (scheme, reason) (increase(rollcall_import_download_failures_total[$__rate_interval]))',
        '{{scheme}}: {{reason}}',
      ),
    ]),
    stacked('Callbacks', 'short', [
      query(rate('result', 'rollcall_callback_attempts_total'), '{{result}}'),
      query('sum(rate(rollcall_callbacks_given_up_total[$__rate_interval]))', 'given up'),
    ]),
    graph('Waiting callbacks', 'short', [query('max(rollcall_callbacks_pending)', 'pending')]),
    graph('Waiting mail', 's', [query('max(rollcall_outbox_age_seconds)', 'oldest message not taken')]),
  ],
}

const engines: Dashboard = {
  uid: 'rollcall-engines',
  title: 'Rollcall: engine and workers',
  description: 'Do the engines work, and is MongoDB, the disk or the processor their limit?',
  panels: [
    stat('Engines', 'short', 'max(rollcall_engines{state="alive"})'),
    stat('Lanes in use', 'percentunit', 'avg(rollcall_worker_utilization_ratio)'),
    stat('Leases lost in an hour', 'short', 'sum(increase(rollcall_engine_leases_lost_total[1h]))'),
    stat('Disk free', 'bytes', 'min(rollcall_disk_free_bytes)'),
    graph('Engines', 'short', [query('rollcall:engines:max', '{{state}}')]),
    graph('Chunks', 'short', [query('rollcall:import_chunks:max', '{{state}}')]),
    graph('Lanes in use', 'percentunit', [query('rollcall_worker_utilization_ratio', '{{instance}}')]),
    graph('Threads: computing', 'percentunit', [
      query('rollcall_worker_event_loop_utilization_ratio', '{{instance}} thread {{worker}}'),
    ]),
    graph('Chunks that ended', 'short', [
      query(rate('result', 'rollcall_import_chunks_total'), '{{result}}'),
    ]),
    graph('Repeated batches', 'short', [
      query(rate('reason', 'rollcall_import_batch_retries_total'), '{{reason}}'),
    ]),
    graph('Steps in progress', 'short', [query('sum by (kind) (rollcall_engine_steps)', '{{kind}}')]),
    graph('Imports without space on the disk', 'short', [
      query('max(rollcall_import_steps_without_space)', 'waiting'),
    ]),
    graph('Missing files and folders', 'short', [
      query('1 - rollcall_data_folder_available', '{{job}} {{instance}}: DATA_DIR away'),
      query('rate(rollcall_import_files_missing_total[$__rate_interval])', '{{instance}}: missing files'),
    ]),
    graph('Leases', 'short', [
      query('sum(rate(rollcall_engine_leases_lost_total[$__rate_interval]))', 'lost'),
      query(
        'sum(rate(rollcall_engine_lease_renewals_total{result="failed"}[$__rate_interval]))',
        'renewals without an answer',
      ),
    ]),
    graph('Threads: memory for objects', 'bytes', [
      query('rollcall_worker_heap_used_bytes', '{{instance}} thread {{worker}}'),
    ]),
    graph('Memory of the processes', 'bytes', [
      query(`process_resident_memory_bytes{${processes}}`, '{{job}} {{instance}}'),
    ]),
    graph('Processor', 'percentunit', [
      query(`rate(process_cpu_seconds_total{${processes}}[$__rate_interval])`, '{{job}} {{instance}}'),
    ]),
    graph('Garbage collection', 'percentunit', [
      query(
        `sum by (job, instance) (rate(nodejs_gc_duration_seconds_sum{${processes}}[$__rate_interval]))`,
        '{{job}} {{instance}}',
      ),
    ]),
    graph('Delay of the event loop, p99', 's', [
      query(`nodejs_eventloop_lag_p99_seconds{${processes}}`, '{{job}} {{instance}}'),
    ]),
    graph('Disk', 'bytes', [
      query('max(rollcall_staging_bytes)', 'staged files'),
      query('min(rollcall_disk_free_bytes)', 'free'),
    ]),
    graph('MongoDB: latency by kind', 's', [
      query('rollcall:database_server_latency_seconds:avg_rate5m', '{{kind}}'),
    ]),
    graph('MongoDB: operations by kind', 'ops', [
      query('max by (kind) (rate(rollcall_database_server_operations_total[$__rate_interval]))', '{{kind}}'),
    ]),
    graph('MongoDB: cache', 'percentunit', [
      query('max by (kind) (rollcall_database_server_cache_ratio)', '{{kind}}'),
    ]),
    graph('MongoDB: free tickets and waiting operations', 'short', [
      query('min by (operation) (rollcall_database_server_tickets_available)', '{{operation}} tickets'),
      query('max by (operation) (rollcall_database_server_queued_operations)', '{{operation}} waiting'),
    ]),
    graph('MongoDB: connections of this service', 'short', [
      query('sum by (job) (rollcall_database_connections_in_use)', '{{job}} in use'),
      query('sum by (job) (rollcall_database_checkouts_waiting)', '{{job}} waiting'),
    ]),
    graph('MongoDB: wait for a connection, p99', 's', [
      query(quantile(0.99, 'job', 'rollcall_database_checkout_duration_seconds'), '{{job}}'),
    ]),
  ],
}

const requests = 'rollcall_http_request_duration_seconds'
const api: Dashboard = {
  uid: 'rollcall-api',
  title: 'Rollcall: API',
  description: 'Does the control plane answer, how fast, and what does it refuse?',
  panels: [
    stat('Requests per second', 'reqps', 'sum(rollcall:http_requests:rate1m)'),
    stat('Errors of the server', 'percentunit', 'rollcall:http_server_errors:ratio_rate5m'),
    stat('p99', 's', 'rollcall:http_request_duration_seconds:p99_5m'),
    stat('In flight', 'short', 'sum(rollcall_http_requests_in_flight)'),
    stacked('Requests by status', 'reqps', [query(rate('status', `${requests}_count`), '{{status}}')]),
    stacked('Refusals by code', 'reqps', [query(rate('error_code', `${requests}_count`), '{{error_code}}')]),
    stacked('Requests by route', 'reqps', [
      query(`topk(15, ${rate('method, route', `${requests}_count`)})`, '{{method}} {{route}}'),
    ]),
    graph('Slowest routes, p95', 's', [
      query(`topk(10, ${quantile(0.95, 'method, route', requests)})`, '{{method}} {{route}}'),
    ]),
    graph('Duration', 's', quantiles(requests)),
    heat('Durations', requests),
    graph('Wrong credentials and too many requests', 'reqps', [
      query(`sum(rate(${requests}_count{status="401"}[$__rate_interval])) or vector(0)`, 'wrong'),
      query(`sum(rate(${requests}_count{status="429"}[$__rate_interval])) or vector(0)`, 'too many'),
    ]),
    graph('Replies to clients that left', 'reqps', [
      query(`sum(rate(${requests}_count{status="499"}[$__rate_interval])) or vector(0)`, '499'),
    ]),
    graph('Connections', 'short', [query('sum by (instance) (rollcall_http_connections)', '{{instance}}')]),
    graph('Connections refused', 'short', [
      query(rate('reason', 'rollcall_http_connections_refused_total'), '{{reason}}'),
    ]),
    graph('Open event streams', 'short', [
      query('sum by (instance) (rollcall_event_streams)', '{{instance}}'),
    ]),
    graph('Delay of the event loop, p99', 's', [
      query('nodejs_eventloop_lag_p99_seconds{job="rollcall-control-plane"}', '{{instance}}'),
    ]),
    graph('Memory', 'bytes', [
      query('process_resident_memory_bytes{job="rollcall-control-plane"}', '{{instance}}'),
    ]),
  ],
}

const ftp: Dashboard = {
  uid: 'rollcall-ftp',
  title: 'Rollcall: FTP and uploads',
  description: 'Who is connected, what is transferred by FTP and HTTP, and what breaks off?',
  panels: [
    stat('Sessions', 'short', 'sum(rollcall_ftp_sessions)'),
    stat('Uploads in progress', 'short', 'sum(rollcall_ftp_transfers{kind="in"})'),
    stat('In', 'Bps', 'sum(rollcall:ftp_bytes:rate1m{direction="in"})'),
    stat(
      'Wrong logins in 5 minutes',
      'short',
      'sum(increase(rollcall_ftp_logins_total{result="wrong"}[5m]))',
    ),
    graph('Sessions', 'short', [query('sum by (instance) (rollcall_ftp_sessions)', '{{instance}}')]),
    graph('Bytes of files', 'Bps', [query('rollcall:ftp_bytes:rate1m', '{{protocol}} {{direction}}')]),
    stacked('Logins', 'short', [query(rate('result', 'rollcall_ftp_logins_total'), '{{result}}')]),
    stacked('Sessions that ended, by reason', 'short', [
      query(rate('reason', 'rollcall_ftp_disconnections_total'), '{{reason}}'),
    ]),
    stacked('Transfers by result', 'short', [
      query(
        rate('protocol, kind, result', 'rollcall_ftp_transfers_total'),
        '{{protocol}} {{kind}} {{result}}',
      ),
    ]),
    graph('Running transfers', 'short', [
      query('sum by (protocol, kind) (rollcall_ftp_transfers)', '{{protocol}} {{kind}}'),
    ]),
    heat('Uploads: durations', 'rollcall_ftp_transfer_duration_seconds', '{kind="in"}'),
    graph('Connections refused', 'short', [
      query('sum(rate(rollcall_ftp_connections_refused_total[$__rate_interval]))', 'too many sessions'),
    ]),
    graph('Delay of the event loop, p99', 's', [
      query('nodejs_eventloop_lag_p99_seconds{job="rollcall-ftp"}', '{{instance}}'),
    ]),
    graph('Open files', 'short', [query('process_open_fds{job="rollcall-ftp"}', '{{instance}}')]),
  ],
}

const wholeImport = '`import` is the whole of an import, from its start to its end, pauses included.'
const stageTimes = 'rollcall_import_stage_duration_seconds'
const timings: Dashboard = {
  uid: 'rollcall-timings',
  title: 'Rollcall: stages and heat maps',
  description: 'Where does the time of an import go?',
  panels: [
    graph(
      'Stages, p95',
      's',
      [query('rollcall:import_stage_duration_seconds:p95_5m', '{{stage}}')],
      wholeImport,
    ),
    graph(
      'Stages, mean',
      's',
      [query(`${rate('stage', `${stageTimes}_sum`)} / ${rate('stage', `${stageTimes}_count`)}`, '{{stage}}')],
      wholeImport,
    ),
    ...['wait', 'obtain', 'split', 'import', 'finish'].map((stage) =>
      heat(`Stage: ${stage}`, stageTimes, `{stage="${stage}"}`),
    ),
    heat('Chunks', 'rollcall_import_chunk_duration_seconds'),
    heat('Batches', 'rollcall_bulk_write_duration_seconds'),
    graph('Chunks', 's', quantiles('rollcall_import_chunk_duration_seconds')),
    graph('Batches', 's', quantiles('rollcall_bulk_write_duration_seconds')),
    heat('Database operations, measured by the processes', 'rollcall_database_operation_duration_seconds'),
    heat('Waits for a connection', 'rollcall_database_checkout_duration_seconds'),
  ],
}

export const dashboards: Dashboard[] = [imports, engines, api, ftp, timings]
