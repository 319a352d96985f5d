import { Agent, request } from 'node:http'
import t from 'tap'
import { IdAllocators } from '../../shared/runtime/id-allocator.ts'
import type { AutoresponderDocument } from '../../shared/contract/schemas/autoresponder.ts'
import { readDueQueues, type OutboxScope } from '../../shared/store/outbox.ts'
import { autoresponder } from '../helpers/autoresponder.ts'
import { growthSince } from '../helpers/metric-value.ts'
import { storedReaction } from '../helpers/stored-reaction.ts'
import {
  basic,
  callerOf,
  controlPlaneOrigin,
  createList,
  importText,
  startService,
  until,
  type Json,
} from '../helpers/service.ts'

/** From a queued reaction to a mail that a sender takes, and what takes mails back. */

t.setTimeout(300_000)
const service = await startService(t, ['control-plane', 'engine'])
const { collections } = service
let lastAutoresponder = 0

async function addAutoresponder(
  listId: number,
  fields: Partial<AutoresponderDocument> = {},
): Promise<AutoresponderDocument> {
  lastAutoresponder += 1
  const document = autoresponder({
    _id: lastAutoresponder,
    mailing_list_id: listId,
    name: `Autoresponder ${lastAutoresponder}`,
    content_subject: `Subject ${lastAutoresponder}`,
    content_text: 'Hello %%First name%%',
    ...fields,
  })
  await collections.autoresponders.insertOne(document)
  return document
}

/** Gives content as a request does. */
async function giveContent(listId: number, id: number): Promise<void> {
  const { body } = await service.call('PUT', `/mailing_lists/${listId}/autoresponders/${id}`, {
    autoresponder: { content_text: 'Hello', content_subject: 'Hello' },
  })
  if (body.success !== true) throw new Error(body.error_message)
}

async function pause(listId: number, id: number, paused: boolean): Promise<void> {
  const { body } = await service.call('PUT', `/mailing_lists/${listId}/autoresponders/${id}`, {
    autoresponder: { paused },
  })
  if (body.success !== true) throw new Error(body.error_message)
}

const subscribe = (listId: number, email: string, more: object = {}): Promise<Json> =>
  service.post(`/mailing_lists/${listId}/subscribers`, { subscriber: { email, ...more } })
const setStatus = async (subscriber: Json, status: string, more: object = {}): Promise<void> => {
  const { mailing_list_id: listId, id } = subscriber
  const { body } = await service.call('PUT', `/mailing_lists/${listId}/subscribers/${id}`, {
    subscriber: { status, ...more },
  })
  if (body.success !== true) throw new Error(body.error_message)
}
const reactionsOf = (listId: number, query = ''): Promise<Json[]> =>
  service.get(`/mailing_lists/${listId}/reactions${query}`)
const statesOf = async (listId: number, query = ''): Promise<string[]> =>
  (await reactionsOf(listId, query)).map((reaction) => reaction.state)
const untilStates = (listId: number, states: string[]): Promise<string[]> =>
  until(
    `states ${states.join(', ')}`,
    () => statesOf(listId),
    (found) => found.join() === states.join(),
    40_000,
  )
const take = (outbox: object = { limit: 1000 }): Promise<Json[]> => service.post('/outbox/take', { outbox })
const acknowledge = (messages: Json[]): Promise<Json> =>
  service.post('/outbox/acknowledge', {
    outbox: { messages: messages.map(({ id, lease_token }) => ({ id, lease_token })) },
  })
const endLeases = () =>
  collections.reactions.updateMany({ lease: { $exists: true } }, { $set: { available_at: new Date(0) } })

t.test('an autoresponder without content puts nothing out, and its reactions are dropped', async (t) => {
  const list = await createList(service)
  await addAutoresponder(list.id, { content_text: ' \n', content_html: null })
  const emptied = await addAutoresponder(list.id)
  await pause(list.id, emptied._id, true)
  await subscribe(list.id, 'ann@example.com')
  await untilStates(list.id, ['dropped', 'held'])
  await collections.autoresponders.updateOne({ _id: emptied._id }, { $set: { content_text: null } })
  await pause(list.id, emptied._id, false)
  await untilStates(list.id, ['dropped', 'dropped'])
  t.same(await statesOf(list.id, '?state=dropped'), ['dropped', 'dropped'])
  t.same(await statesOf(list.id, '?state=queued,due,held'), [])
  await giveContent(list.id, emptied._id)
  t.same(await statesOf(list.id), ['dropped', 'dropped'], 'content that comes later brings none back')
  t.same(await take(), [])
  const [first] = await collections.reactions.find({ mailing_list_id: list.id }).toArray()
  t.equal(first!.state, 'dropped', 'a take drops them for good')
})

