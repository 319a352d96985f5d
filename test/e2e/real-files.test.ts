import t, { type Test } from 'tap'
import { builtInColumns } from '../../shared/contract/schemas/import.ts'
import { exportFixtures, fixtures } from '../fixtures/all.ts'

import type { Failure, Fixture, Imported, Refused } from '../fixtures/fixture.ts'
import { bytesOf, importByCommand, openDoors, type Door } from '../helpers/import-doors.ts'
import {
  basic,
  bootstrapKey,
  controlPlaneOrigin,
  countsOf,
  createList,
  importEnd,
  startService,
  type Answer,
  type Json,
} from '../helpers/service.ts'

/**
 * Files as people have them come to the same by every door: the same table, counts and logs, or the same refusal.
 * ROLLCALL_FIXTURE runs only those whose title holds its text, and by all doors. Otherwise each takes two doors, inline
 * among them where it is text; ROLLCALL_DOORS=all opens all of them for all.
 */

const service = await startService(t, ['control-plane', 'engine', 'ftp'], { ENGINE_WORKERS: '2' })
const doors = await openDoors(t, service)
const importFile = await importByCommand(t, service)
const lanes = 12

interface Outcome {
  /** Null by the command line, which inspects files itself. */
  inspected: Answer | null
  view: Json
  subscribers: Json[]
  /** A dry run with what `inspect` proposed, through one of the doors. */
  proposed: Answer | null
  /** What was replied for each query of the failed log. */
  logs: Record<string, { contentType: string; bytes: Buffer }>
}

const titleOf = ({ title, file, headers }: Fixture): string => title ?? `${file}${headers ? ' encoded' : ''}`
const only = process.env['ROLLCALL_FIXTURE'] ?? ''
const isShort = only === '' && process.env['ROLLCALL_DOORS'] !== 'all'
const chosen = fixtures
  .map((fixture, number) => ({ fixture, number, title: titleOf(fixture) }))
  .filter(({ title }) => title.includes(only))

/** All work begins at once, in lanes; the tests below wait for their parts of it. */
const waiting: (() => Promise<void>)[] = []
const started = chosen.map(({ fixture, number, title }) => ({
  fixture,
  title,
  outcomes: doors
    .filter((door) => door.takes(fixture) && !isLeftOut(door, number))
    .map((door) => ({
      door: door.name,
      outcome: inLane(() => importThrough(door, fixture, `${number}`)),
    })),
  byCommand: takesCommand(fixture, number) ? inLane(() => importWithCommand(fixture, `${number}`)) : null,
}))
for (let lane = 0; lane < lanes; lane += 1) void runLane()

/** In the short form a fixture's number chooses one of the doors besides inline; the last one is the command line. */
function isLeftOut({ name }: Door, number: number): boolean {
  const at = doors.findIndex((door) => door.name === name)
  return isShort && at > 0 && fixtures[number]?.headers === undefined && at !== 1 + (number % doors.length)
}

/** The command line sends text inline and refuses an empty one, and it detects whether there is a header. */
function takesCommand(fixture: Fixture, number: number): boolean {
  if (isShort && number % doors.length !== doors.length - 1) return false
  if (fixture.settings?.csv_has_headers !== undefined) return false
  return fixture.headers === undefined && bytesOf(fixture).length > 0
}

function inLane<T>(work: () => Promise<T>): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  waiting.push(() => work().then(resolve, reject))
  promise.catch(() => undefined)
  return promise
}

async function runLane(): Promise<void> {
  for (let work = waiting.shift(); work !== undefined; work = waiting.shift()) await work()
}

