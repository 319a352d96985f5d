import { isDeepStrictEqual } from 'node:util'
import type { Test } from 'tap'
import type { Endpoint } from '../../../control-plane/api/endpoint.ts'
import { endpoints } from '../../../control-plane/endpoints.ts'
import { conformanceRows } from '../conformance-rows.ts'
import { faultsOf, fieldTables } from '../field-tables.ts'
import {
  controlPlaneOrigin,
  descriptionOf,
  startProcess,
  startService,
  type Answer,
  type Json,
} from '../service.ts'
import { readsItsBody, readsItsQuery } from './body-and-query.ts'
import {
  asksForCredential,
  findsNothing,
  knowsItsMethods,
  refusesLesserRoles,
  refusesOtherSites,
  tellsMissingBeforeFaulty,
} from './callers-and-ids.ts'
import type { MakeRefused, Refused } from './row.ts'
import { keyOf, Subject } from './subject.ts'
import { refused, succeeded } from './verdicts.ts'
import { makeWorld, type World } from './world.ts'
import { present } from '../present.ts'

/**
 * Checks endpoints against all of their documentation. What the documentation says of all endpoints is derived from
 * their descriptions; the rest is in test/helpers/conformance-rows.ts. Every reply is compared with the description.
 * The endpoints are distributed over test files by their tags, so that no file takes long.
 */
const groups = {
  imports: ['Subscriber imports'],
  subscribers: ['Subscribers', 'Confirmation forms'],
}

/** `others` are the endpoints with a tag that no group names. */
export async function checkEndpoints(t: Test, group: keyof typeof groups | 'others'): Promise<void> {
  const grouped = Object.values(groups).flat()
  const isOfGroup = ({ tag }: Endpoint): boolean =>
    group === 'others' ? !grouped.includes(tag) : groups[group].includes(tag)
  const ofGroup = endpoints.filter(isOfGroup)
  if (ofGroup.length === 0) return
  const service = await startService(t, group === 'imports' ? ['control-plane', 'engine'] : ['control-plane'])
  const world = await makeWorld(service)
  const origin = controlPlaneOrigin(service)
  const document: Json = await (await fetch(`${origin}/openapi.json`)).json()
  const shared: Json = await descriptionOf(origin)
  t.ok(isDeepStrictEqual({ ...document, servers: [] }, { ...shared, servers: [] }), 'all describe the same')
  const subjects: Subject[] = []
  for (const described of ofGroup) {
    const row = conformanceRows[described.operationId]
    if (row === undefined) t.fail(`${described.operationId} has no row`)
    else subjects.push(new Subject(described, row, world, document))
  }
  const slow = new Map(subjects.map((subject) => [subject, startSlowRefusals(subject)]))
  for (const subject of subjects) {
    const { method, path } = subject.described
    await t.test(`${method.toUpperCase()} ${path}`, (t) => checkEndpoint(t, subject, slow.get(subject)!))
  }
}

type Answered = Promise<{ due: Refused; answer: Answer }>

/** Refusals that the service delays run while everything else is tried. */
function startSlowRefusals(subject: Subject): Answered[] {
  return (subject.row.slowRefusals ?? []).map((make) => {
    const answered = answerTo(subject, make)
    // A rejection is reported to the check that awaits it.
    answered.catch(() => undefined)
    return answered
  })
}

async function answerTo(subject: Subject, make: MakeRefused, t?: Test): Answered {
  const due = await make(subject.world)
  const base = due.settings && t && (await startBeside(t, subject.world, due.settings))
  const answer = await subject.send(due.sent, base === undefined ? {} : { base })
  await due.after?.()
  return { due, answer }
}

