import t from 'tap'
import { autoresponder } from '../../helpers/autoresponder.ts'
import { createList, type Json } from '../../helpers/service.ts'
import { service } from './service.ts'

/** The way from the request to confirm, over the mail in the outbox, to the visit of its link. */

const { call, post, collections } = service
const base = service.processes['control-plane']!.ready.http!

const visit = (token: string, options: RequestInit = {}) => fetch(`${base}/confirm/${token}`, options)
const pageOf = async (token: string): Promise<string> => (await visit(token)).text()
const neutral = await pageOf('x'.repeat(32))

async function listWithForm(
  fields: unknown[] = [],
  list: object = {},
): Promise<{ id: number; form: number }> {
  const { id } = await createList(service, fields, { ...list })
  const form = await post(`/mailing_lists/${id}/confirmation_forms`, { confirmation_form: { name: 'Form' } })
  return { id, form: form.id }
}

interface Asked {
  token: string
  message_id: number
}

/** Asks a new subscriber to confirm. */
async function ask(list: { id: number; form: number }, email: string, more: object = {}): Promise<Asked> {
  const { body } = await call('POST', `/mailing_lists/${list.id}/subscribers`, {
    subscriber: { email, ...more },
    confirmation_form_id: list.form,
  })
  t.match(body, { success: true, data: null })
  return (await pendingOf(list.id, email))!
}

const pendingOf = (listId: number, email: string) =>
  collections.pendingSubscribers.findOne({ mailing_list_id: listId, 'subscriber.email': email })
const subscribersOf = async (listId: number): Promise<Json[]> =>
  (await call('GET', `/mailing_lists/${listId}/subscribers`)).body.data
const mailsOf = async (listId: number): Promise<number[]> => {
  const filter = { mailing_list_id: listId, pending_subscriber: { $exists: true } }
  return (await collections.reactions.find(filter).sort({ id: 1 }).toArray()).map(({ id }) => id)
}
/** Makes the mail older by `seconds`. */
const age = (listId: number, seconds: number) =>
  collections.pendingSubscribers.updateMany({ mailing_list_id: listId }, [
    {
      $set: {
        mailed_at: { $subtract: ['$mailed_at', seconds * 1_000] },
        expires_at: { $subtract: ['$expires_at', seconds * 1_000] },
      },
    },
  ])

let lastAutoresponder = 0

/** A list with two autoresponders and a required field, and a subscriber who has been asked to confirm. */
async function askedSubscriber() {
  const list = await listWithForm(
    [
      { name: 'Name', field_type: 'text', required: true },
      { name: 'Plan', field_type: 'text', default: 'free' },
    ],
    { has_confirmed: true, has_format: true },
  )
  const responders = ['Welcome', 'Tips'].map((name) => {
    lastAutoresponder += 1
    return autoresponder({ _id: lastAutoresponder, mailing_list_id: list.id, name })
  })
  await collections.autoresponders.insertMany(responders)
  const asked = await ask(list, 'Ann@example.com', {
    email_format: 'text',
    subscribe_time: '2020-01-01T00:00Z',
    subscribe_ip: '192.0.2.1',
    custom_fields: { Name: 'Ann' },
    apply_custom_field_defaults: true,
    autoresponder_filter: 'wel*',
  })
  return { list, asked, welcomeId: responders[0]?._id }
}

const pageHeaders = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-robots-tag': 'noindex',
  'x-content-type-options': 'nosniff',
}

t.test(
  'the mail with the link waits in the outbox, and only a GET of the link adds the subscriber',
  async (t) => {
    const { list, asked } = await askedSubscriber()
    t.match(await collections.reactions.find({ mailing_list_id: list.id }).toArray(), [
      {
        id: asked.message_id,
        organization_id: 1,
        autoresponder_id: -1,
        subscriber_id: null,
        pending_subscriber: `${list.id}:ann@example.com`,
        state: 'queued',
      },
    ])
    t.same(await mailsOf(list.id), [asked.message_id])

    const head = await visit(asked.token, { method: 'HEAD' })
    t.equal(head.status, 200)
    t.same(await subscribersOf(list.id), [], 'a HEAD request adds no subscriber')
    const post405 = await visit(asked.token, { method: 'POST', body: '{}' })
    t.same([post405.status, post405.headers.get('allow')], [405, 'GET, HEAD'])
    t.match(post405.headers.get('content-type'), /^application\/json/)
    t.same(await subscribersOf(list.id), [], 'nor does a POST')
  },
)

