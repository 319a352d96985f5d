import t, { type Test } from 'tap'
import { Random } from '../campaigns/random.ts'
import {
  effectOfDeactivation,
  effectOfEnd,
  effectOfRequest,
  effectOfRow,
  type Raced,
  type RacingRequest,
  type RacingRow,
} from '../campaigns/raced-subscriber.ts'
import { wrongCounters } from '../campaigns/observed-end.ts'
import { whyNotSerial, type Operation } from '../campaigns/serial-order.ts'
import { logKinds } from '../../shared/contract/schemas/import.ts'
import { subscriberStatuses, type SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'
import { CommandGate } from '../helpers/command-gate.ts'
import {
  callerOf,
  createList,
  importEnd,
  importText,
  startService,
  testMongodbUri,
  type Answer,
  type Call,
  type Json,
  type RunningProcess,
  type Service,
} from '../helpers/service.ts'
import { openSlowLink } from '../helpers/slow-link.ts'

/**
 * Requests to two control planes create, read, change, trigger and delete the subscribers that imports write. The
 * operations on each address must have a serial order. In it every request has the answer that it had, every row is in
 * the log that it is in, and the last state is the stored one. A lost update leaves no such order.
 */

/** docs/campaigns.md has the settings of a long race. */
const setting = (name: string, fallback: number) => Number(process.env[name] ?? fallback)
const rows = setting('ROLLCALL_RACE_ROWS', 600)
const imports = setting('ROLLCALL_RACE_IMPORTS', 4)
const seed = setting('ROLLCALL_SEED', 1)
/** Requests go to every tenth row, half of them to the first few. The other rows make batches last longer. */
const addresses = Array.from({ length: rows }, (_, i) => `s${i}@example.com`)
const raced = addresses.filter((_, i) => i % Math.ceil(rows / 60) === 0)
const requesters = 8

const sameValues = { b: 1, status: 'active', confirmed: true } as const

/** What happens to a subscriber between the read and the write of an update that changes values alone. */
const overtaken = new Map<string, RacingRequest[]>([
  ['status@example.com', [{ kind: 'change', values: { b: 2, status: 'unsubscribed' }, id: null }]],
  ['confirmed@example.com', [{ kind: 'change', values: { b: 2, confirmed: false }, id: null }]],
  ['deleted@example.com', [{ kind: 'delete' }]],
  ['another@example.com', [{ kind: 'delete' }, { kind: 'create', values: sameValues }]],
  ['values@example.com', [{ kind: 'change', values: { ...sameValues, b: 2 }, id: null }]],
])

/** Updates that wait between their read and their write while an import writes the same row, and what is left then. */
const importedMeanwhile = [
  {
    email: 'a@example.com',
    row: { A: '9' },
    given: {},
    left: { status: 'active', confirmed: true },
  },
  {
    email: 'a-and-status@example.com',
    row: { A: '9', status: 'unsubscribed', confirmed: 'false' },
    given: {},
    left: { status: 'unsubscribed', confirmed: false },
  },
  {
    email: 'status-given-back@example.com',
    row: { A: '9', status: 'unsubscribed', confirmed: 'false' },
    given: { status: 'active', confirmed: true },
    left: { status: 'active', confirmed: true },
  },
]

/** A race in which less happened than this says nothing about it. */
const minRetries = 5
const minAnswers = {
  'change done': 20,
  'create done': 5,
  'delete done': 5,
  'trigger created': 3,
  'trigger remained_active': 3,
  'trigger reactivated': 3,
}

t.test('the search for a serial order finds one, and says where there is none', async (t) => {
  const add = (count: number, answer: number, from: number, to: number): Operation<number> => ({
    what: `add ${count}`,
    from,
    to,
    after: (state) => (state + count === answer ? [answer] : []),
  })
  t.equal(whyNotSerial(0, [add(1, 3, 0, 10), add(2, 2, 5, 15)]), null, 'in the order of their effects')
  t.match(whyNotSerial(0, [add(1, 3, 0, 4), add(2, 2, 5, 15)]), /left 0.0-4.0 add 1/, 'one was over before')
  t.match(whyNotSerial(0, [add(1, 1, 0, 10), add(2, 2, 5, 15)]), /none of what is left/, 'a lost update')
})

/** The operations of a race on each address, and what they need: who calls, what was answered, whether it is over. */
class Race {
  readonly operations = new Map<string, Operation<Raced>[]>(
    [...addresses, ...overtaken.keys()].map((email) => [email, []]),
  )
  /** What the last answer about an address showed: an update that gives that changes values alone, in place. */
  readonly lastViews = new Map<string, Json>()
  readonly answers: Record<string, number> = {}
  isOver = false
  readonly #path: string
  readonly #autoresponderId: number
  #values = 0

  constructor(path: string, autoresponderId: number) {
    this.#path = path
    this.#autoresponderId = autoresponderId
  }

  nextValue(): number {
    this.#values += 1
    return this.#values
  }

  /** Sends random requests until the race is over. */
  async request(call: Call, random: Random): Promise<void> {
    while (!this.isOver) {
      const email = random.oneOf(random.chance(0.5) ? raced.slice(0, 4) : raced)
      const request = makeRequest(random, this.nextValue(), this.lastViews.get(email))
      await this.perform(call, request, email)
    }
  }

  async perform(call: Call, request: RacingRequest, email: string): Promise<void> {
    const from = performance.now()
    const { body } = await this.#send(call, request, email)
    const to = performance.now()
    const { success, data, error_code: code } = body
    const view = request.kind === 'read' ? data?.[0] : (data?.subscriber ?? data)
    if (view?.email !== undefined) this.lastViews.set(email, view)
    const kind = `${request.kind} ${success ? (data?.subscription_result ?? 'done') : code}`
    this.answers[kind] = (this.answers[kind] ?? 0) + 1
    const what = `${JSON.stringify(request)}: ${code ?? shown(view)}`
    this.operations.get(email)!.push({ what, from, to, after: effectOfRequest(request, body, to) })
  }

  #send(call: Call, request: RacingRequest, email: string): Promise<Answer> {
    const at = `${this.#path}/subscribers/${encodeURIComponent(email)}`
    switch (request.kind) {
      case 'create':
        return call('POST', `${this.#path}/subscribers`, { subscriber: { email, ...bodyOf(request.values) } })
      case 'change':
        return call('PUT', request.id === null ? at : `${this.#path}/subscribers/${request.id}`, {
          subscriber: bodyOf(request.values),
        })
      case 'trigger':
        return call('POST', `${at}/trigger_autoresponders`, {
          autoresponder_ids: [this.#autoresponderId],
          create_missing_subscriber: request.creates,
          reactivate_subscriber: request.reactivates,
          ...(request.b === null ? {} : { custom_fields: { for_all: { B: request.b } } }),
        })
      case 'delete':
        return call('DELETE', at)
      case 'read':
        return call('GET', at)
    }
  }
}

/** An engine and two control planes over a slow link to the database; commands of the first plane pass a gate. */
async function startRacers(t: Test) {
  const slowness = new Random(seed)
  const delayMs = () => (slowness.chance(0.7) ? 0 : slowness.between(5, 25))
  const link = await openSlowLink(t, testMongodbUri(), delayMs)
  const slow = { MONGODB_URI: link.href }
  const service = await startService(t, [], { ENGINE_WORKERS: '2' })
  const gate = await CommandGate.open(link.href)
  t.teardown(() => gate.close())
  const gatedPlane = await service.start('control-plane', { MONGODB_URI: gate.uri })
  const otherPlane = await service.start('control-plane', slow)
  await service.start('engine', slow)
  const callPlane = ({ ready }: RunningProcess) => callerOf(() => ready.http ?? '')
  return { service, gate, gatedCall: callPlane(gatedPlane), otherCall: callPlane(otherPlane) }
}

async function createRace(service: Service) {
  const fields = ['A', 'B'].map((name) => ({ name, field_type: 'number' }))
  const list = await createList(service, fields, { has_confirmed: true })
  const path = `/mailing_lists/${list.id}`
  const { id: autoresponderId } = await service.post(`${path}/autoresponders`, {
    autoresponder: {
      name: 'Answer',
      trigger: 'api',
      delay: 'with_delay',
      delay_unit: 'days',
      delay_amount: 30,
      content_subject: 'Hello',
      content_text: 'Good to have you.',
    },
  })
  return { listId: list.id as number, path, race: new Race(path, autoresponderId) }
}

/** Lets an update wait between its read and its write while other requests change the same subscriber. */
async function overtakeUpdates(
  race: Race,
  gate: CommandGate,
  gatedCall: Call,
  otherCall: Call,
): Promise<void> {
  for (const [email, meanwhile] of overtaken) {
    await race.perform(otherCall, { kind: 'create', values: sameValues }, email)
    const isWritten = gate.watch(({ findAndModify }) => findAndModify === 'subscribers')
    const { id } = race.lastViews.get(email)
    const values = { ...sameValues, b: race.nextValue() }
    const update = race.perform(gatedCall, { kind: 'change', values, id }, email)
    await isWritten
    for (const request of meanwhile) await race.perform(otherCall, request, email)
    gate.release()
    await update
  }
}

/** Lets each update wait between its read and its write until an import has written the same row. */
async function overtakeByImports(
  t: Test,
  service: Service,
  listId: number,
  gate: CommandGate,
  gatedCall: Call,
): Promise<void> {
  const path = `/mailing_lists/${listId}`
  for (const { email, row, given, left } of importedMeanwhile) {
    const { id } = await service.post(`${path}/subscribers`, {
      subscriber: { email, status: 'active', confirmed: true, custom_fields: { A: 1, B: 1 } },
    })
    const isWritten = gate.watch(({ findAndModify }) => findAndModify === 'subscribers')
    const subscriber = { ...given, custom_fields: { B: 2 } }
    const update = gatedCall('PUT', `${path}/subscribers/${id}`, { subscriber })
    await isWritten
    const columns = ['email', ...Object.keys(row)]
    const values = [email, ...Object.values(row)]
    const imported = await importText(service, listId, `${values.join()}\n`, {
      column_mapping: columns,
      file_format: { csv_has_headers: false },
      overwrite: true,
      overwrite_what: { custom_fields: true, status: true, confirmed: true },
    })
    t.match(
      imported,
      { state: 'finished', stats: { subscribers: { updated: 1 } } },
      `${columns.join()} first`,
    )
    gate.release()
    const expected = { ...left, custom_fields: { A: { value: 9 }, B: { value: 2 } } }
    t.match((await update).body.data, expected, `${email}: the answer has both`)
    const [stored] = await service.get<Json[]>(`${path}/subscribers/${id}`)
    t.match(stored, expected, `${email}: both are stored`)
  }
}

/** Each address whose operations have no serial order that ends in the stored subscriber, and why. */
function findUnexplained(
  { operations }: Race,
  documents: SubscriberDocument[],
  fieldIds: number[],
  waitingIds: number[],
): string[] {
  const byEmail = new Map(documents.map((document) => [document.email, document]))
  const unexplained: string[] = []
  for (const [email, performed] of operations) {
    const document = byEmail.get(email)
    const view = document === undefined ? undefined : viewOf(document, fieldIds)
    const count = waitingIds.filter((id) => id === document?.id).length
    const what = `the end: ${shown(view)}, ${count} waiting`
    const end = { what, from: performance.now(), to: Infinity, after: effectOfEnd(view, count) }
    const reason = whyNotSerial(null, [...performed, end])
    if (reason !== null) unexplained.push(`${email}: ${reason}`)
  }
  return unexplained
}

t.test(`requests race imports of the same subscribers, seed ${seed}`, { timeout: 3_600_000 }, async (t) => {
  const { service, gate, gatedCall, otherCall } = await startRacers(t)
  const { listId, path, race } = await createRace(service)
  const requests = Array.from({ length: requesters }, (_, i) =>
    race.request(i % 2 === 0 ? gatedCall : otherCall, new Random(seed * 1_000 + i)),
  )
  const random = new Random(seed)
  let retries = 0
  const rareAnswers = () =>
    Object.entries(minAnswers).filter(([kind, min]) => (race.answers[kind] ?? 0) < min)
  const isPoor = () => retries < minRetries || rareAnswers().length > 0
  // More imports run where hardly any batch conflicted with a request, or some kind of answer is rare.
  for (let number = 1; number <= imports || (isPoor() && number <= imports * 10); number += 1) {
    const problems = await runImport(service, path, number, random, race.operations)
    t.same(problems, [], `import ${number} counts every row`)
    retries = await countRetriedBatches(service)
  }
  race.isOver = true
  await Promise.all(requests)
  t.ok(retries >= minRetries, `${retries} batches were tried again`)
  t.same(rareAnswers(), [], `each kind of answer was given, of ${JSON.stringify(race.answers)}`)
  await overtakeUpdates(race, gate, gatedCall, otherCall)
  await overtakeByImports(t, service, listId, gate, gatedCall)

  const { subscribers, reactions } = service.collections
  const documents = await subscribers.find({ mailing_list_id: listId }).toArray()
  t.same(await wrongCounters(service, listId, documents), [], 'the counts are those of a recount')
  const found = await reactions.find({ mailing_list_id: listId }).toArray()
  const ids = new Set(documents.map(({ id }) => id))
  const orphans = found.filter((reaction) => !ids.has(reaction.subscriber_id!))
  t.same(orphans, [], 'reactions of deleted subscribers are gone')
  t.equal(new Set(documents.map(({ email }) => email)).size, documents.length, 'no address is there twice')
  const fieldIds = (await service.get<Json[]>(`${path}/custom_fields`)).map((field): number => field.id)
  const waiting = found.filter(({ state }) => state !== 'dropped')
  const waitingIds = waiting.map((reaction) => reaction.subscriber_id!)
  const unexplained = findUnexplained(race, documents, fieldIds, waitingIds)
  for (const reason of unexplained.slice(0, 3)) console.error(`${reason}\n`)
  t.equal(unexplained.length, 0, 'the operations on each subscriber have a serial order')
})

const shown = (view: Json): string =>
  view === undefined || view === null
    ? 'no subscriber'
    : `${view.id} ${view.status} A ${view.custom_fields?.A.value} B ${view.custom_fields?.B.value} confirmed ${view.confirmed} ${view.remove_ip}`

function makeRequest(random: Random, b: number, last: Json): RacingRequest {
  const kind = random.oneOf([
    ...(['change', 'change', 'change', 'change', 'change', 'change'] as const),
    ...(['trigger', 'trigger', 'create', 'create', 'delete', 'read'] as const),
  ])
  if (kind === 'delete' || kind === 'read') return { kind }
  if (kind === 'trigger')
    return {
      kind,
      b: random.chance(0.5) ? b : null,
      creates: random.chance(0.5),
      reactivates: random.chance(0.5),
    }
  const status = random.chance(0.5) ? last?.status : random.oneOf(['active', 'unsubscribed', 'bounced'])
  const confirmed = random.chance(0.5) ? last?.confirmed : random.chance(0.5)
  const values = {
    b,
    ...(status === undefined || random.chance(0.3) ? {} : { status }),
    ...(confirmed === undefined || random.chance(0.3) ? {} : { confirmed }),
    ...(random.chance(0.3) ? { removeIp: `192.0.2.${random.between(1, 250)}` } : {}),
  }
  if (kind === 'create') return { kind, values }
  return { kind, values, id: random.chance(0.5) ? (last?.id ?? null) : null }
}

const bodyOf = ({ b, removeIp, ...rest }: Extract<RacingRequest, { kind: 'create' }>['values']) => ({
  ...rest,
  ...(removeIp === undefined ? {} : { remove_ip: removeIp }),
  custom_fields: { B: b },
})

/** Runs an import and records each of its rows as an operation. Resolves to the mistakes in its counts and logs. */
async function runImport(
  service: Service,
  path: string,
  number: number,
  random: Random,
  operations: Map<string, Operation<Raced>[]>,
): Promise<string[]> {
  const deactivates = number % 2 === 0
  const absent = new Set(random.some(raced, deactivates ? 0.6 : 0.1))
  const made = addresses
    .filter((email) => !absent.has(email))
    .map((email): [string, RacingRow] => {
      const isRaced = raced.includes(email)
      const status = isRaced
        ? random.oneOf([null, null, 'active', 'unsubscribed', 'deactivated'] as const)
        : null
      const confirmed = isRaced ? random.oneOf([null, true, false]) : null
      return [email, { a: number, status, confirmed }]
    })
  const statuses = subscriberStatuses.map((status) => [status, random.chance(0.75)])
  const options = {
    overwrite: number % 4 !== 3,
    overwrites: Object.fromEntries(statuses) as Record<(typeof subscriberStatuses)[number], boolean>,
  }
  const lines = made.map(
    ([email, { a, status, confirmed }]) => `${email},${a},${status ?? ''},${confirmed ?? ''}\n`,
  )
  const from = performance.now()
  const { id } = await service.post(`${path}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: ['email', 'A', 'status', 'confirmed'],
      file_format: { csv_has_headers: false },
      overwrite: options.overwrite,
      overwrite_what: { custom_fields: true, status: true, confirmed: true },
      overwrite_when_status: options.overwrites,
      deactivate_subscribers_not_in_import: deactivates,
      file_source: { type: 'json', content: lines.join('') },
    },
  })
  const view = await importEnd(service, id)
  const to = performance.now()
  const counts: Record<string, number> = view.stats.subscribers
  const problems = view.state === 'finished' ? [] : [`${view.state}: ${view.error_message}`]
  const kinds = new Map<string, string>()
  for (const kind of logKinds) {
    if (counts[kind] === 0) continue
    const { text } = await service.call('GET', `/subscriber_imports/${id}/logs/${kind}`)
    const logged = text.split('\n').slice(0, -1)
    if (logged.length !== counts[kind]) problems.push(`${counts[kind]} ${kind}, ${logged.length} in the log`)
    for (const email of logged) {
      if (kinds.has(email)) problems.push(`${email} is ${kinds.get(email)} and ${kind}`)
      kinds.set(email, kind)
    }
  }
  for (const [email, row] of made) {
    const kind = kinds.get(email)
    const what = `import ${number} ${JSON.stringify(row)}: ${kind}`
    operations.get(email)!.push({ what, from, to, after: effectOfRow(row, kind, options, to) })
  }
  for (const email of absent) {
    const isDeactivated = kinds.get(email) === 'deactivated'
    if (!isDeactivated && kinds.has(email)) problems.push(`${email} is in no record and ${kinds.get(email)}`)
    if (!deactivates && isDeactivated) problems.push(`${email} was deactivated`)
    const what = `import ${number} without it: ${isDeactivated ? 'deactivated' : 'left alone'}`
    const after = effectOfDeactivation(isDeactivated, from)
    if (deactivates) operations.get(email)!.push({ what, from, to, after })
  }
  return problems
}

async function countRetriedBatches({ processes }: Service): Promise<number> {
  const text = await (await fetch(processes.engine?.ready.metrics['engine'] ?? '')).text()
  const samples = text.matchAll(/^rollcall_import_batch_retries_total\{[^}]*\} (\d+)$/gm)
  return [...samples].reduce((sum, [, count]) => sum + Number(count), 0)
}

/** The subscriber as the API shows it, with the keys that a race compares. */
function viewOf(document: SubscriberDocument, [a, b]: number[]): Json {
  const value = (id: number | undefined) => ({ value: document.custom_fields[String(id)] ?? null })
  return {
    id: document.id,
    status: document.status,
    custom_fields: { A: value(a), B: value(b) },
    confirmed: document.confirmed ?? false,
    remove_ip: document.remove_ip ?? null,
    remove_time: document.remove_time ?? null,
    confirm_time: document.confirm_time ?? null,
  }
}