async function importThrough(door: Door, fixture: Fixture, prefix: string): Promise<Outcome> {
  const { listId, column_mapping } = await listFor(fixture)
  const file_source = await door.bring(fixture, prefix)
  const file_format = { character_set: 'auto', csv_field_separator: 'auto', ...fixture.settings }
  const defaults = { subscriber_defaults: { status: fixture.defaultStatus } }
  const target = `/mailing_lists/${listId}/subscriber_imports`
  const { csv_field_escape: _, csv_skip_lines: __, ...known } = file_format
  const inspected = await service.call('POST', `${target}/inspect`, {
    subscriber_import: { file_source, file_format: known, ...defaults },
  })
  const { id } = await service.post(target, {
    subscriber_import: { column_mapping, file_source, file_format, ...defaults },
  })
  const outcome = await outcomeOf(fixture, listId, id)
  const isProposed = exportFixtures.includes(fixture) && file_source.type === 'url'
  if (!isProposed || inspected.body.success !== true) return { ...outcome, inspected }
  return { ...outcome, inspected, proposed: await dryRun(target, file_source, inspected) }
}

/** What the command said instead, where it made no import. */
async function importWithCommand(fixture: Fixture, prefix: string): Promise<Outcome | string> {
  const { listId, column_mapping: mapping } = await listFor(fixture)
  const made = await importFile(fixture, { prefix, listId, mapping })
  return 'refusal' in made ? made.refusal : outcomeOf(fixture, listId, made.id)
}

async function listFor(fixture: Fixture): Promise<{ listId: number; column_mapping: (string | null)[] }> {
  // A file that is refused needs no fields.
  const column_mapping = 'refusal' in fixture.expected ? ['email'] : fixture.mapping
  const names = column_mapping.filter(
    (name) => name !== null && !builtInColumns.some((builtIn) => builtIn === name),
  )
  const fields = names.map((name) => ({ name, field_type: 'text', ...fixture.fields?.[name!] }))
  const { id: listId } = await createList(service, fields)
  return { listId, column_mapping }
}

async function outcomeOf(fixture: Fixture, listId: number, id: number): Promise<Outcome> {
  const view = await importEnd(service, id)
  const logs: Outcome['logs'] = {}
  for (const [query, log] of Object.entries(logsOf(fixture)))
    if (log !== undefined && view.stats.subscribers.failed > 0) logs[query] = await failedLog(id, query)
  return { inspected: null, view, proposed: null, subscribers: await allSubscribers(listId), logs }
}

/** The reply of an inspection is sent back as it stands. */
async function dryRun(target: string, file_source: Json, { body }: Answer): Promise<Answer> {
  const { columns: _, records: __, import_error: ___, column_mapping, ...file_format } = body.data
  const created = await service.call('POST', target, {
    subscriber_import: { dry_run: true, overwrite: true, column_mapping, file_source, file_format },
  })
  if (created.body.success === true) created.body.data = await importEnd(service, created.body.data.id)
  return created
}

/** The logs that the fixture writes down, by the query that asks for each. */
function logsOf({ expected }: Fixture): Record<string, string | undefined> {
  if ('refusal' in expected) return {}
  return { '': expected.failedLog, '?line=true': expected.lineLog, '?safe=true': expected.safeLog }
}

async function failedLog(id: number, query: string) {
  const response = await fetch(
    `${controlPlaneOrigin(service)}/svc/api/v2/subscriber_imports/${id}/logs/failed${query}`,
    { headers: { authorization: basic(`api:${bootstrapKey}`) } },
  )
  const bytes = Buffer.from(await response.arrayBuffer())
  return { contentType: response.headers.get('content-type') ?? '', bytes }
}

async function allSubscribers(listId: number): Promise<Json[]> {
  const all: Json[] = []
  for (let page = 0; ; page += 1) {
    const rows = await service.get<Json[]>(`/mailing_lists/${listId}/subscribers?per_page=500&page=${page}`)
    all.push(...rows)
    if (rows.length < 500) return all
  }
}