t.test('a reaction becomes a message at its time, and is taken, acknowledged and gone', async (t) => {
  const list = await createList(service, [{ name: 'First name', field_type: 'text' }])
  const atOnce = await addAutoresponder(list.id, {
    from_email: 'news@example.com',
    reply_to: 'r@example.com',
  })
  const later = await addAutoresponder(list.id, {
    delay: 'with_delay',
    delay_amount: 2,
    delay_unit: 'hours',
  })
  const ann = await subscribe(list.id, 'ann@example.com', { custom_fields: { 'First name': 'Ann' } })
  await untilStates(list.id, ['due', 'queued'])
  const [first, second] = await reactionsOf(list.id)
  t.match(first, { autoresponder_id: atOnce._id, subscriber_id: ann.id, import_id: null })
  t.equal(second.autoresponder_id, later._id)
  t.equal(Date.parse(second.due_at) - Date.parse(first.due_at), 2 * 3_600_000)
  const noted = await collections.autoresponders.findOne({ _id: later._id })
  t.ok(noted!.triggered_at, 'the autoresponder was triggered')

  const [message, ...others] = await take()
  t.same(others, [])
  t.match(message, {
    id: first.id,
    kind: 'autoresponder',
    organization_id: 1,
    mailing_list_id: list.id,
    autoresponder_id: atOnce._id,
    to: 'ann@example.com',
    subscriber: { id: ann.id, custom_fields: { 'First name': { value: 'Ann' } } },
    from_email: 'news@example.com',
    reply_to: 'r@example.com',
    subject: atOnce.content_subject,
    format: 'both',
    text: 'Hello %%First name%%',
    html: null,
    fields: {},
    raw_fields: {},
    confirmation_url: null,
    due_at: first.due_at,
  })
  t.same(await take(), [], 'no other sender gets it')
  t.same(await acknowledge([{ id: message.id, lease_token: 'wrong' }]), {
    acknowledged: 0,
    stale: [message.id],
  })
  const old = { id: message.id, lease_token: 'old' }
  t.match(await acknowledge([message, old]), { acknowledged: 1 }, 'an old token beside the valid one')
  t.same(await acknowledge([message]), { acknowledged: 0, stale: [message.id] }, 'a used token')
  t.same(await statesOf(list.id), ['sent', 'queued'])
  t.same(await statesOf(list.id, '?state=sent,held'), ['sent'])
  t.same(await statesOf(list.id, `?autoresponder_id=${later._id}`), ['queued'])
  t.same(await statesOf(list.id, `?subscriber_id=${ann.id}&state=queued`), ['queued'])
  t.same(await statesOf(list.id, `?subscriber_id=${Number(ann.id) + 1}`), [])

  const unwrapped = { token: message.unsubscribe_token, ip: '192.0.2.9' }
  const unsubscribed = await service.post('/subscribers/unsubscribe', unwrapped)
  t.match(unsubscribed, { id: ann.id, status: 'unsubscribed', remove_ip: '192.0.2.9' })
  t.same(await statesOf(list.id), ['sent', 'dropped'])
})

t.test(
  'a paused autoresponder delays its mails, in the outbox too, and they come when it is unpaused',
  async (t) => {
    const list = await createList(service)
    const { _id: id } = await addAutoresponder(list.id)
    await subscribe(list.id, 'before@example.com')
    await untilStates(list.id, ['due'])
    await pause(list.id, id, true)
    await subscribe(list.id, 'meanwhile@example.com')
    t.same(await statesOf(list.id), ['held', 'held'])
    t.same(await statesOf(list.id, '?state=queued,due'), [])
    t.same(await take(), [])
    const isOpen = async (scope: OutboxScope) =>
      (await readDueQueues(collections, scope, new Date())).open.some(({ queue }) => queue === id)
    const scopes = ['all', { organizationId: 1 }] as const
    t.same(await Promise.all(scopes.map(isOpen)), [false, false], 'no caller searches what is paused')
    await pause(list.id, id, false)
    t.same(await Promise.all(scopes.map(isOpen)), [true, true])
    await untilStates(list.id, ['due', 'due'])
    const messages = await take()
    t.same(
      messages.map(({ to }) => to),
      ['before@example.com', 'meanwhile@example.com'],
    )
    t.match(await acknowledge(messages), { acknowledged: 2 })
  },
)

