import t from 'tap'
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
  startService,
  testMongodbUri,
  type Answer,
  type Call,
  type Json,
  type Service,
} from '../helpers/service.ts'
import { openSlowLink } from '../helpers/slow-link.ts'

/**
 * Requests to two control planes that create, read, change, trigger and delete the very subscribers that imports write.
 * Each address must have a serial order: one in which every request has the answer that it had, every row is in the log
 * that it is in, and the last state is the stored one. That leaves no room for a lost update.
 */

/** Long by hand: docs/campaigns.md. */
const number = (name: string, fallback: number) => Number(process.env[name] ?? fallback)
const rows = number('ROLLCALL_RACE_ROWS', 600)
const imports = number('ROLLCALL_RACE_IMPORTS', 4)
const seed = number('ROLLCALL_SEED', 1)
/** Every tenth row is raced for, half of the time the first few. The others make batches that hold these for a while. */
const addresses = Array.from({ length: rows }, (_, i) => `s${i}@example.com`)
const raced = addresses.filter((_, i) => i % Math.ceil(rows / 60) === 0)
const requesters = 8

const sameGiven = { b: 1, status: 'active', confirmed: true } as const

/** What happens to a subscriber between the read and the write of an update that changes values alone. */
const overtaken = new Map<string, RacingRequest[]>([
  ['status@example.com', [{ kind: 'change', given: { b: 2, status: 'unsubscribed' }, id: null }]],
  ['confirmed@example.com', [{ kind: 'change', given: { b: 2, confirmed: false }, id: null }]],
  ['deleted@example.com', [{ kind: 'delete' }]],
  ['another@example.com', [{ kind: 'delete' }, { kind: 'create', given: sameGiven }]],
  ['values@example.com', [{ kind: 'change', given: { ...sameGiven, b: 2 }, id: null }]],
])

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

