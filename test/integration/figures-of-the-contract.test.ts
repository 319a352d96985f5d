import { existsSync } from 'node:fs'
import { mkdir, utimes, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import t, { type Test } from 'tap'
import { maxInlineBytes } from '../../control-plane/cli/commands/send-file.ts'
import { computeStatistics } from '../../control-plane/resources/autoresponder-statistics/view.ts'
import { noDailyCounts } from '../../control-plane/resources/delivery-events/message-state.ts'
import { maxUrlMs } from '../../control-plane/resources/import-inspection/sample.ts'
import { httpLimits } from '../../control-plane/http-server.ts'
import { watchBounds } from '../../control-plane/resources/subscriber-imports/follow/import-watch.ts'
import { callbackBounds } from '../../engine/stages/callback/callback-bounds.ts'
import { pollIntervalMs, restIntervalMs } from '../../engine/runner/poll-loop.ts'
import { maintenanceJobs } from '../../engine/jobs/maintenance.ts'
import { purgeLogs } from '../../engine/jobs/purge-logs.ts'
import { purgeUploads } from '../../engine/jobs/purge-uploads.ts'
import { batchTimeoutMs } from '../../engine/process-chunk.ts'
import {
  maxIsolationMs,
  stopTimeoutMs as stopOthersTimeoutMs,
  suspectDeaths,
  maxDeaths,
} from '../../engine/runner/quarantine.ts'
import { deactivationTimeoutMs } from '../../engine/stages/finish/deactivation.ts'
import { reservationTimeoutMs } from '../../engine/stages/write/chunk-quota.ts'
import { maxConflictRetries, maxDuplicateKeyRetries } from '../../engine/stages/write/transaction.ts'
import { maxListReads } from '../../control-plane/store/write-subscriber.ts'
import { conflictTimeoutMs } from '../../shared/runtime/transactions.ts'
import { quotaTimeoutMs } from '../../shared/store/subscriber-quota.ts'
import { removalMs } from '../../engine/stages/finish/finalize-import.ts'
import { progressEveryMs } from '../../engine/stages/obtain/download.ts'
import { maxStepFailures } from '../../engine/runner/step-failures.ts'
import { leaveAloneMs } from '../../engine/runner/missed-files.ts'
import { watchdogBounds } from '../../engine/runner/watchdog.ts'
import { defaultTimeouts as ftpTimeouts } from '../../ftp/session.ts'
import { closeGraceMs } from '../../ftp/transfers.ts'
import { loadSettings } from '../../shared/runtime/config.ts'
import { openDatabase } from '../../shared/runtime/database.ts'
import { createLogger } from '../../shared/runtime/logger.ts'
import { callbackDays } from '../../shared/contract/schemas/callback.ts'
import { stopTimeoutMs } from '../../shared/runtime/service.ts'
import { downloadBounds } from '../../shared/net/download-bounds.ts'
import { chunkLeaseMs, maxChunkClaims } from '../../shared/store/chunks.ts'
import { fenceTimeoutMs as fenceMs, maxFenceTries, maxLagMs } from '../../shared/store/fence.ts'
import { forgetDeadMs, heartbeatMs, leaseMs } from '../../shared/store/leases.ts'
import { uploadLeaseMs } from '../../shared/store/uploads.ts'
import { openStaging } from '../../shared/storage/staging/open-staging.ts'
import { openUploads } from '../../shared/storage/uploads/open-uploads.ts'
import { parseApiTime } from '../../shared/values/date-time.ts'
import { storedUploads } from '../helpers/stored-uploads.ts'
import {
  basic,
  bootstrapKey,
  countsOf,
  createList,
  importEnd,
  importText,
  startService,
  testMongodbUri,
  until,
  type Json,
} from '../helpers/service.ts'

/**
 * Every bound that the contract names with a number: pages, lengths, days, seconds, megabytes. The numbers are copied
 * by hand from the document that each line names, never from the code, so that a changed number is noticed. For
 * effects over time the stored times are moved.
 *
 * The contract has four parts: API is its description of the API, D its decisions, O its operations, and "beyond" what
 * goes beyond the API. A number after D or "beyond" is the section. P is docs/protocol.md and docs/recovery-times.md.
 * "own" is what they leave open, and the description says.
 */

t.setTimeout(300_000)
const minute = 60_000
const hour = 60 * minute
const day = 24 * hour

const service = await startService(t, ['control-plane', 'engine'], {
  TRUSTED_PROXIES: '127.0.0.1/32',
  // Blank: the default applies.
  AUTH_FAILURES_PER_MINUTE: '',
})
const { call, post, get, collections } = service
const database = await openDatabase({ uri: testMongodbUri(), name: service.settings['MONGODB_DATABASE']! })
t.teardown(() => database.close())
const log = createLogger({ process: 'test', level: 'silent' })

const ofOptions = [
  { name: 'Text', field_type: 'text' },
  { name: 'Number', field_type: 'number' },
]
const list = await createList(service, ofOptions)
const emailOnly = await createList(service)
const inList = `/mailing_lists/${list.id}`
const url = (path: string): string => `/mailing_lists/${emailOnly.id}${path}`

t.test("constants that tests shorten, or that no reply shows, have the contract's values", async (t) => {
  const bounds: [string, unknown, unknown][] = [
    ['API imports rule 4: waits between downloads', downloadBounds.retryAfterMs, [10_000, 50_000]],
    ['API imports rule 4: minutes of a download', downloadBounds.totalMs, 15 * minute],
    ['API limits: megabytes of a downloaded file', downloadBounds.bytes, 200_000_000],
    ['D 2.2: redirects', downloadBounds.redirects, 5],
    [
      'D 8: waits between tries of a callback',
      callbackBounds.retryAfterMs,
      [10_000, minute, 5 * minute, 30 * minute, 2 * hour],
    ],
    ['P: lease of a callback', callbackBounds.leaseMs, 30_000],
    ['docs/following-imports.md: seconds for the answer', callbackBounds.attemptTimeoutMs, 15_000],
    ['own: seconds to connect to it', callbackBounds.connectMs, 10_000],
    ['own: callbacks in flight', callbackBounds.maxInFlight, 64],
    ['own: callbacks of a host in flight', callbackBounds.maxInFlightOfHost, 4],
    ['own: callbacks of an organization in flight', callbackBounds.maxInFlightOfOrganization, 16],
    ['D 8: comment of the events', watchBounds.commentMs, 15_000],
    ['D 8: at most one event a second', watchBounds.everyMs, 1_000],
    ['D 8: seconds of an inspected URL', maxUrlMs, 30_000],
    ['P: lease of a process', leaseMs, 12_000],
    ['P: renewals in a lease', heartbeatMs * 4, leaseMs],
    ['P: lease of a chunk', chunkLeaseMs, 60_000],
    ['own: tries of a batch, which end long before that lease', batchTimeoutMs, 40_000],
    ['P: poll of an engine', pollIntervalMs, 1_000],
    ['docs/recovery-times.md: poll of an engine without work, and a fifth', restIntervalMs, 10_000],
    ['P: minutes of work that stands still', watchdogBounds.stalledAfterMs, 5 * minute],
    ['P: tries of a step', maxStepFailures, 5],
    ['P: deaths of a step or a chunk', maxDeaths, 5],
    ['P: an import of which a file is missing', leaveAloneMs, 60_000],
    ['P: a batch that hangs in front of a pause; D 2.3', fenceMs, 2_000],
    ['P: the removal of files that hangs', removalMs, 10_000],
    ['D 2.9: counts grow at least once a second', progressEveryMs, 1_000],
    ['D 2.2: FTP, the control connection stands 100 ms later', closeGraceMs, 100],
    ['own: seconds until the login by FTP', ftpTimeouts.loginMs, minute],
    ['own: minutes between two commands of FTP', ftpTimeouts.idleMs, 5 * minute],
    ['beyond 8: minutes without a byte by FTP', ftpTimeouts.stallMs, 5 * minute],
    ['own: seconds for a data connection', ftpTimeouts.dataConnectionMs, 30_000],
    ['own: seconds for a free passive port', ftpTimeouts.passivePortMs, 5_000],
    ['O: the FTP server stops in time', ftpTimeouts.stopMs < stopTimeoutMs, true],
    ['D 1: the sessions of a revoked key end within 5 s', ftpTimeouts.keyPollMs * 2 < 5_000, true],
    ['docs/failures.md: a new certificate within 5 s', ftpTimeouts.certificateWatchMs, 5_000],
    ['O: megabytes of a file that the command line sends inline', maxInlineBytes, 10 * 1024 * 1024],
    ['beyond 8: minutes without a byte of a file, as by FTP', httpLimits.transferIdleTimeoutMs, 5 * minute],
    ['beyond 2: an upload of a dead process can be resumed within 30 s', uploadLeaseMs <= 30_000, true],
    ['O: a process ends within 10 s of a signal', stopTimeoutMs < 10_000, true],
    ['own: days for which what became of a callback is kept', callbackDays, 7],
    ['docs/failures.md: write conflicts of a batch, then it is cut', maxConflictRetries + 1, 3],
    ['docs/failures.md: tries of a batch whose keys were taken', maxDuplicateKeyRetries, 20],
    ['docs/failures.md: the reservation of quota for a chunk', reservationTimeoutMs, 30_000],
    ['docs/failures.md: claims of a chunk without a batch', maxChunkClaims, 5],
    ['docs/failures.md: deaths after which work runs alone', suspectDeaths, 2],
    ['own: until what runs beside it has stopped', stopOthersTimeoutMs, 10_000],
    ['own: minutes for which it runs alone', maxIsolationMs, 5 * minute],
    ['docs/failures.md: a transaction that deactivates', deactivationTimeoutMs, 120_000],
    ["docs/failures.md: a request's transaction", conflictTimeoutMs, 20_000],
    ['docs/failures.md: one that may use quota', quotaTimeoutMs, 10_000],
    ['docs/failures.md: reads of a list that changes', maxListReads, 20],
    ['docs/failures.md: tries of a pause behind open transactions', maxFenceTries, 5],
    ['docs/failures.md: seconds for which a pause waits for other members', maxLagMs, minute],
    ['own: minutes for which a dead engine is known', forgetDeadMs, 2 * minute],
    [
      'D 3: decimals of a rate',
      computeStatistics({ ...noDailyCounts(), sent_text: 3, bounces_unique: 1 }, {}).bounce_rate,
      0.333333,
    ],
  ]
  for (const [what, is, expected] of bounds) t.same(is, expected, what)
})

const onDisk = { STAGING: 'disk', DATA_DIR: service.dataFolder } as const
t.test('an engine has these maintenance jobs, at these intervals', (t) => {
  const jobs = maintenanceJobs({
    ...{ database, log },
    staging: openStaging(onDisk, collections),
    uploads: openUploads(onDisk, database),
  })
  const expected: Record<string, number> = {
    // P: 12 s for a lease, and a poll every 3 s; a new limit, a pause or a cancel that no request enforced.
    'looking for what dead processes left behind': 3_000,
    // P: 72 minutes for inline content without an import, an hour of which it is too young; a fifth is jitter.
    'sweeping the staging': 10 * minute,
    'purging unfinished uploads': hour,
    'purging old logs': 10 * minute,
    'removing the values of deleted custom fields': minute,
    'dropping the secrets of ended imports': 10 * minute,
  }
  t.same(Object.fromEntries(jobs.map(({ name, everyMs }) => [name, everyMs])), expected)
  t.end()
})

t.test('settings without a value have the documented defaults', async (t) => {
  const own = { UPLOAD_MAX_FILES: 10_000, UPLOAD_MAX_MB: 10_240, IMPORTS_MAX_UNFINISHED: 2_000 }
  t.match(
    loadSettings({}),
    {
      // O, settings.
      MONGODB_DATABASE: 'rollcall',
      STAGING: 'disk',
      HTTP_HOST: '127.0.0.1',
      HTTP_PORT: 8080,
      HTTP_INLINE_LIMIT_MB: 16,
      ENGINE_METRICS_PORT: 9464,
      FTP_HOST: '127.0.0.1',
      FTP_PORT: 2121,
      FTP_METRICS_PORT: 9465,
      AUTH_FAILURES_PER_MINUTE: 20,
      USER_LOCKOUT_FAILURES: 5,
      USER_LOCKOUT_MINUTES: 30,
      DISABLE_SUBSCRIBER_DELETION: false,
      TERMS_AND_CONDITIONS_VERSION: undefined,
      TRUSTED_PROXIES: [],
      LOG_LEVEL: 'info',
      // docs/operating.md.
      ...own,
      DISK_RESERVE_MB: 512,
      HTTP_REQUESTS_PER_MINUTE: 0,
    },
    'defaults',
  )
  t.same(
    loadSettings({}).FTP_PASSIVE_PORTS,
    loadSettings({ FTP_PASSIVE_PORTS: '2122-2222' }).FTP_PASSIVE_PORTS,
  )
  for (const [length, isTaken] of [
    [15, false],
    [16, true],
    [128, true],
    [129, false],
  ] as const) {
    const load = () => loadSettings({ BOOTSTRAP_API_KEY: 'k'.repeat(length) })
    if (isTaken) t.doesNotThrow(load, `a bootstrap key of ${length}`)
    else t.throws(load, `a bootstrap key of ${length}`)
  }
})

t.test('page sizes: the default without per_page, and the maximum', async (t) => {
  const email = 'pages@example.com'
  const pages: [string, number, number, string][] = [
    ['/subscriber_imports', 100, 500, 'API imports rule 2'],
    [url('/subscriber_imports'), 100, 500, 'API imports rule 2'],
    [url('/subscribers'), 100, 500, 'D 1 paging'],
    [`/subscribers_by_email/${email}`, 100, 500, 'D 1 paging'],
    [url(`/subscribers_by_email/${email}`), 100, 500, 'D 1 paging'],
    [`/organizations/1/subscribers_by_email/${email}`, 100, 500, 'D 1 paging'],
    [`/organizations/all/subscribers_by_email/${email}`, 100, 500, 'D 1 paging'],
    [url('/reactions'), 100, 500, 'D 9: as subscribers'],
    ['/users', 2000, 2000, 'API limits'],
    ['/organizations/1/users', 2000, 2000, 'API limits'],
    ...['all', 'unfinished', 'all_on_all_organizations', 'unfinished_on_all_organizations'].map(
      (scope): [string, number, number, string] => [`/jobs/${scope}`, 2000, 2000, 'API limits'],
    ),
    ['/organizations/1/jobs/all', 2000, 2000, 'API limits'],
    ['/organizations/1/jobs/unfinished', 2000, 2000, 'API limits'],
    ['/organizations/1/api_keys', 2000, 2000, 'D 1 paging, lists of section 8'],
    ['/organizations/1/mailing_lists', 2000, 2000, 'D 1 paging, lists of section 8'],
    ['/mailing_lists', 2000, 2000, 'D 1 paging, lists of section 8'],
    ['/organizations', 2000, 2000, 'D 1 paging, lists of section 8'],
    ['/api_keys', 2000, 2000, 'D 1 paging, lists of section 8'],
    [url('/custom_fields'), 2000, 2000, 'D 1 paging, lists of section 8'],
    [url('/confirmation_forms'), 2000, 2000, 'D 1 paging, lists of section 8'],
  ]
  for (const [path, usual, max, from] of pages) {
    const echoed = async (query: string) => (await call('GET', path + query)).body.per_page
    t.equal(await echoed(''), usual, `${path} (${from})`)
    t.equal(await echoed(`?per_page=${max}`), max, `${path} at most (${from})`)
    t.equal(await echoed(`?per_page=${max + 1}`), max, `${path} clamps (${from})`)
  }
})

t.test('a page has the number of records that it names', async (t) => {
  const { id } = await createList(service)
  const rows = Array.from({ length: 501 }, (_, i) => `p${i}@example.com\n`).join('')
  t.equal((await importText(service, id, `email\n${rows}`)).state, 'finished')
  const count = async (query: string) =>
    (await call('GET', `/mailing_lists/${id}/subscribers${query}`)).body.data.length
  t.equal(await count(''), 100)
  t.equal(await count('?per_page=500'), 500)
  t.equal(await count('?per_page=9999'), 500)
})

interface Bound {
  /** The thing with the bound, and where the contract names it. */
  what: string
  taken: readonly unknown[]
  refused: readonly unknown[]
  /** The beginning of a refusal; `validation_failed` where none is named. */
  code?: string
  ask: (value: Json) => Promise<Json>
}

const posted = async (path: string, body?: unknown, options = {}): Promise<Json> =>
  (await call('POST', path, body, options)).body
let made = 0
/** A text of that length that no other record has. */
const text = (length: number): string => `${(made += 1)}_`.padEnd(length, 'é').slice(0, length)
const texts = (taken: number, minLength = 1) => ({
  taken: [() => text(taken), ...(minLength > 1 ? [] : [() => text(1)])],
  refused: [() => text(taken + 1), () => ' '],
})
const password = 'correct horse battery'
const userOf = (fields: object): Json => ({
  user: {
    full_name: 'Ann',
    email: `u${(made += 1)}@example.com`,
    active: true,
    role: 'standard',
    password1: password,
    password2: password,
    ...fields,
  },
})
const addressOf = (local: number, domain: number): string => {
  const labels = 'd'.repeat(60)
  const ending = '.example'
  let name = ''
  while (name.length + labels.length + 1 + ending.length < domain) name += `${labels}.`
  return `${`l${(made += 1)}`.padEnd(local, 'x')}@${name}${'e'.repeat(domain - name.length - ending.length)}${ending}`
}
const subscribed = (fields: object) => posted(`${inList}/subscribers`, { subscriber: fields })
const known = await subscribed({ email: 'known@example.com' })
const withField = (name: string) => (value: unknown) =>
  subscribed({ email: `f${(made += 1)}@example.com`, custom_fields: { [name]: value } })
const hash = (count: number, of: (i: number) => unknown) => Array.from({ length: count }, (_, i) => of(i))
const autoresponder = await post(`${inList}/autoresponders`, {
  autoresponder: { name: 'Welcome', trigger: 'api', content_subject: 'Hello', content_text: 'Hello' },
})
await subscribed({ email: 'trigger@example.com' })

const bounds: Bound[] = [
  {
    what: 'D 1: name of an API key',
    ...texts(100),
    ask: (name) => posted('/api_keys', { api_key: { name: name() } }),
  },
  {
    what: 'API user: full_name',
    ...texts(100),
    ask: (name) => posted('/users', userOf({ full_name: name() })),
  },
  {
    what: 'D 8: name of a custom field, under 50',
    ...texts(49),
    ask: (name) => posted(url('/custom_fields'), { custom_field: { name: name(), field_type: 'text' } }),
  },
  {
    what: 'own: name of a mailing list',
    ...texts(255),
    ask: (name) => posted('/mailing_lists', { mailing_list: { name: name() } }),
  },
  {
    what: 'own: name of an organization',
    ...texts(255),
    ask: (name) => posted('/organizations', { organization: { name: name() } }),
  },
  {
    what: 'own: name of an autoresponder',
    ...texts(255),
    ask: (name) => posted(`${inList}/autoresponders`, { autoresponder: { name: name(), trigger: 'api' } }),
  },
  {
    what: 'own: name of a template',
    ...texts(255),
    ask: (name) => posted(`${inList}/templates`, { campaign: { name: name() } }),
  },
  {
    what: 'own: name of a confirmation form',
    ...texts(255),
    ask: (name) => posted(`${inList}/confirmation_forms`, { confirmation_form: { name: name() } }),
  },
  {
    what: 'API user: default_preview_recipients',
    taken: [100],
    refused: [101],
    ask: (count) =>
      posted('/users', userOf({ default_preview_recipients: hash(count, (i) => `r${i}@example.com`) })),
  },
  {
    what: 'D 4: password in characters, and in bytes',
    taken: ['p'.repeat(8), 'p'.repeat(1024), 'é'.repeat(512)],
    refused: ['p'.repeat(7), 'p'.repeat(1025), `${'é'.repeat(512)}p`],
    ask: (value) => posted('/users', userOf({ password1: value, password2: value })),
  },
  {
    what: 'D 2.6: email',
    taken: [() => addressOf(256, 20), () => addressOf(10, 256), () => `a@${'b'.repeat(63)}.example`],
    refused: [() => addressOf(257, 20), () => addressOf(10, 257), () => `a@${'b'.repeat(64)}.example`],
    ask: (email) => subscribed({ email: email() }),
  },
  {
    what: 'D 2.5: text without maximum_length',
    taken: ['x'.repeat(65_535)],
    refused: ['x'.repeat(65_536)],
    ask: withField('Text'),
  },
  {
    what: 'D 2.5: number, at most 2^53-1 in size',
    taken: ['9007199254740991', '-9007199254740991'],
    refused: ['9007199254740992', '-9007199254740992'],
    ask: withField('Number'),
  },
  {
    what: 'API get details: subscribers of one request',
    taken: [100],
    refused: [101],
    code: 'requested_too_many',
    ask: async (count) =>
      (
        await call(
          'GET',
          `${inList}/subscribers/${[known.data.id, ...hash(count - 1, (i) => i + 1)].join(',')}`,
        )
      ).body,
  },
  {
    what: 'D 9: outbox, limit',
    taken: [1, 1000],
    refused: [0, 1001],
    ask: (limit) => posted('/outbox/take', { outbox: { limit } }),
  },
  {
    what: 'D 9: outbox, lease_seconds',
    taken: [10, 3600],
    refused: [9, 3601],
    ask: (lease_seconds) => posted('/outbox/take', { outbox: { lease_seconds } }),
  },
  {
    what: 'D 9: messages that are acknowledged at once',
    taken: [1000],
    refused: [1001],
    code: 'requested_too_many',
    ask: (count) =>
      posted('/outbox/acknowledge', {
        outbox: { messages: hash(count, (i) => ({ id: i + 900_000, lease_token: 'none' })) },
      }),
  },
  {
    what: 'D 9: delivery events at once',
    taken: [1000],
    refused: [1001],
    code: 'requested_too_many',
    ask: (count) =>
      posted('/delivery_events', {
        delivery_events: hash(count, (i) => ({
          id: `e${(made += 1)}`,
          type: 'delivered',
          occurred_at: '2026-01-01T00:00:00Z',
          message_id: `m${i}`,
          autoresponder_id: autoresponder.id,
          subscriber_id: 900_000,
        })),
      }),
  },
  {
    what: 'D 7: key of a replacement',
    taken: ['k', 'k'.repeat(50)],
    refused: ['', 'k'.repeat(51)],
    code: 'invalid_request',
    ask: (key) =>
      posted(`${inList}/subscribers/trigger@example.com/trigger_autoresponders`, {
        autoresponder_ids: [autoresponder.id],
        content_replacement_fields: { [key]: 'x' },
      }),
  },
  {
    what: 'D 8: Idempotency-Key',
    taken: ['k', 'k'.repeat(255)],
    refused: ['k'.repeat(256)],
    code: 'invalid_request',
    ask: (key) => posted(url('/subscriber_imports'), scheduled(), { headers: { 'Idempotency-Key': key } }),
  },
  {
    what: 'D 2.5, D 8: maximum_length',
    taken: [65_535],
    refused: [65_536],
    ask: (maximum_length) =>
      posted(url('/custom_fields'), { custom_field: { name: text(20), field_type: 'text', maximum_length } }),
  },
  {
    what: 'own: options of a field',
    taken: [1_000],
    refused: [1_001],
    ask: (count) =>
      posted(url('/custom_fields'), {
        custom_field: {
          ...{ name: text(20), field_type: 'select_single_radio' },
          options: hash(count, (i) => `Option ${i}`),
        },
      }),
  },
  {
    what: 'own: columns of an import',
    taken: [2_000],
    refused: [2_001],
    ask: (count) =>
      posted(url('/subscriber_imports'), {
        subscriber_import: {
          ...scheduled().subscriber_import,
          column_mapping: hash(count, (i) => (i === 0 ? 'email' : null)),
        },
      }),
  },
  {
    what: 'D 3: delay_time is an hour',
    taken: [0, 23],
    refused: [-1, 24],
    ask: (delay_time) =>
      posted(`${inList}/autoresponders`, {
        autoresponder: {
          ...{ name: text(20), trigger: 'api' },
          ...{ delay: 'with_delay', delay_unit: 'days', delay_amount: 1, delay_time },
        },
      }),
  },
  {
    what: 'D 3: delay_amount',
    taken: [1],
    refused: [0],
    ask: (delay_amount) =>
      posted(`${inList}/autoresponders`, {
        autoresponder: {
          ...{ name: text(20), trigger: 'api' },
          ...{ delay: 'with_delay', delay_unit: 'days', delay_amount, delay_time: 0 },
        },
      }),
  },
  {
    what: 'D 5: autowinner_percentage, at most two decimals',
    taken: [0, 100, '99.99'],
    refused: [-1, 100.01, 101, '99.999', 1.234],
    ask: (autowinner_percentage) =>
      posted(`${inList}/templates`, {
        campaign: { name: text(20), dispatch_attributes: { autowinner_percentage } },
      }),
  },
]

const scheduled = (): Json => ({
  subscriber_import: {
    column_mapping: ['email'],
    begins_at: new Date(Date.now() + day).toISOString(),
    file_source: { type: 'json', content: 'email\n' },
  },
})

t.test('lengths, ranges and counts: the last accepted value, and the first refused one', async (t) => {
  for (const { what, taken, refused, code = 'validation_failed', ask } of bounds) {
    for (const [i, value] of taken.entries())
      t.match(await ask(value), { success: true }, `${what}: taken ${i + 1}`)
    for (const [i, value] of refused.entries())
      t.match(await ask(value), { success: false, error_code: code }, `${what}: refused ${i + 1}`)
  }
})

t.test('D 1: megabytes of a body; D 2.2, O: of an inline import', async (t) => {
  const megabytes = (count: number, more: number) => `{}${' '.repeat(count * 1024 * 1024 - 2 + more)}`
  t.equal((await call('POST', '/mailing_lists', megabytes(1, 0))).status, 200)
  t.equal((await call('POST', '/mailing_lists', megabytes(1, 1))).status, 413)
  const begin = '{"subscriber_import":{"column_mapping":["email"],"file_source":{"type":"json","content":"'
  const inline = (more: number) => `${begin.padEnd(16 * 1024 * 1024 - 4 + more)}"}}}`
  t.equal((await call('POST', url('/subscriber_imports'), inline(0))).status, 200, 'blank, but not too large')
  t.match(await call('POST', url('/subscriber_imports'), inline(1)), {
    status: 413,
    body: { error_message: /at most 16 MiB: .* \/svc\/api\/v2\/uploads\/NAME, .* "upload_directory"/ },
  })
})

t.test('D 1: wrong credentials of one address within a minute', async (t) => {
  const ask = (key: string) =>
    call('GET', '/organizations', undefined, {
      key: null,
      headers: { authorization: basic(`api:${key}`), 'X-Forwarded-For': '203.0.113.77' },
    })
  const beganAt = performance.now()
  for (let i = 0; i < 20; i += 1) t.equal((await ask('wrong_key_0123456789')).status, 401)
  const refused = await ask('wrong_key_0123456789')
  const elapsed = (performance.now() - beganAt) / 1_000
  t.equal(refused.status, 429, 'more are not')
  t.equal((await ask(bootstrapKey)).status, 200, 'a right key passes')
  const seconds = Number(refused.headers.get('retry-after'))
  t.ok(seconds >= 60 - elapsed - 1 && seconds <= 60, `for the rest of a minute: ${seconds}`)
})

t.test('D 4: five failures in a row lock a user out for 30 minutes', async (t) => {
  const email = 'locked@example.com'
  const { data } = await posted('/users', userOf({ email }))
  const sign = async (sentPassword: string) =>
    posted('/users/authenticate', { user: { email, password: sentPassword } })
  const lockout = async () => (await get(`/users/${data.id}`)).password_failure_lockout
  for (let i = 0; i < 4; i += 1) await sign('wrong')
  t.equal((await lockout()).is_locked_out, false)
  t.equal((await sign(password)).success, true, 'after four')
  for (let i = 0; i < 5; i += 1) await sign('wrong')
  const { is_locked_out: isLocked, expires_at: expiresAt } = await lockout()
  t.equal(isLocked, true)
  nearly(t, Date.parse(expiresAt) - Date.now(), 30 * minute)
})

/** Asserts that a stored time is as far from now as it should be. */
function nearly(t: Test, isMs: number, expectedMs: number, what = 'the time'): void {
  t.ok(isMs > expectedMs - 20_000 && isMs <= expectedMs + 2_000, `${what}: ${isMs} ms of ${expectedMs}`)
}

/** An import that has ended, and been cleared up after. */
async function ended(content = 'email\nann@example.com\nbad\n'): Promise<number> {
  const { id } = await importText(service, (await createList(service)).id, content)
  await until(
    'clearing up',
    () => collections.imports.findOne({ _id: id }),
    (document) => document?.finalized === true,
  )
  return id
}
/** Moves the stored end of an import into the past. */
const endedBefore = (id: number, ageMs: number) =>
  collections.imports.updateOne({ _id: id }, [{ $set: { finished_at: { $subtract: ['$$NOW', ageMs] } } }])

t.test('API limits: logs are purged 7 days after the end', async (t) => {
  const [id, other] = [await ended(), await ended()]
  const codeOf = async (of: number) => {
    const { body } = await call('GET', `/subscriber_imports/${of}/logs/failed`)
    return body?.error_code ?? 'shown'
  }
  await endedBefore(id, 7 * day - minute)
  t.equal(await codeOf(id), 'shown', 'a minute earlier')
  await endedBefore(other, 7 * day)
  t.equal(await codeOf(other), 'not_found', 'not shown any longer, though it may be there')
  await purgeLogs(database, log).runOnce()
  t.equal(await codeOf(id), 'shown', 'and not purged a minute earlier')
  t.type((await collections.imports.findOne({ _id: other }))!.logs_purged_at, Date)
})

t.test('D 2.3: recent imports are those that ended within 14 x 24 h', async (t) => {
  const id = await ended()
  const isRecent = async (query: string) =>
    (await get(`/subscriber_imports${query}`)).some((view: Json) => view.id === id)
  await endedBefore(id, 14 * day - minute)
  t.equal(await isRecent(''), true)
  await endedBefore(id, 14 * day + minute)
  t.equal(await isRecent('?scope=recent'), false)
  t.equal(await isRecent('?scope=finished'), true)
})

t.test('D 8: an idempotency key is valid for 24 hours', async (t) => {
  const options = { headers: { 'Idempotency-Key': 'a-day' } }
  const body = JSON.stringify(scheduled())
  const create = async () => (await posted(url('/subscriber_imports'), body, options)).data.id
  const moveOn = (ms: number) =>
    collections.idempotencyKeys.updateOne({ import_id: first }, [
      { $set: { expires_at: { $subtract: ['$expires_at', ms] } } },
    ])
  const first: number = await create()
  await moveOn(day - minute)
  t.equal(await create(), first, 'a minute earlier')
  await moveOn(minute)
  t.not(await create(), first, 'a day later')
})

t.test('D 7: a confirmation is for 7 days, a second mail comes after 10 minutes', async (t) => {
  const form = await post(url('/confirmation_forms'), { confirmation_form: { name: 'Form' } })
  const email = 'confirms@example.com'
  const ask = () => posted(url('/subscribers'), { subscriber: { email }, confirmation_form_id: form.id })
  const pending = () => collections.pendingSubscribers.findOne({ 'subscriber.email': email })
  const moveOn = (ms: number) =>
    collections.pendingSubscribers.updateMany({ 'subscriber.email': email }, [
      {
        $set: {
          mailed_at: { $subtract: ['$mailed_at', ms] },
          expires_at: { $subtract: ['$expires_at', ms] },
        },
      },
    ])
  await ask()
  const { message_id: first } = (await pending())!
  await moveOn(9 * minute)
  await ask()
  t.equal((await pending())!.message_id, first, 'no second mail after 9 minutes')
  await moveOn(1 * minute + 1_000)
  await ask()
  t.not((await pending())!.message_id, first, 'a second one after 10')
  nearly(t, (await pending())!.expires_at.getTime() - Date.now(), 7 * day, 'the life of a link')

  const visit = async () => {
    await fetch(`${service.processes['control-plane']!.ready.http}/confirm/${(await pending())!.token}`)
    return (await call('GET', url(`/subscribers_by_email/${email}`))).body.data.length
  }
  await moveOn(7 * day + 1_000)
  t.equal(await visit(), 0, 'a link that has expired')
  await moveOn(-minute)
  t.equal(await visit(), 1, 'a minute earlier')
})

t.test('D 7: deletion by email removes 10 a call', async (t) => {
  const { id } = await createList(service, [{ name: 'Key', field_type: 'number', required: true }])
  const [field] = await get(`/mailing_lists/${id}/custom_fields`)
  await call('PUT', `/mailing_lists/${id}`, { mailing_list: { primary_key_custom_field_id: field.id } })
  const rows = hash(11, (i) => `same@example.com,${i}\n`).join('')
  await importText(service, id, `email,Key\n${rows}`, { column_mapping: ['email', 'Key'] })
  const remove = async () =>
    (await call('DELETE', `/mailing_lists/${id}/subscribers/same@example.com`)).body.data
  const first = await remove()
  t.equal(first.subscriber_ids_removed.length, 10)
  t.equal(first.more_remaining, true)
  const second = await remove()
  t.equal(second.subscriber_ids_removed.length, 1)
  t.equal(second.more_remaining, false)
})

t.test('D 9: without limit and lease_seconds, 100 messages are taken for 300 seconds', async (t) => {
  const own = await createList(service)
  const welcome = await post(`/mailing_lists/${own.id}/autoresponders`, {
    autoresponder: {
      ...{ name: 'Welcome', trigger: 'subscription', content_subject: 'Hello', content_text: 'Hello' },
      trigger_include_subscribers_from_import: true,
    },
  })
  const rows = hash(101, (i) => `take${i}@example.com\n`).join('')
  await importText(service, own.id, `email\n${rows}`, {
    autoresponders: { subscription: { trigger: true } },
  })
  await collections.reactions.deleteMany({ autoresponder_id: { $ne: welcome.id } })
  t.equal((await posted('/outbox/take')).data.length, 100)
  const taken = await collections.reactions.findOne({ lease: { $exists: true } })
  nearly(t, taken!.available_at.getTime() - Date.now(), 300_000, 'the lease')
})

t.test('D 8: inspection shows the first 20 records of at most 1 MB', async (t) => {
  const inspect = async (content: string) =>
    (
      await post(url('/subscriber_imports/inspect'), {
        subscriber_import: {
          file_source: { type: 'json', content },
          file_format: { csv_has_headers: false },
        },
      })
    ).records
  const row = (length: number) => `a@example.com,${'x'.repeat(length - 15)}\n`
  t.equal((await inspect(hash(25, (i) => `i${i}@example.com\n`).join(''))).length, 20)
  // Two records end within the first 1,048,576 bytes, the third one behind them.
  t.equal((await inspect(row(524_288) + row(524_288) + row(100))).length, 2)
})

/** An import of a file of these bytes. */
async function fileImport(content: string | Uint8Array, options: Json = {}): Promise<Json> {
  const filename = `figures-${(made += 1)}.csv`
  await storedUploads(service).put(filename, content)
  const { mailing_list_id: listId = (await createList(service)).id, ...more } = options
  const created = await post(`/mailing_lists/${listId}/subscriber_imports`, {
    subscriber_import: {
      ...{ column_mapping: ['email', null], file_format: { csv_has_headers: false } },
      ...{ file_source: { type: 'upload_directory', filename }, ...more },
    },
  })
  return importEnd(service, created.id)
}

const megabyte = 1024 * 1024
const invalid = Buffer.from([0xff])

/** Records whose second cell is invalid UTF-8 where the list says so. */
const halves = (list: [number, boolean][]): Buffer =>
  Buffer.concat(
    list.flatMap(([count, isInvalid]) =>
      hash(count, () =>
        Buffer.concat([
          Buffer.from(`h${(made += 1)}@example.com,`),
          isInvalid ? invalid : Buffer.of(0x78),
          Buffer.of(0x0a),
        ]),
      ),
    ) as Buffer[],
  )
/** A file of that size, lines of 64 bytes, with NULs in the second cells of the first lines. */
const withNuls = (bytes: number, nuls: number, before = 0): Buffer => {
  const file = Buffer.alloc(bytes, 'x')
  for (let at = 0; at < bytes; at += 64) {
    file.write(`n${at}@example.com,`, at)
    file[Math.min(bytes, at + 64) - 1] = 0x0a
  }
  let left = nuls
  for (let at = before; left > 0; at += 64)
    for (let i = at + 32; i < at + 62 && left > 0; i += 1, left -= 1) file[i] = 0
  return file
}

const files: [string, Buffer | string, Json][] = [
  ['D 2.4: a record of 1 MiB', `a@example.com,${'x'.repeat(megabyte - 14)}\n`, { counts: { added: 1 } }],
  ['D 2.4: a longer record', `a@example.com,${'x'.repeat(megabyte - 13)}\n`, { counts: { failed: 1 } }],
  [
    'D 2.4: an enclosure that ends 256 KiB after its beginning',
    `a@example.com,"${'x'.repeat(256 * 1024 - 1)}"\n`,
    { counts: { added: 1 } },
  ],
  [
    'D 2.4: an enclosure that ends one byte later',
    `a@example.com,"${'x'.repeat(256 * 1024)}"\n`,
    { counts: { failed: 1 } },
  ],
  ['D 2.4: an enclosure of 1,000 lines', `a@example.com,"${'\n'.repeat(999)}"\n`, { counts: { added: 1 } }],
  [
    'D 2.4: an enclosure of 1,001 lines',
    `a@example.com,"${'\n'.repeat(1000)}"\n`,
    // What is behind the line where it opens is read anew: its end alone.
    { counts: { failed: 2 } },
  ],
  [
    'D 2.4: half of the first 1,000 records invalid',
    halves([
      [500, true],
      [500, false],
      [1000, true],
    ]),
    { state: 'finished', counts: { added: 500, failed: 1500 } },
  ],
  [
    'D 2.4: one more',
    halves([
      [499, false],
      [501, true],
      [1000, false],
    ]),
    { state: 'failed' },
  ],
  [
    'D 2.4: half of fewer',
    halves([
      [2, true],
      [2, false],
    ]),
    { state: 'finished', counts: { added: 2, failed: 2 } },
  ],
  ['D 2.4: 99 NULs', withNuls(6400, 99), { state: 'finished' }],
  ['D 2.4: 100 NULs', withNuls(6400, 100), { state: 'failed' }],
  ['D 2.4: 1 % of 64 KiB', withNuls(65_536, 655), { state: 'finished' }],
  ['D 2.4: more than that', withNuls(65_536, 656), { state: 'failed' }],
  ['D 2.4: behind the first 64 KiB', withNuls(131_072, 10_000, 65_536), { state: 'finished' }],
  ['D 2.1: a record of 20 lines', `a@example.com,"${'\n'.repeat(19)}"\n`, { warnings: 0 }],
  ['D 2.1: a record of 21 lines', `a@example.com,"${'\n'.repeat(20)}"\n`, { warnings: 1 }],
]

t.test("files and records have the contract's bounds", async (t) => {
  await Promise.all(
    files.map(async ([what, content, { state = 'finished', counts, warnings }]) => {
      const view = await fileImport(content)
      t.equal(view.state, state, what)
      if (counts !== undefined) t.same(countsOf(view), counts, what)
      if (warnings !== undefined) t.equal(view.warnings.length, warnings, what)
    }),
  )
})

t.test('D 2.1: a warning where over half of the list is about to be deactivated', async (t) => {
  for (const [others, warnings] of [
    [1, 0],
    [2, 1],
  ] as const) {
    const { id } = await createList(service)
    const rows = hash(others + 1, (i) => `d${i}@example.com\n`).join('')
    await importText(service, id, `email\n${rows}`)
    const view = await importText(service, id, 'email\nd0@example.com\n', {
      deactivate_subscribers_not_in_import: true,
    })
    t.equal(view.stats.subscribers.deactivated, others)
    t.equal(view.warnings.length, warnings, `${others} of ${others + 1}`)
  }
})

t.test('D 2.5: offsets up to 14:00, years 1000 to 9999', async (t) => {
  const times: [string, boolean][] = [
    ['2014-01-31T10:00:00+14:00', true],
    ['2014-01-31T10:00:00-14:00', true],
    ['2014-01-31T10:00:00+14:01', false],
    ['1000-01-02T00:00:00', true],
    ['0999-12-31T00:00:00', false],
    ['9999-12-30T00:00:00', true],
  ]
  for (const [time, isTaken] of times) t.equal(parseApiTime(time, 'UTC') !== null, isTaken, time)
})

async function makeOld(file: string, ageMs: number): Promise<void> {
  const at = new Date(Date.now() - ageMs)
  await utimes(file, at, at)
}

/** An upload of this many bytes that broke off so long ago. */
const brokenOff = (name: string, size: number, ageMs: number) => ({
  ...{ _id: name, organization_id: 1, name, state: 'unfinished' as const, blob: `uploads/00/${name}` },
  ...{ size, charged: size, modified_at: new Date(Date.now() - ageMs), lease: null, pinned_by: [] },
})

t.test('D 2.2: uploads that broke off are kept for 7 days', async (t) => {
  const [young, old] = [7 * day - minute, 7 * day + minute].map((ageMs, i) => brokenOff(`off-${i}`, 6, ageMs))
  await collections.uploads.insertMany([young!, old!])
  const strays = path.join(service.dataFolder, 'uploads', '00')
  await mkdir(strays, { recursive: true })
  // docs/uploads.md: bytes that a killed process left without a record are kept for a day.
  for (const [name, ageMs] of [
    ['young', day - minute],
    ['old', day + minute],
  ] as const) {
    await writeFile(path.join(strays, name), 'email\n')
    await makeOld(path.join(strays, name), ageMs)
  }
  await purgeUploads(openUploads(onDisk, database)).runOnce()
  const left = (await collections.uploads.find({ state: 'unfinished' }).toArray()).map(({ _id }) => _id)
  t.same(
    [young, old].map((upload) => left.includes(upload!._id)),
    [true, false],
  )
  t.same(
    ['young', 'old'].map((name) => existsSync(path.join(strays, name))),
    [true, false],
  )
})

/** Asserts that a retry is so long after a failure between its request and now. */
function isAfterFailure(t: Test, retryAt: Date, times: { requestedAt: number; waitMs: number }): void {
  const failedAt = retryAt.getTime() - times.waitMs
  t.ok(times.requestedAt <= failedAt && failedAt <= Date.now(), `${times.waitMs} ms after the failure`)
}

t.test(
  'API imports rule 4: three tries of a download, 10 s and 50 s after failures, 15 minutes',
  async (t) => {
    let requestedAt = 0
    const server = createServer((request, response) => {
      requestedAt = Date.now()
      const left = Number(request.url!.slice(1))
      if (Number.isNaN(left)) response.writeHead(503).end()
      else if (left === 0) response.end('email\na@example.com\n')
      else response.writeHead(302, { location: `/${left - 1}` }).end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.teardown(() => server.close())
    const create = async (path: string) =>
      (
        await post(url('/subscriber_imports'), {
          subscriber_import: {
            column_mapping: ['email'],
            file_source: {
              type: 'url',
              url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/${path}`,
            },
          },
        })
      ).id as number

    const id = await create('down')
    const failed = (attempts: number) =>
      until(
        `failure ${attempts}`,
        () => collections.imports.findOne({ _id: id }),
        (document) => document!.download.attempts === attempts && document!.download.next_attempt_at !== null,
      )
    const now = { $set: { 'download.next_attempt_at': new Date(0) } }
    let firstEnd: Date | null = null
    for (const [i, waitMs] of [10_000, 50_000].entries()) {
      const { next_attempt_at: next, ends_at: ends } = (await failed(i + 1))!.download
      isAfterFailure(t, next!, { requestedAt, waitMs })
      if (i === 0) nearly(t, ends!.getTime() - Date.now(), 15 * minute, 'the time for all tries')
      firstEnd ??= ends
      t.same(ends, firstEnd, "a further try doesn't begin the time anew")
      await collections.imports.updateOne({ _id: id }, now)
    }
    t.match(await importEnd(service, id), { state: 'failed', error_message: /the last of 3 tries/ })

    t.equal((await importEnd(service, await create('5'))).state, 'finished', 'D 2.2: five redirects')
    const sixth = await create('6')
    await until(
      'the failed try',
      () => collections.imports.findOne({ _id: sixth }),
      (document) => document!.download.attempts === 1,
    )
    t.pass('D 2.2: a sixth redirect is a failed try')
    await post(`/subscriber_imports/${sixth}/cancel`)
  },
)

t.test('D 8: a callback is tried again after 10 s, 1 min, 5 min, 30 min, 2 h', async (t) => {
  let requestedAt = 0
  const server = createServer((_request, response) => {
    requestedAt = Date.now()
    response.writeHead(503).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { id } = await importText(service, (await createList(service)).id, 'email\n', {
    callback_url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
  })
  const after = (failures: number) =>
    until(
      `failure ${failures}`,
      () => collections.callbacks.findOne({ _id: id }),
      (callback) => callback?.failures === failures && callback.token === null,
    )
  const waits = [10_000, minute, 5 * minute, 30 * minute, 2 * hour]
  for (const [i, waitMs] of waits.entries()) {
    const { due_at: dueAt } = (await after(i + 1))!
    isAfterFailure(t, dueAt, { requestedAt, waitMs })
    await collections.callbacks.updateOne({ _id: id }, { $set: { due_at: new Date(0) } })
  }
  t.equal((await after(waits.length + 1))!.state, 'given_up')
})

t.test('an engine removes what is old without being asked, from its start on', async (t) => {
  const list = await createList(service, [{ name: 'Gone', field_type: 'text' }])
  const { id } = await importText(service, list.id, 'email,g\nann@example.com,x\nbad,y\n', {
    column_mapping: ['email', 'Gone'],
  })
  await until(
    'clearing up',
    () => collections.imports.findOne({ _id: id }),
    (document) => document?.finalized === true,
  )
  const [field] = await get(`/mailing_lists/${list.id}/custom_fields`)
  const staged = path.join(service.dataFolder, 'staging', '900001')
  await mkdir(staged, { recursive: true })
  await writeFile(path.join(staged, 'source'), 'email\n')
  const upload = brokenOff('left.csv', 6, 0)
  await collections.uploads.insertOne(upload)
  const ofImport = { _id: { $gte: `${id}:`, $lt: `${id};` } }
  const left = async () => ({
    logs:
      (await collections.outcomes.countDocuments(ofImport)) +
      (await collections.failures.countDocuments(ofImport)),
    values: await collections.subscribers.countDocuments({
      mailing_list_id: list.id,
      [`custom_fields.${field.id}`]: { $exists: true },
    }),
    staged: Number(existsSync(staged)),
    uploads: await collections.uploads.countDocuments({ _id: upload._id }),
  })
  t.same(await left(), { logs: 2, values: 1, staged: 1, uploads: 1 })
  await endedBefore(id, 8 * day)
  await makeOld(path.join(staged, 'source'), 2 * hour)
  await collections.uploads.updateOne(
    { _id: upload._id },
    { $set: { modified_at: new Date(Date.now() - 8 * day) } },
  )
  t.equal((await call('DELETE', `/mailing_lists/${list.id}/custom_fields/${field.id}`)).body.success, true)

  // The one that runs already does this at its intervals, of minutes.
  await service.start('engine')
  await until('the end of all four', left, (counts) => Object.values(counts).every((count) => count === 0))
  t.pass()
})

t.test('D 1: a change of a key takes effect within 5 s, in every process', async (t) => {
  const { id, key } = await post('/api_keys', { api_key: { name: 'to be deleted' } })
  const statusOf = async () => (await call('GET', '/organizations', undefined, { key })).status
  t.equal(await statusOf(), 200)
  // Another process deletes the key.
  await collections.apiKeys.deleteOne({ _id: id })
  await until('the refusal', statusOf, (status) => status === 401, 5_000, 200)
  t.pass()
})