t.test('a subscriber who left gets no mail, not even after coming back', async (t) => {
  const list = await createList(service)
  const paused = await addAutoresponder(list.id, { paused: true })
  const subscribers = [
    await subscribe(list.id, 'leaves@example.com'),
    await subscribe(list.id, 'is-deleted@example.com'),
    await subscribe(list.id, 'stays@example.com'),
    await subscribe(list.id, 'leaves-by-import@example.com'),
    await subscribe(list.id, 'is-deactivated@example.com'),
  ]
  const [leaves, isDeleted] = subscribers
  await setStatus(leaves, 'bounced')
  t.equal((await reactionsOf(list.id))[0].state, 'dropped')
  await setStatus(leaves, 'active', { run_autoresponders: true })
  t.same(
    await statesOf(list.id, `?subscriber_id=${leaves.id}`),
    ['dropped', 'held'],
    'only the new one counts',
  )

  // As if its transaction had not seen that the subscriber left.
  await collections.reactions.updateOne(
    { id: (await reactionsOf(list.id))[0].id },
    { $set: { state: 'queued' } },
  )
  await service.call('DELETE', `/mailing_lists/${list.id}/subscribers/${isDeleted.id}`)
  t.same(await reactionsOf(list.id, `?subscriber_id=${isDeleted.id}`), [])
  const view = await importText(
    service,
    list.id,
    'leaves-by-import@example.com,unsubscribed\nleaves@example.com,\nstays@example.com,\n',
    {
      column_mapping: ['email', 'status'],
      file_format: { csv_has_headers: false },
      overwrite: true,
      overwrite_what: { status: true },
      deactivate_subscribers_not_in_import: true,
    },
  )
  t.equal(view.state, 'finished')
  t.same(await statesOf(list.id, `?autoresponder_id=${paused._id}`), [
    'held',
    'held',
    'dropped',
    'dropped',
    'held',
  ])
  await pause(list.id, paused._id, false)
  await untilStates(list.id, ['due', 'due', 'dropped', 'dropped', 'due'])
  const messages = await take()
  t.same(messages.map(({ to }) => to).sort(), ['leaves@example.com', 'stays@example.com'])
  t.same(await statesOf(list.id, `?subscriber_id=${leaves.id}`), ['dropped', 'due'])

  await setStatus(subscribers[2], 'unsubscribed')
  t.equal((await acknowledge(messages)).acknowledged, 2, 'what was handed out already counts')
  t.same(await statesOf(list.id), ['dropped', 'sent', 'dropped', 'dropped', 'sent'])
})

t.test('an expired token counts although another message was taken since', async (t) => {
  const list = await createList(service)
  await addAutoresponder(list.id)
  for (const email of ['a@example.com', 'b@example.com']) await subscribe(list.id, email)
  await untilStates(list.id, ['due', 'due'])
  const both = await take()
  await endLeases()
  const [again] = await take({ limit: 1 })
  const expired = both.filter(({ id }) => id !== again.id)
  t.same(await acknowledge(expired), { acknowledged: 1, stale: [] })
  t.same(await acknowledge([again]), { acknowledged: 1, stale: [] })
})

t.test('a lease that runs out is the next taker’s, and its token counts until then', async (t) => {
  const list = await createList(service)
  await addAutoresponder(list.id)
  for (const email of ['a@example.com', 'b@example.com']) await subscribe(list.id, email)
  await untilStates(list.id, ['due', 'due'])
  const [first, second] = await take({ limit: 10, lease_seconds: 10 })
  await endLeases()
  t.match(await acknowledge([first]), { acknowledged: 1, stale: [] })
  const [again, ...others] = await take()
  t.same(others, [])
  t.equal(again.id, second.id)
  t.not(again.lease_token, second.lease_token)
  t.same(await acknowledge([second]), { acknowledged: 0, stale: [second.id] })
  t.match(await acknowledge([again]), { acknowledged: 1, stale: [] })
  t.same(await statesOf(list.id), ['sent', 'sent'])
})