async function checkEndpoint(t: Test, subject: Subject, slow: Answered[]): Promise<void> {
  const { described, row } = subject
  await t.test('succeeds with the weakest key that has the right', (t) => succeeds(t, subject))
  await t.test('asks for a credential', (t) => asksForCredential(t, subject))
  await t.test('refuses a key without the right', (t) => refusesLesserRoles(t, subject))
  if (described.method === 'post')
    await t.test('is not for pages of other sites', (t) => refusesOtherSites(t, subject))
  await t.test('knows its methods', (t) => knowsItsMethods(t, subject))
  await t.test('finds nothing by an id that names nothing, or is none', (t) => findsNothing(t, subject))
  if (described.body !== undefined && subject.params.length > 0)
    await t.test('tells a missing record before a faulty body', (t) => tellsMissingBeforeFaulty(t, subject))
  if (described.body !== undefined)
    await t.test('reads its body as documented, field by field', (t) => readsItsBody(t, subject))
  if (described.query !== undefined)
    await t.test('reads its query as documented', (t) => readsItsQuery(t, subject))
  if (row.refusals !== undefined)
    await t.test('gives the refusals that it lists', (t) => givesItsRefusals(t, subject, slow))
  await t.test('refused in each documented way', (t) => {
    t.same(
      [...subject.documented].filter(
        (refusal) => !subject.seen.has(refusal) && row.elsewhere?.some((each) => each.test(refusal)) !== true,
      ),
      [],
      'documented refusals that no request provoked: give them a row',
    )
    t.end()
  })
}

/** The sentence is the one that the refusal makes of the request's values, and the endpoint lists it. */
async function givesItsRefusals(t: Test, subject: Subject, slow: Answered[]): Promise<void> {
  const others = (subject.row.refusals ?? []).map((make) => () => answerTo(subject, make, t))
  for (const answered of [...others, ...slow.map((begun) => () => begun)]) {
    const { due, answer } = await answered()
    refused(t, answer, due.refused.code, due.refused.message, due.refused.status)
    t.equal(answer.body?.error_message, due.refused.message)
    t.ok(subject.documented.has(keyOf(answer.status, answer.body)), `is documented: ${answer.text}`)
  }
}

/** Another control plane with other settings; resolves to its address. */
async function startBeside(t: Test, { service }: World, settings: Record<string, string>): Promise<string> {
  const running = await startProcess('control-plane', { ...service.settings, ...settings })
  t.teardown(() => running.stop())
  return present(running.ready.http, 'the URL of the API')
}

async function succeeds(t: Test, subject: Subject): Promise<void> {
  const answer = await subject.send(await subject.good())
  succeeded(t, answer, 'with the least key')
  matchesItsTable(t, subject.described, answer)
  const asSystem = await subject.send(await subject.good(), { key: subject.world.system })
  if (subject.row.isOwnOnly === true && subject.described.method !== 'put')
    refused(t, asSystem, 'not_found', 'as a system admin', subject.row.statuses?.['not_found'])
  else succeeded(t, asSystem, 'as a system admin')
  const { body } = subject.described
  const good = await subject.good()
  // The row says what the entries of an array may have.
  if (body === undefined || good.body === undefined || body.isArray === true) return
  for (const key of ['a_key_that_is_none', ...(subject.described.body?.forSystemAdmins ?? [])]) {
    const more = subject.bodyWith(good.body, [key], { $set: { role: 'system_admin' } })
    const again = await subject.good()
    const answer = await subject.send({ ...again, body: mixed(more, again.body) })
    succeeded(t, answer, `${key} is ignored`)
    if (key === 'a_key_that_is_none')
      t.match(`${answer.headers.get('warning')} ${answer.text}`, /a_key_that_is_none/, 'and named')
  }
}

/** The reply against the document's table of its fields, where there is one. */
function matchesItsTable(t: Test, { operationId }: Endpoint, { body }: Answer): void {
  const table = fieldTables.find(({ shownBy }) => shownBy.includes(operationId))
  if (table === undefined) return
  const records: Json[] = Array.isArray(body.data) ? body.data : [body.data]
  t.ok(records.length > 0, 'there is a record to be looked at')
  t.same(
    records.flatMap((record) => faultsOf(table, record)),
    [],
    'the reply has the fields of the table',
  )
}

/** The values of a new request, with additions. */
function mixed(more: Json, body: Json): Json {
  return typeof body === 'object' && body !== null && !Array.isArray(body)
    ? Object.fromEntries(
        [...new Set([...Object.keys(more), ...Object.keys(body)])].map((key) => [
          key,
          mixed(more[key], body[key] ?? more[key]),
        ]),
      )
    : body
}