for (const { fixture, title, outcomes, byCommand } of started)
  t.test(title, { timeout: 300_000 }, async (t) => {
    const check = (t: Test, found: Outcome) => {
      if ('refusal' in fixture.expected) checkRefusal(t, fixture.expected, found)
      else checkImport(t, { fixture, expected: fixture.expected }, found)
    }
    for (const { door, outcome } of outcomes) {
      const found = await outcome
      await t.test(door, async (t) => {
        check(t, found)
      })
    }
    if (byCommand === null) return
    const found = await byCommand
    await t.test('the command line', async (t) => {
      if (typeof found !== 'string') check(t, found)
      else if (!('refusal' in fixture.expected)) t.fail(found)
      else for (const part of fixture.expected.refusal) t.match(found, part)
    })
  })

function checkRefusal(t: Test, expected: Refused, { view, subscribers, inspected }: Outcome): void {
  t.equal(view.state, 'failed')
  for (const part of expected.refusal) t.match(view.error_message, part)
  t.equal(view.stats.number_of_records, null)
  t.same(countsOf(view), {})
  t.same(view.failure_summary, [])
  t.same(subscribers, [], 'no row was written')
  if (expected.isNoTable !== true || inspected === null) return
  t.equal(inspected.body.error_code, 'validation_failed', 'inspect refuses it')
  for (const part of expected.refusal) t.match(inspected.body.error_message, part)
}

interface Check {
  fixture: Fixture
  expected: Imported
}

/** Inline content is text, whatever the file's character set was. */
const isInline = ({ file_source: { type } }: Json): boolean => type === 'json'

function checkImport(t: Test, check: Check, found: Outcome): void {
  const { fixture, expected } = check
  const { view } = found
  const records = Object.values(expected.counts).reduce((sum, count) => sum + count, 0)
  t.match(view, { state: 'finished', error_message: null })
  t.same(countsOf(view), expected.counts)
  t.equal(view.stats.number_of_records, records)
  t.same(tableOf(fixture, found.subscribers), sorted(expected.table), 'the table')
  const asked = fixture.settings?.character_set ?? 'auto'
  t.equal(view.file_format.character_set, asked.toLowerCase())
  const detected = isInline(view) ? 'utf-8' : expected.characterSet
  t.equal(view.detected_character_set, asked === 'auto' ? detected : null, 'the detected character set')
  t.equal(view.detected_csv_field_separator, expected.separator, 'the detected separator')
  if (expected.warnings !== undefined) t.match(view.warnings, expected.warnings, 'the warnings')
  checkConsent(t, check, found)
  checkFailures(t, expected, view)
  checkLogs(t, check, found)
  if (records > 0) checkInspection(t, { ...check, detected }, found)
}

function tableOf({ mapping }: Fixture, subscribers: Json[]): unknown[][] {
  const names = mapping.filter((name) => name !== null)
  const value = (subscriber: Json, name: string) => {
    if (name === 'consent') return subscriber.status
    return name in subscriber ? subscriber[name] : subscriber.custom_fields[name].value
  }
  return sorted(subscribers.map((subscriber) => names.map((name) => value(subscriber, name))))
}

const sorted = (rows: unknown[][]): unknown[][] =>
  rows
    .map((row) => ({ row, key: JSON.stringify(row) }))
    .sort((a, b) => (a.key < b.key ? -1 : 1))
    .map(({ row }) => row)

/** Who ends as what, and which columns the import warns of. */
function checkConsent(t: Test, { fixture: { mapping }, expected }: Check, found: Outcome): void {
  const { statuses, telling } = expected
  if (statuses === undefined || telling === undefined) return
  const ended = found.subscribers.map(({ email, status }) => [email, status])
  t.same(Object.fromEntries(ended), statuses, 'who ends as what')
  const unmapped = telling.filter(({ column }) => mapping[column - 1] === null)
  t.same(
    found.view.warnings.map((text: string) => Number(/^column (\d+) .* is not mapped/.exec(text)?.[1])),
    unmapped.map(({ column }) => column),
    'the columns of consent that are not mapped',
  )
  if (found.inspected === null) return
  const { column_mapping, warnings } = found.inspected.body.data
  t.same(
    telling.map(({ column }) => column_mapping[column - 1]),
    telling.map(({ proposed }) => proposed),
    'inspect proposes what they say',
  )
  const counted = warnings.map((text: string) => /^column (\d+) .*says no in (\d+) of/.exec(text)?.slice(1))
  t.same(
    counted
      .filter((found: string[] | undefined) => found !== undefined)
      .map((found: string[]) => found.map(Number)),
    telling.filter(({ no }) => no > 0).map(({ column, no }) => [column, no]),
    'and how many say no',
  )
}