t.test('a visit of the link shows a page that no cache, search engine or frame keeps', async (t) => {
  const { asked } = await askedSubscriber()
  const reply = await visit(`${asked.token}?utm_source=mail`)
  t.equal(reply.status, 200)
  t.match(await reply.text(), /<h1>Your subscription is confirmed<\/h1>/)
  t.match(Object.fromEntries(reply.headers), pageHeaders)
  t.match(
    reply.headers.get('content-security-policy'),
    /^default-src 'none';frame-ancestors 'none';style-src 'sha256-[\w+/]+=*';base-uri 'none';form-action 'none'$/,
  )
})

t.test('a visit of the link adds the subscriber, with the time and the address of the visit', async (t) => {
  const { list, asked, welcomeId } = await askedSubscriber()
  const before = Math.floor(Date.now() / 1_000)
  const reply = await visit(`${asked.token}?utm_source=mail`, {
    headers: { 'X-Forwarded-For': '203.0.113.9, 2001:DB8:0::7' },
  })
  t.equal(reply.status, 200)
  const [added, ...others] = await subscribersOf(list.id)
  t.same(others, [])
  t.match(added, {
    email: 'Ann@example.com',
    status: 'active',
    email_format: 'text',
    subscribe_ip: '2001:db8::7',
    confirmed: true,
    remove_time: null,
  })
  t.ok(added.subscribe_time_epoch >= before, 'the time of the visit')
  t.same([added.confirm_time, added.created_at], [added.subscribe_time, added.subscribe_time])
  t.same([added.custom_fields.Name.value, added.custom_fields.Plan.value], ['Ann', 'free'])
  const reactions = await collections.reactions.find({ mailing_list_id: list.id }).toArray()
  t.match(reactions, [{ autoresponder_id: welcomeId, subscriber_id: added.id, state: 'queued' }])
  t.equal(reactions.length, 1)
  t.same(await mailsOf(list.id), [], 'the mail is needed no more')
  t.equal(await pageOf(asked.token), neutral, 'a second visit finds nothing to do')
  t.equal(await collections.subscribers.countDocuments({ mailing_list_id: list.id }), 1)
  t.notOk(service.processes['control-plane']!.log().includes(asked.token), 'tokens are not logged')
})

t.test('every visit that adds no subscriber shows the same page, byte for byte', async (t) => {
  const organization = await post('/organizations', { organization: { name: 'Full', subscriber_limit: 1 } })
  const list = await listWithForm([], { organization_id: organization.id })
  const expired = await ask(list, 'late@example.com')
  await age(list.id, 7 * 24 * 3_600 + 1)
  const taken = await ask(list, 'taken@example.com')
  const full = await ask(list, 'full@example.com')
  await post(`/mailing_lists/${list.id}/subscribers`, { subscriber: { email: 'taken@example.com' } })
  const headers = new Set<string>()
  const tokens = [
    expired.token,
    taken.token,
    full.token,
    'x',
    'x'.repeat(5_000),
    `${full.token}%00`,
    `%2e${full.token.slice(1)}`,
    '%zz',
    '$gt',
    '[object Object]',
  ]
  for (const token of tokens) {
    const startedAt = performance.now()
    const reply = await visit(token)
    t.equal(reply.status, 200)
    t.equal(await reply.text(), neutral)
    t.ok(performance.now() - startedAt > 90, 'none of them is told by how soon it comes')
    headers.add([...reply.headers].filter(([name]) => !['date', 'x-request-id'].includes(name)).join('\n'))
  }
  t.equal(headers.size, 1)
  t.equal((await subscribersOf(list.id)).length, 1)
  t.equal((await visit('')).status, 404)
  t.equal((await visit('a/b')).status, 404)

  await call('DELETE', `/mailing_lists/${list.id}/subscribers/taken@example.com`)
  t.not(await pageOf(full.token), neutral, 'the link is good as soon as there is a place')
  t.match(await subscribersOf(list.id), [{ email: 'full@example.com', status: 'active' }])
})