t.test('an organization takes its own mails, by due time; a system admin takes all', async (t) => {
  const { id: organizationId } = await service.post('/organizations', {
    organization: { name: 'Other', time_zone_name: 'Asia/Kathmandu' },
  })
  const { key } = await service.post(`/organizations/${organizationId}/api_keys`, {
    api_key: { name: 'admin', role: 'organization_admin' },
  })
  const other = await createList(service, [], { organization_id: organizationId })
  const own = await createList(service)
  const now = Date.now()
  const responders = await Promise.all([
    addAutoresponder(own.id),
    addAutoresponder(other.id, { organization_id: organizationId }),
    addAutoresponder(other.id, { organization_id: organizationId }),
  ])
  for (const listId of [own.id, other.id])
    for (const status of ['unsubscribed', 'active'])
      await subscribe(listId, `${status}@example.com`, { status })
  await collections.reactions.deleteMany({ mailing_list_id: { $in: [own.id, other.id] } })
  // One and the same subscriber, nine times, in no order.
  for (const [i, { _id, mailing_list_id: listId }] of [
    ...responders,
    ...responders,
    ...responders,
  ].entries()) {
    const subscriber = await collections.subscribers.findOne({ mailing_list_id: listId, status: 'active' })
    await queue(1, {
      autoresponderId: _id,
      listId,
      subscriberId: subscriber!.id,
      dueAt: new Date(now - 10_000 * ((i * 5) % 9)),
    })
  }
  const asOther = (path: string, outbox: object) => service.call('POST', path, { outbox }, { key })
  const theirs = (await asOther('/outbox/take', { limit: 3 })).body.data
  t.equal(theirs.length, 3)
  t.ok(theirs.every((message: Json) => message.organization_id === organizationId))
  t.match(theirs[0].due_at, /\+05:45$/)
  const all = [...theirs, ...(await take())]
  t.equal(all.length, 9)
  const times = all.slice(3).map((message) => Date.parse(message.due_at))
  t.same(
    times,
    times.toSorted((a, b) => a - b),
  )
  const [first] = all.filter((message) => message.organization_id === 1)
  t.same(
    (await asOther('/outbox/acknowledge', { messages: [{ id: first.id, lease_token: first.lease_token }] }))
      .body.data,
    { acknowledged: 0, stale: [first.id] },
  )
  t.match(await acknowledge(all), { acknowledged: 9 })
})

async function queue(
  amount: number,
  reaction: { autoresponderId: number; listId: number; subscriberId?: number; dueAt: Date },
): Promise<void> {
  const firstId = await new IdAllocators(collections).allocate('reaction', amount)
  const { organization_id } = (await collections.autoresponders.findOne({ _id: reaction.autoresponderId }))!
  const documents = Array.from({ length: amount }, (_, i) =>
    storedReaction({
      id: firstId + i,
      organization_id,
      mailing_list_id: reaction.listId,
      autoresponder_id: reaction.autoresponderId,
      subscriber_id: reaction.subscriberId ?? 1_000_000 + firstId + i,
      due_at: reaction.dueAt,
    }),
  )
  await collections.reactions.insertMany(documents)
}

/** An organization with an admin's key and messages that are ready. */
async function organizationWithMessages(name: string, amount: number): Promise<{ id: number; key: string }> {
  const { id } = await service.post('/organizations', { organization: { name } })
  const { key } = await service.post(`/organizations/${id}/api_keys`, {
    api_key: { name: 'admin', role: 'organization_admin' },
  })
  const list = await createList(service, [], { organization_id: id })
  const responder = await addAutoresponder(list.id, { organization_id: id })
  const { id: subscriberId } = await subscribe(list.id, 'ann@example.com', { skip_autoresponders: true })
  await queue(amount, { autoresponderId: responder._id, listId: list.id, subscriberId, dueAt: new Date(0) })
  return { id, key }
}

/** Has a transaction write these messages, so that a take of them waits. Resolves to what ends it. */
async function lockMessages(organizationId: number): Promise<() => Promise<void>> {
  const session = service.client.startSession()
  session.startTransaction()
  await collections.reactions.updateMany(
    { organization_id: organizationId },
    { $set: { import_id: 1 } },
    { session },
  )
  return async () => {
    await session.abortTransaction()
    await session.endSession()
  }
}