t.test(`requests race imports of the same subscribers, seed ${seed}`, { timeout: 3_600_000 }, async (t) => {
  const slowness = new Random(seed)
  const delayMs = () => (slowness.chance(0.7) ? 0 : slowness.between(5, 25))
  const link = await openSlowLink(t, testMongodbUri(), delayMs)
  const slow = { MONGODB_URI: link.href }
  const service = await startService(t, [], { ENGINE_WORKERS: '2' })
  const gate = await CommandGate.open({ host: link.hostname, port: Number(link.port) })
  t.teardown(() => gate.close())
  const gated = new URL(link)
  gated.port = String(gate.port)
  const origins = [
    await service.start('control-plane', { MONGODB_URI: gated.href }),
    await service.start('control-plane', slow),
  ]
  await service.start('engine', slow)
  const [gatedCall, otherCall] = origins.map(({ ready }) => callerOf(() => ready.http!)) as [Call, Call]
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

  const operations = new Map(
    [...addresses, ...overtaken.keys()].map((email) => [email, [] as Operation<Raced>[]]),
  )
  /** What the last answer about an address showed: an update that gives that changes values alone, in place. */
  const lastViews = new Map<string, Json>()
  const answers: Record<string, number> = {}
  let ended = false
  let values = 0
  const requester = async (which: number): Promise<void> => {
    const random = new Random(seed * 1_000 + which)
    while (!ended) {
      const email = random.oneOf(random.chance(0.5) ? raced.slice(0, 4) : raced)
      const request = madeRequest(random, (values += 1), lastViews.get(email))
      await perform(which % 2 === 0 ? gatedCall : otherCall, request, email)
    }
  }

  async function perform(call: Call, request: RacingRequest, email: string): Promise<void> {
    const from = performance.now()
    const { body } = await sent(call, request, email)
    const to = performance.now()
    const { success, data, error_code: code } = body
    const view = request.kind === 'read' ? data?.[0] : (data?.subscriber ?? data)
    if (view?.email !== undefined) lastViews.set(email, view)
    const kind = `${request.kind} ${success ? (data?.subscription_result ?? 'done') : code}`
    answers[kind] = (answers[kind] ?? 0) + 1
    const what = `${JSON.stringify(request)}: ${code ?? shown(view)}`
    operations.get(email)!.push({ what, from, to, after: effectOfRequest(request, body, to) })
  }

  function sent(call: Call, request: RacingRequest, email: string): Promise<Answer> {
    const at = `${path}/subscribers/${encodeURIComponent(email)}`
    switch (request.kind) {
      case 'create':
        return call('POST', `${path}/subscribers`, { subscriber: { email, ...bodyOf(request.given) } })
      case 'change':
        return call('PUT', request.id === null ? at : `${path}/subscribers/${request.id}`, {
          subscriber: bodyOf(request.given),
        })
      case 'trigger':
        return call('POST', `${at}/trigger_autoresponders`, {
          autoresponder_ids: [autoresponderId],
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

  const requests = Array.from({ length: requesters }, (_, which) => requester(which))
  const random = new Random(seed)
  let retries = 0
  // More where hardly any batch met a request.
  for (let turn = 1; turn <= imports || (retries < 5 && turn <= imports * 10); turn += 1) {
    const problems = await runImport(service, path, turn, random, operations)
    t.same(problems, [], `import ${turn} counts every row`)
    retries = await retriedBatches(service)
  }
  ended = true
  await Promise.all(requests)
  for (const [email, meanwhile] of overtaken) {
    await perform(otherCall, { kind: 'create', given: sameGiven }, email)
    const isWritten = gate.watch(({ findAndModify }) => findAndModify === 'subscribers')
    const { id } = lastViews.get(email)
    const update = perform(
      gatedCall,
      { kind: 'change', given: { ...sameGiven, b: (values += 1) }, id },
      email,
    )
    await isWritten
    for (const request of meanwhile) await perform(otherCall, request, email)
    gate.release()
    await update
  }
  t.comment(`${retries} batches were tried again; ${JSON.stringify(answers)}`)

  const { subscribers, reactions } = service.collections
  const documents = await subscribers.find({ mailing_list_id: list.id }).toArray()
  t.same(await wrongCounters(service, list.id, documents), [], 'the counts are those of a recount')
  const found = await reactions.find({ mailing_list_id: list.id }).toArray()
  const waiting = found.filter(({ state }) => state !== 'dropped').map((reaction) => reaction.subscriber_id)
  const ids = new Set(documents.map(({ id }) => id))
  const orphans = found.filter((reaction) => !ids.has(reaction.subscriber_id))
  t.same(orphans, [], 'reactions of deleted subscribers are gone')
  const byEmail = new Map(documents.map((document) => [document.email, document]))
  t.equal(byEmail.size, documents.length, 'nobody is there twice')
  const fieldIds = (await service.get<Json[]>(`${path}/custom_fields`)).map((field): number => field.id)
  const unexplained: string[] = []
  for (const [email, all] of operations) {
    const document = byEmail.get(email)
    const view = document === undefined ? undefined : viewOf(document, fieldIds)
    const count = waiting.filter((id) => id === document?.id).length
    const [from, to] = [performance.now(), Infinity]
    all.push({ what: `the end: ${shown(view)}, ${count} waiting`, from, to, after: effectOfEnd(view, count) })
    const reason = whyNotSerial(null, all)
    if (reason !== null) unexplained.push(`${email}: ${reason}`)
  }
  for (const reason of unexplained.slice(0, 3)) console.error(`${reason}\n`)
  t.equal(unexplained.length, 0, 'what became of each subscriber has a serial order')
})

const shown = (view: Json): string =>
  view === undefined || view === null
    ? 'nobody'
    : `${view.id} ${view.status} A ${view.custom_fields?.A.value} B ${view.custom_fields?.B.value} confirmed ${view.confirmed} ${view.remove_ip}`

function madeRequest(random: Random, b: number, last: Json): RacingRequest {
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
  const given = {
    b,
    ...(status === undefined || random.chance(0.3) ? {} : { status }),
    ...(confirmed === undefined || random.chance(0.3) ? {} : { confirmed }),
    ...(random.chance(0.3) ? { removeIp: `192.0.2.${random.between(1, 250)}` } : {}),
  }
  if (kind === 'create') return { kind, given }
  return { kind, given, id: random.chance(0.5) ? (last?.id ?? null) : null }
}

const bodyOf = ({ b, removeIp, ...rest }: Extract<RacingRequest, { kind: 'create' }>['given']) => ({
  ...rest,
  ...(removeIp === undefined ? {} : { remove_ip: removeIp }),
  custom_fields: { B: b },
})

/** Resolves, when it has ended, to what its figures say that isn't so. Each of its rows is an operation from then on. */
async function runImport(
  service: Service,
  path: string,
  turn: number,
  random: Random,
  operations: Map<string, Operation<Raced>[]>,
): Promise<string[]> {
  const deactivates = turn % 2 === 0
  const absent = new Set(random.some(raced, deactivates ? 0.6 : 0.1))
  const made = addresses
    .filter((email) => !absent.has(email))
    .map((email): [string, RacingRow] => {
      const isRaced = raced.includes(email)
      const status = isRaced
        ? random.oneOf([null, null, 'active', 'unsubscribed', 'deactivated'] as const)
        : null
      const confirmed = isRaced ? random.oneOf([null, true, false]) : null
      return [email, { a: turn, status, confirmed }]
    })
  const statuses = subscriberStatuses.map((status) => [status, random.chance(0.75)])
  const options = {
    overwrite: turn % 4 !== 3,
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
    const what = `import ${turn} ${JSON.stringify(row)}: ${kind}`
    operations.get(email)!.push({ what, from, to, after: effectOfRow(row, kind, options, to) })
  }
  for (const email of absent) {
    const isDeactivated = kinds.get(email) === 'deactivated'
    if (!isDeactivated && kinds.has(email)) problems.push(`${email} is in no record and ${kinds.get(email)}`)
    if (!deactivates && isDeactivated) problems.push(`${email} was deactivated`)
    const what = `import ${turn} without it: ${isDeactivated ? 'deactivated' : 'left alone'}`
    const after = effectOfDeactivation(isDeactivated, from)
    if (deactivates) operations.get(email)!.push({ what, from, to, after })
  }
  return problems
}

async function retriedBatches({ processes }: Service): Promise<number> {
  const text = await (await fetch(processes.engine!.ready.metrics['engine']!)).text()
  const samples = text.matchAll(/^rollcall_import_batch_retries_total\{[^}]*\} (\d+)$/gm)
  return [...samples].reduce((sum, [, count]) => sum + Number(count), 0)
}

/** As the API shows it, as far as the race looks at it. */
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