t.test('a mail goes with its request', async (t) => {
  const list = await listWithForm([{ name: 'Name', field_type: 'text' }])
  const first = await ask(list, 'a@example.com')
  const again = await ask(list, 'a@example.com', { custom_fields: { Name: 'Ann' } })
  t.same([again.token, again.message_id], [first.token, first.message_id], 'no second mail so soon')
  await age(list.id, 601)
  const later = await ask(list, 'a@example.com', { custom_fields: { Name: 'Bea' } })
  t.not(later.token, first.token)
  t.same(await mailsOf(list.id), [later.message_id], 'the old one is taken back')
  await collections.reactions.updateOne(
    { id: later.message_id },
    { $set: { lease: { token: 'x', began_at: new Date() }, available_at: new Date(Date.now() + 300_000) } },
  )
  await age(list.id, 601)
  const last = await ask(list, 'a@example.com', { custom_fields: { Name: 'Cleo' } })
  t.same(await mailsOf(list.id), [later.message_id, last.message_id], 'unless a sender has taken it')
  t.equal(await pageOf(later.token), neutral, 'its link has ended')
  await pageOf(last.token)
  const [added] = await subscribersOf(list.id)
  t.equal(added.custom_fields.Name.value, 'Cleo')
  t.same(await mailsOf(list.id), [later.message_id])

  const racing = await Promise.all(
    Array.from({ length: 6 }, () =>
      call('POST', `/mailing_lists/${list.id}/subscribers`, {
        subscriber: { email: 'b@example.com' },
        confirmation_form_id: list.form,
      }),
    ),
  )
  for (const { body } of racing) t.match(body, { success: true, data: null })
  t.equal(await collections.pendingSubscribers.countDocuments({ mailing_list_id: list.id }), 1)
  const { message_id } = (await pendingOf(list.id, 'b@example.com'))!
  t.same(await mailsOf(list.id), [later.message_id, message_id], 'requests at once send one mail')
})

t.test('visits at once add one subscriber', async (t) => {
  const list = await listWithForm()
  for (let round = 0; round < 8; round += 1) {
    const { token } = await ask(list, `v${round}@example.com`)
    const pages = await Promise.all(Array.from({ length: 5 }, () => pageOf(token)))
    t.equal(pages.filter((page) => page !== neutral).length, 1)
  }
  t.equal((await subscribersOf(list.id)).length, 8)
  const counts = await collections.subscriberCounts.find({ mailing_list_id: list.id }).toArray()
  t.equal(
    counts.reduce((sum, { active }) => sum + active, 0),
    8,
  )
})

t.test('the list may have changed since the request', async (t) => {
  const list = await listWithForm([
    { name: 'Gone', field_type: 'text' },
    { name: 'No', field_type: 'number', required: true },
  ])
  const custom_fields = { Gone: 'x', No: 7 }
  const [gone, number] = (await call('GET', `/mailing_lists/${list.id}/custom_fields`)).body.data
  const first = await ask(list, 'a@example.com', { custom_fields })
  const unsubscribed = await ask(list, 'b@example.com', {
    custom_fields: { No: 8 },
    status: 'unsubscribed',
  })
  const twin = await ask(list, 'c@example.com', { custom_fields })
  await call('DELETE', `/mailing_lists/${list.id}/custom_fields/${gone.id}`)
  await call('PUT', `/mailing_lists/${list.id}`, {
    mailing_list: { has_confirmed: true, has_format: true, primary_key_custom_field_id: number.id },
  })
  t.not(await pageOf(first.token), neutral)
  t.not(await pageOf(unsubscribed.token), neutral)
  t.equal(await pageOf(twin.token), neutral, 'what tells subscribers apart is another field now')
  t.match(await subscribersOf(list.id), [
    { email: 'a@example.com', confirmed: true, email_format: 'both', subscribe_ip: '127.0.0.1' },
    { email: 'b@example.com', status: 'unsubscribed', remove_time: String },
  ])
  const stored = await collections.subscribers.find({ mailing_list_id: list.id }).sort({ _id: 1 }).toArray()
  t.same(
    stored.map(({ _id, email_key, custom_fields: values }) => [_id, email_key, values]),
    [
      [`${list.id}:7`, 'a@example.com', { [number.id]: 7 }],
      [`${list.id}:8`, 'b@example.com', { [number.id]: 8 }],
    ],
  )
})

t.test('a fault asks to try again later, in a page too', async (t) => {
  const list = await listWithForm()
  const { token } = await ask(list, 'a@example.com')
  const [info] = await service.db.listCollections({ name: 'subscribers' }).toArray()
  const { validator } = (info as unknown as { options: { validator: object } }).options
  await service.db.command({ collMod: 'subscribers', validator: { never: { $exists: true } } })
  const reply = await visit(token)
  await service.db.command({ collMod: 'subscribers', validator })
  t.same([reply.status, reply.headers.get('retry-after')], [503, '60'])
  t.match(await reply.text(), /<h1>Please try again later<\/h1>/)
  t.not(await pageOf(token), neutral, 'and then it is as if nothing had been')
})