/** A take on a connection of its own. `answered` has null for the status when the connection was closed before. */
function takeAlone(key: string, limit: number) {
  const { http } = service.processes['control-plane']!.ready
  const sent = request(`${http}/svc/api/v2/outbox/take`, {
    method: 'POST',
    agent: new Agent(),
    headers: { authorization: basic(`api:${key}`), 'content-type': 'application/json' },
  })
  const answered = new Promise<{ status: number | null; retryAfter: string | undefined }>((resolve) => {
    sent.on('error', () => resolve({ status: null, retryAfter: undefined }))
    sent.on('response', (response) => {
      response.resume().on('close', () => {
        resolve({ status: response.statusCode!, retryAfter: response.headers['retry-after'] })
      })
    })
  })
  sent.end(JSON.stringify({ outbox: { limit } }))
  return { answered, drop: () => sent.destroy() }
}

t.test('five hundred takes of one organization delay no other, and are bounded', async (t) => {
  const greedy = await organizationWithMessages('Greedy', 60)
  const other = await organizationWithMessages('Patient', 30)
  const letGo = await lockMessages(greedy.id)

  let answered = 0
  const answers = Array.from({ length: 500 }, async () => {
    const answer = await takeAlone(greedy.key, 1).answered
    answered += 1
    return answer
  })
  const [running, waiting] = [1, 50]
  await until(
    'the refusals',
    async () => answered,
    (count) => count >= 500 - running - waiting,
    60_000,
  )
  t.equal((await takeAlone(other.key, 1).answered).status, 200, 'another organization is answered meanwhile')
  t.equal(answered, 500 - running - waiting)
  await letGo()

  const ends = await Promise.all(answers)
  t.equal(ends.filter(({ status }) => status === 200).length, running + waiting)
  const refused = ends.filter(({ status }) => status !== 200)
  t.same([...new Set(refused.map(({ status, retryAfter }) => `${status} ${retryAfter}`))], ['429 5'])
  await collections.reactions.deleteMany({ organization_id: { $in: [greedy.id, other.id] } })
})

t.test('takes whose clients have gone take nothing', async (t) => {
  const { key, id } = await organizationWithMessages('Gone', 60)
  const letGo = await lockMessages(id)
  const growth = await growthSince(`${controlPlaneOrigin(service)}/metrics`)
  const inFlight = () => growth('rollcall_http_requests_in_flight')
  const takes = Array.from({ length: 40 }, () => takeAlone(key, 1))
  await until('all takes', inFlight, (count) => count === takes.length)
  for (const { drop } of takes) drop()
  await until('their ends', inFlight, (count) => count === 0)
  await letGo()
  const { body } = await service.call('POST', '/outbox/take', { outbox: { limit: 1000 } }, { key })
  t.equal(body.data.length, 60)
  await collections.reactions.deleteMany({ organization_id: id })
})

t.test('a confirmation has its form’s texts and the link', async (t) => {
  const list = await createList(service)
  const form = await service.post(`/mailing_lists/${list.id}/confirmation_forms`, {
    confirmation_form: { name: 'Form', from_email: 'forms@example.com' },
  })
  for (const email of ['asks@example.com', 'is-confirmed@example.com'])
    await subscribe(list.id, email, { confirmation_form_id: form.id })
  const { token } = (await collections.pendingSubscribers.findOne({ _id: `${list.id}:asks@example.com` }))!
  await collections.pendingSubscribers.deleteOne({ _id: `${list.id}:is-confirmed@example.com` })
  const [message, ...others] = await take()
  t.same(others, [], 'no take waits for the other one')
  t.match(message, {
    kind: 'confirmation',
    autoresponder_id: null,
    to: 'asks@example.com',
    subscriber: null,
    from_email: 'forms@example.com',
    subject: form.subject,
    html: form.html,
    unsubscribe_token: null,
    confirmation_url: `${service.processes['control-plane']!.ready.http}/confirm/${token}`,
  })
  t.match(await acknowledge([message]), { acknowledged: 1 })
})

t.test('a list that became a Remote List delays no other list', async (t) => {
  const [remote, other] = [await createList(service), await createList(service)]
  for (const list of [remote, other]) {
    await addAutoresponder(list.id)
    await subscribe(list.id, 'due@example.com')
    await untilStates(list.id, ['due'])
  }
  await service.call('PUT', `/mailing_lists/${remote.id}`, { mailing_list: { is_remote_list: true } })
  const messages = await take()
  t.same(
    messages.map(({ mailing_list_id: listId }) => listId),
    [remote.id, other.id],
  )
  await acknowledge(messages)
})