type FailureView = Omit<Failure, 'reason'> & { reason: string }

function checkFailures(t: Test, { counts, failures }: Imported, view: Json): void {
  const summary: FailureView[] = view.failure_summary
  const rows = summary.reduce((sum, failure) => sum + failure.rows, 0)
  t.equal(rows, counts['failed'] ?? 0, 'the summary counts each failed row once')
  for (const { reason, example } of summary)
    t.notOk((example ?? '') !== '' && reason.includes(example!), 'a reason has no value of a cell')
  if (failures === undefined) return
  t.equal(summary.length, failures.length, 'groups of failures')
  failures.forEach((failure, i) => t.match(summary[i], { ...failure }))
}

const singleByte = /^(?:iso|windows)-/

function checkLogs(t: Test, { fixture, expected }: Check, { logs, view }: Outcome): void {
  const { characterSet } = expected
  const charset = !isInline(view) && singleByte.test(characterSet) ? characterSet : 'utf-8'
  const isTranscoded = !isInline(view) && !singleByte.test(characterSet) && characterSet !== 'utf-8'
  for (const [query, log] of Object.entries(logsOf(fixture))) {
    if (log === undefined) continue
    t.ok(logs[query], `there is a failed log${query}`)
    const { contentType, bytes } = logs[query] ?? { contentType: '', bytes: Buffer.alloc(0) }
    t.ok(contentType.toLowerCase().includes(`charset=${charset}`), 'the type says the character set')
    const text =
      charset === 'iso-8859-1'
        ? bytes.toString('latin1')
        : new TextDecoder(charset, { ignoreBOM: true }).decode(bytes)
    const whole = `${isTranscoded ? '\uFEFF' : ''}${log}`
    t.equal(patternOf(whole).test(text) ? whole : text, whole, `the failed log${query}`)
  }
}

/** A log whose cells `…` are reasons, enclosed or not. */
const patternOf = (log: string): RegExp =>
  new RegExp(
    `^${log
      .split('…')
      .map((part) => RegExp.escape(part))
      .join(`(?:"(?:[^"]|"")+"|[^"\\n]+)`)}$`,
  )

function checkInspection(t: Test, check: Check & { detected: string }, found: Outcome): void {
  const { fixture, expected, detected } = check
  if (found.inspected === null) return
  const { body } = found.inspected
  t.ok(body.success, `inspect takes it: ${body.error_message}`)
  if (body.success !== true) return
  const { data } = body
  if ((fixture.settings?.character_set ?? 'auto') === 'auto')
    t.equal(data.character_set, detected, 'inspect finds the character set')
  const separator = fixture.settings?.csv_field_separator ?? expected.separator
  t.equal(data.csv_field_separator, separator, 'inspect finds the separator')
  t.equal(data.column_mapping.indexOf('email'), fixture.mapping.indexOf('email'), 'and the addresses')
  const { csv_skip_lines = 0, csv_field_escape = null } = expected.proposals ?? {}
  t.match(data, { csv_skip_lines, csv_field_escape }, 'the lines before the table, and the escape')
  if (found.proposed === null) return
  const { body: proposed } = found.proposed
  t.ok(proposed.success, `its reply makes an import: ${proposed.error_message}`)
  t.match(proposed.data, {
    state: 'finished',
    stats: { number_of_records: found.view.stats.number_of_records },
  })
}