t.test('a reply ends at 8 MB, and the rest is there for the next', async (t) => {
  const list = await createList(service)
  // In JSON each of these characters has six.
  await addAutoresponder(list.id, { content_html: '\u0001'.repeat(400_000) })
  for (let i = 0; i < 5; i += 1) await subscribe(list.id, `large-${i}@example.com`)
  await untilStates(list.id, Array<string>(5).fill('due'))
  const [first, second] = [await take(), await take()]
  t.same([first.length, second.length], [3, 2])
  t.same(await acknowledge([...first, ...second]), { acknowledged: 5, stale: [] })
})

t.test('takers in two processes share out what there is, also when one of them is killed', async (t) => {
  const list = await createList(service)
  const [one, two] = [await addAutoresponder(list.id), await addAutoresponder(list.id)]
  const { id: subscriberId } = await subscribe(list.id, 'ann@example.com', { skip_autoresponders: true })
  const amount = 600
  for (let part = 0; part < 10; part += 1)
    for (const { _id } of [one, two])
      await queue(amount / 20, {
        autoresponderId: _id,
        listId: list.id,
        subscriberId,
        dueAt: new Date(Date.now() - part * 1_000),
      })
  const own = service.processes['control-plane']!
  const doomed = await service.start('control-plane')
  service.processes['control-plane'] = own
  const taken: Json[] = []
  const acknowledged = new Set<number>()
  const takeAll = async (http: string): Promise<void> => {
    const call = callerOf(() => http)
    for (;;) {
      const { body } = await call('POST', '/outbox/take', { outbox: { limit: 30 } })
      if (body.data.length === 0) return
      taken.push(...body.data)
      const times = body.data.map((message: Json) => Date.parse(message.due_at))
      t.same(
        times,
        times.toSorted((a: number, b: number) => a - b),
      )
      const messages = body.data.map(({ id, lease_token }: Json) => ({ id, lease_token }))
      const reply = await call('POST', '/outbox/acknowledge', { outbox: { messages } })
      t.equal(reply.body.data.acknowledged, messages.length)
      for (const { id } of messages) acknowledged.add(id)
      if (acknowledged.size > amount / 3) void doomed.stop('SIGKILL')
    }
  }
  const takers = [own, own, own, doomed, doomed, doomed].map(({ ready }) => takeAll(ready.http!))
  const ends = await Promise.allSettled(takers)
  t.same(
    ends.slice(0, 3).filter(({ status }) => status === 'rejected'),
    [],
  )
  t.equal(new Set(taken.map(({ id }) => id)).size, taken.length, 'no two takes got the same mail')
  await endLeases()
  await takeAll(own.ready.http!)
  const states = await collections.reactions
    .aggregate([{ $match: { mailing_list_id: list.id } }, { $group: { _id: '$state', n: { $sum: 1 } } }])
    .toArray()
  t.same(states, [{ _id: 'sent', n: amount }])
})

t.test(
  'mails that wait cost nothing, whether their autoresponder is paused or they are due in a year',
  async (t) => {
    const list = await createList(service)
    const many = 10_000
    const paused = await addAutoresponder(list.id, { paused: true })
    const inAYear = await addAutoresponder(list.id)
    const running = await addAutoresponder(list.id)
    await queue(many, { autoresponderId: paused._id, listId: list.id, dueAt: new Date(0) })
    await queue(many, {
      autoresponderId: inAYear._id,
      listId: list.id,
      dueAt: new Date(Date.now() + 365 * 86_400_000),
    })
    await queue(10, { autoresponderId: running._id, listId: list.id, dueAt: new Date() })
    const listDue = (more = '') =>
      service.call('GET', `/mailing_lists/${list.id}/reactions?state=due&per_page=4${more}`)
    const page = await listDue()
    t.equal(page.body.data.length, 4)
    t.match(page.body, { num_records: 10, num_pages: 3 })
    const next = await listDue(`&page_token=${encodeURIComponent(page.body.next_page_token)}`)
    t.ok(next.body.data[0].id > page.body.data[3].id)
    await service.db.command({ profile: 2 })
    t.same(await take(), [], 'their subscribers do not exist')
    await service.db.command({ profile: 0 })
    const queries = await service.db
      .collection('system.profile')
      .find({ ns: `${service.db.databaseName}.reactions`, op: { $ne: 'insert' } })
      .toArray()
    t.ok(queries.length > 0)
    t.same(
      queries.filter((query) => query['keysExamined'] > 200 || query['docsExamined'] > 50),
      [],
      'no query goes over what waits',
    )
    t.equal(
      (await service.call('GET', `/mailing_lists/${list.id}/reactions?page=2&per_page=9000`)).body.data
        .length,
      500,
    )
  },
)
