import t from 'tap'
import { seededRandom } from '../../../bench/load/random.ts'
import { unsubscribeToken } from '../../../control-plane/api/signed-token.ts'
import { keyHashSecret } from '../../../shared/store/api-keys.ts'
import { importReactionId } from '../../../shared/contract/schemas/autoresponder.ts'
import { autoresponder } from '../../helpers/autoresponder.ts'
import { countsOf, createList, importEnd, type Json } from '../../helpers/service.ts'
import { storedReaction } from '../../helpers/stored-reaction.ts'
import { service } from './service.ts'

/** Side effects of writing single subscribers: counts, the limit, autoresponders, mails that ask to confirm. */

const { call, post, collections } = service

const add = (listId: number, email: string, more: object = {}, beside: object = {}): Promise<Json> =>
  post(`/mailing_lists/${listId}/subscribers`, { ...beside, subscriber: { email, ...more } })
const refusedAdd = async (listId: number, email: string, more: object = {}, beside: object = {}) =>
  (await call('POST', `/mailing_lists/${listId}/subscribers`, { ...beside, subscriber: { email, ...more } }))
    .body
const update = async (
  listId: number,
  id: number | string,
  subscriber: object,
  beside: object = {},
): Promise<Json> =>
  (await call('PUT', `/mailing_lists/${listId}/subscribers/${id}`, { ...beside, subscriber })).body

let nextAutoresponder = 1_000_000
async function addAutoresponder(listId: number, name: string, more: object = {}): Promise<number> {
  const _id = nextAutoresponder++
  await collections.autoresponders.insertOne(autoresponder({ _id, mailing_list_id: listId, name, ...more }))
  return _id
}

/** Autoresponders that are queued for a subscriber, by id. */
async function reactionsTo(subscriberId: number): Promise<number[]> {
  const found = await collections.reactions.find({ subscriber_id: subscriberId }).toArray()
  return found.map((reaction) => reaction.autoresponder_id).sort((a, b) => a - b)
}

async function statusCounts(listId: number): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const stripe of await collections.subscriberCounts.find({ mailing_list_id: listId }).toArray())
    for (const status of ['active', 'bounced', 'unsubscribed', 'scomp', 'deactivated'] as const)
      counts[status] = (counts[status] ?? 0) + stripe[status]
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count !== 0))
}

/** The same, counted one by one. */
async function countedStatuses(listId: number): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const { status } of await collections.subscribers.find({ mailing_list_id: listId }).toArray())
    counts[status] = (counts[status] ?? 0) + 1
  return counts
}

t.test('counts follow every write', async (t) => {
  const list = await createList(service)
  const a = await add(list.id, 'a@example.com')
  await add(list.id, 'b@example.com', { status: 'bounced' })
  t.same(await statusCounts(list.id), { active: 1, bounced: 1 })
  await update(list.id, a.id, { status: 'scomp' })
  await update(list.id, a.id, { email: 'c@example.com', status: 'unsubscribed' })
  await update(list.id, 'nobody@example.com', { status: 'active' })
  await refusedAdd(list.id, 'B@example.com')
  t.same(await statusCounts(list.id), { unsubscribed: 1, bounced: 1 })
  await call('DELETE', `/mailing_lists/${list.id}/subscribers/b@example.com`)
  t.same(await statusCounts(list.id), { unsubscribed: 1 })
})

t.test('no subscriber becomes active beyond the limit', async (t) => {
  const organization = await post('/organizations', { organization: { name: 'Two', subscriber_limit: 2 } })
  const list = await createList(service, [], { organization_id: organization.id })
  const made = await Promise.all(
    Array.from({ length: 8 }, (_, i) => refusedAdd(list.id, `s${i}@example.com`)),
  )
  t.equal(made.filter(({ success }) => success).length, 2, 'two of eight at once')
  for (const refused of made.filter(({ success }) => success !== true))
    t.match(refused, { error_code: 'validation_failed', error_message: /subscriber limit/ })
  const gone = await add(list.id, 'gone@example.com', { status: 'unsubscribed' })
  t.match(await update(list.id, gone.id, { status: 'active', email: 'x@example.com' }), {
    error_code: 'validation_failed',
    error_message: /subscriber limit/,
  })
  t.match(
    (await call('GET', `/mailing_lists/${list.id}/subscribers/${gone.id}`)).body.data[0],
    { email: 'gone@example.com', status: 'unsubscribed' },
    'and nothing else of it was changed',
  )
  const first = made.find(({ success }) => success).data
  t.match(await update(list.id, first.id, { email: 'renamed@example.com' }), { success: true })
  await call('DELETE', `/mailing_lists/${list.id}/subscribers/${first.id}`)
  t.match(await update(list.id, gone.id, { status: 'active' }), { success: true })
  t.same(await statusCounts(list.id), { active: 2 })
})

t.test('on-subscription autoresponders answer an added subscriber unless they are skipped', async (t) => {
  const list = await createList(service)
  const welcome = await addAutoresponder(list.id, 'Welcome')
  const tips = await addAutoresponder(list.id, 'First tips')
  const fromApi = await addAutoresponder(list.id, 'Explicitly from API', { trigger_run_on_api: true })
  await addAutoresponder(list.id, 'Not from API', { trigger_run_on_api: false })
  await addAutoresponder(list.id, 'By API', { trigger: 'api' })
  const all = [welcome, tips, fromApi]
  let next = 0
  const queued = async (more: object) => reactionsTo((await add(list.id, `r${next++}@example.com`, more)).id)
  t.same(await queued({}), all)
  t.same(await queued({ skip_autoresponders: true }), [])
  t.same(await queued({ status: 'unsubscribed' }), [], 'they run for active subscribers only')
  t.same(await queued({ autoresponder_filter: 'welcome' }), [welcome])
  t.same(await queued({ autoresponder_filter: '*API*' }), [fromApi])
  t.same(await queued({ autoresponder_filter: 'F*s' }), [tips])
  t.same(await queued({ autoresponder_filter: 'elcome' }), [])
  t.same(await queued({ autoresponder_exclude_reacted: true }), all, 'a new subscriber has no reactions')

  const { id } = await add(list.id, 'updated@example.com', { autoresponder_filter: 'Welcome' })
  await update(list.id, id, { status: 'active' })
  t.same(await reactionsTo(id), [welcome], 'an update runs none by itself')
  await update(list.id, id, { run_autoresponders: true, autoresponder_exclude_reacted: true })
  t.same(await reactionsTo(id), [welcome], 'one of them has reacted, so none does')
  await update(list.id, id, {
    run_autoresponders: true,
    autoresponder_exclude_reacted: true,
    autoresponder_filter: 'First*',
  })
  t.same(await reactionsTo(id), [welcome, tips])
  await update(list.id, id, {}, { run_autoresponders: true })
  t.same(await reactionsTo(id), [welcome, welcome, tips, tips, fromApi], 'and again')
  await update(list.id, id, { run_autoresponders: true, status: 'bounced' })
  t.equal((await reactionsTo(id)).length, 5)

  const reactions = await collections.reactions.find({ subscriber_id: id }).toArray()
  t.equal(new Set(reactions.map((reaction) => reaction.id)).size, 5)
  t.match(reactions[0], { import_id: null, organization_id: 1, mailing_list_id: list.id })
  t.same(new Set(reactions.map(({ state }) => state)), new Set(['dropped']), 'nothing comes of them any more')
  await update(list.id, id, { email: 'moved@example.com' })
  t.equal((await reactionsTo(id)).length, 5, 'they stay with the subscriber')
  await call('DELETE', `/mailing_lists/${list.id}/subscribers/${id}`)
  t.same(await reactionsTo(id), [], 'they go with the subscriber')
})

t.test('an import that had this subscriber under another email queues no reactions again', async (t) => {
  const list = await createList(service)
  const welcome = await addAutoresponder(list.id, 'Welcome', {
    trigger_include_subscribers_from_import: true,
  })
  const emails = Array.from({ length: 20 }, (_, i) => `m${i}@example.com`)
  const ids: number[] = []
  for (const email of emails) ids.push((await add(list.id, email, { skip_autoresponders: true })).id)
  const created = await post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      begins_at: '2100-01-01T00:00',
      column_mapping: ['email'],
      overwrite: true,
      autoresponders: { subscription: { trigger: true, also_trigger_on_updated_subscribers: true } },
      file_format: { csv_has_headers: false },
      file_source: { type: 'json', content: [...emails, 'added@example.com'].join('\n') },
    },
  })
  // The reaction that the import would have left when it wrote this subscriber the first time.
  await collections.reactions.insertOne(
    storedReaction({
      _id: importReactionId(ids[7]!, welcome, created.id),
      id: 900_000_001,
      mailing_list_id: list.id,
      autoresponder_id: welcome,
      subscriber_id: ids[7]!,
      import_id: created.id,
    }),
  )
  await collections.imports.updateOne({ _id: created.id }, { $set: { begins_at: new Date() } })
  const view = await importEnd(service, created.id, 60_000)
  t.match(view, { state: 'finished', error_message: null })
  t.same(countsOf(view), { added: 1, updated: 20 })
  for (const id of ids) t.same(await reactionsTo(id), [welcome])
})

t.test('the token of a mail unsubscribes its subscriber', async (t) => {
  const secret = await keyHashSecret(collections)
  const list = await createList(service)
  const made = await add(list.id, 'a@example.com')
  const token = unsubscribeToken(secret, { listId: list.id, subscriberId: made.id, messageId: '1' })
  const leave = async (unsubscribe: object) =>
    (await call('POST', '/subscribers/unsubscribe', { unsubscribe })).body
  t.match(await leave({ token, ip: 'x' }), {
    error_code: 'validation_failed',
    error_message: 'ip must be an IPv4 or IPv6 address',
  })
  const left = await leave({ token, ip: '2001:DB8::1' })
  t.match(left, { success: true, data: { id: made.id, status: 'unsubscribed', remove_ip: '2001:db8::1' } })
  t.ok(left.data.remove_time_epoch >= made.created_at_epoch)
  t.same((await leave({ token, ip: '192.0.2.9' })).data, left.data, 'a second time changes nothing')
  t.same(await statusCounts(list.id), { unsubscribed: 1 })
  const bounced = { status: 'bounced', email: 'b@example.com', remove_time: '2020-01-02T03:04:05Z' }
  await update(list.id, made.id, bounced)
  t.match(
    await leave({ token }),
    {
      success: true,
      data: { status: 'unsubscribed', email: 'b@example.com', remove_time_epoch: 1_577_934_245 },
    },
    'one that had left before keeps the time of that',
  )
  for (const bad of ['', 'x', token.slice(0, -1), `${token}x`, '../../..', '\0'])
    t.match(await leave({ token: bad }), { error_code: 'not_found' }, JSON.stringify(bad))
  t.match(await leave({}), { error_code: 'validation_failed', error_message: 'token is required' })
  await call('DELETE', `/mailing_lists/${list.id}/subscribers/${made.id}`)
  t.match(await leave({ token }), { error_code: 'not_found' })
})

/** A list with a required field and a confirmation form, and what requests an addition that waits for a confirmation. */
async function listWithForm() {
  const list = await createList(service, [{ name: 'Name', field_type: 'text', required: true }])
  const path = `/mailing_lists/${list.id}/confirmation_forms`
  const form = await post(path, { confirmation_form: { name: ' Welcome ' } })
  const beside = { confirmation_form_id: form.id }
  const request = (email: string, more: object = {}) =>
    refusedAdd(list.id, email, { custom_fields: { Name: 'Ann' }, ...more }, beside)
  const pending = (email: string) => collections.pendingSubscribers.findOne({ _id: `${list.id}:${email}` })
  return { list, path, form, beside, request, pending }
}

const accepted = { success: true, data: null, error_code: null, error_message: null }

const customForm = {
  name: 'Own',
  from_name: 'Ann',
  from_email: 'ann@example.com',
  subject: 'Yes?',
  html: '%%confirmation_url%%',
  text: 'x %%confirmation_url%%',
}

t.test('a confirmation form has default texts, and is refused without a name or the link', async (t) => {
  const { list, path, form } = await listWithForm()
  t.match(form, { mailing_list_id: list.id, name: 'Welcome', from_name: null, from_email: null })
  for (const key of ['html', 'text']) t.match(form[key], /%%confirmation_url%%/)
  t.match(await post(path, { confirmation_form: customForm }), customForm)
  t.same(
    (await call('GET', path)).body.data.map(({ name }: Json) => name),
    ['Welcome', 'Own'],
  )
  for (const [fault, message] of [
    [{ name: ' ' }, /^name must not be blank$/],
    [{ name: 'x', from_email: 'x' }, /^from_email must be an email address$/],
    [{ name: 'x', html: 'no link' }, /^html must hold/],
  ] as const)
    t.match((await call('POST', path, { confirmation_form: fault })).body, {
      error_code: 'validation_failed',
      error_message: message,
    })
})

t.test('a subscriber that must confirm is pending, not added, until the link is followed', async (t) => {
  const { list, form, request, pending } = await listWithForm()
  t.same(await request('A@example.com'), accepted)
  t.same((await call('GET', `/mailing_lists/${list.id}/subscribers`)).body.data, [])
  const first = (await pending('a@example.com'))!
  t.match(first, { subscriber: { email: 'A@example.com', status: 'active' }, confirmation_form_id: form.id })
  t.match(first.token, /^[\w-]{32}$/)
  t.equal(first.expires_at.getTime() - first.mailed_at.getTime(), 7 * 24 * 3_600_000)
  await request('a@example.com', { custom_fields: { Name: '$token' } })
  const second = (await pending('a@example.com'))!
  t.equal(second.token, first.token, 'the link in the one mail stands for the new request')
  t.same(Object.values(second.subscriber.custom_fields), ['$token'])
  await collections.pendingSubscribers.updateOne(
    { _id: first._id },
    { $set: { mailed_at: new Date(Date.now() - 601_000) } },
  )
  await request('a@example.com')
  t.not((await pending('a@example.com'))!.token, first.token, 'later there is a new mail with a new link')
  t.equal(await collections.pendingSubscribers.countDocuments({ mailing_list_id: list.id }), 1)
})

t.test('a form inside the subscriber outranks the one beside it; null leaves the one beside', async (t) => {
  const { path, form, request, pending } = await listWithForm()
  const { id: customId } = await post(path, { confirmation_form: customForm })
  for (const [inside, by] of [
    [customId, customId],
    [null, form.id],
  ] as const) {
    t.match(await request('a@example.com', { confirmation_form_id: inside }), { success: true, data: null })
    const { confirmation_form_id } = (await pending('a@example.com'))!
    t.equal(confirmation_form_id, by, `${inside} inside, ${form.id} beside`)
  }
  t.match(
    await request('a@example.com', { confirmation_form_id: 9_999_999 }),
    { error_code: 'not_found' },
    'also where the one beside exists',
  )
})

t.test('the subscriber limit refuses no request to confirm: the quota is checked at the visit', async (t) => {
  const { list, request } = await listWithForm()
  await call('PUT', `/organizations/${list.organization_id}`, { organization: { subscriber_limit: 0 } })
  t.match(await request('a@example.com'), { success: true, data: null })
  await call('PUT', `/organizations/${list.organization_id}`, { organization: { subscriber_limit: null } })
})

t.test('a request to confirm is refused for an unknown form, bad values and an added address', async (t) => {
  const { list, beside, request } = await listWithForm()
  const custom_fields = { Name: 'Ann' }
  const other = await createList(service)
  t.match(await refusedAdd(other.id, 'a@example.com', {}, beside), { error_code: 'not_found' })
  t.match(
    await refusedAdd(list.id, 'b@example.com', { custom_fields }, { confirmation_form_id: 9_999_999 }),
    {
      error_code: 'not_found',
    },
  )
  for (const confirmation_form_id of ['1', 0, 1.5, true])
    t.match(await refusedAdd(list.id, 'b@example.com', {}, { confirmation_form_id }), {
      error_code: 'validation_failed',
      error_message: /^confirmation_form_id must/,
    })
  t.match(await refusedAdd(list.id, 'b@example.com', {}, beside), { error_message: /Name is required/ })
  await add(list.id, 'there@example.com', { custom_fields })
  t.match(await request('THERE@example.com'), { error_code: 'validation_failed', error_message: /already/ })
  t.equal(await collections.pendingSubscribers.countDocuments({ mailing_list_id: list.id }), 0)
})

t.test('a list that gets another primary key and its first subscriber at once has one of them', async (t) => {
  for (let round = 0; round < 10; round += 1) {
    const list = await createList(service, [
      { name: 'Key', field_type: 'text', required: true, default: 'k' },
    ])
    const [field] = (await call('GET', `/mailing_lists/${list.id}/custom_fields`)).body.data
    const [changed, ...added] = await Promise.all([
      call('PUT', `/mailing_lists/${list.id}`, { mailing_list: { primary_key_custom_field_id: field.id } }),
      ...['a', 'b', 'c'].map((name) =>
        refusedAdd(list.id, `${name}@example.com`, { custom_fields: { Key: `key-${name}` } }),
      ),
    ])
    const isKeyed = changed.body.success === true
    t.ok(added.every(({ success }) => success))
    const keys = (await collections.subscribers.find({ mailing_list_id: list.id }).toArray()).map(
      ({ _id }) => _id,
    )
    t.same(
      keys.sort(),
      ['a', 'b', 'c'].map((name) => `${list.id}:${isKeyed ? `key-${name}` : `${name}@example.com`}`),
    )
  }
})

/** What requests did, what they last wrote by id (null when they deleted it), and whether the import has ended. */
interface Requests {
  done: Record<'created' | 'changed' | 'renamed' | 'deleted' | 'refused', number>
  last: Map<number, { b: number; email: string } | null>
  isImportOver: boolean
}

/** Creates, changes, renames and deletes subscribers until the import is over, and at least 40 times. */
async function requestWrites(listId: number, rows: number, seed: number, requests: Requests): Promise<void> {
  const { done, last } = requests
  const fraction = seededRandom(seed)
  for (let i = 0; !requests.isImportOver || i < 40; i += 1) {
    const random = Math.floor(fraction() * 2 ** 31)
    // No two requesters share an address, so that each knows what it wrote last.
    const row = (random % (rows / 4)) * 4 + (seed - 1)
    const email = random % 2 === 0 ? `s${row}@example.com` : `moved${row}@example.com`
    const other = random % 2 === 0 ? `moved${row}@example.com` : `s${row}@example.com`
    const b = i * 4 + seed
    const kind = random % 5
    if (kind === 0) {
      const { success, data } = await refusedAdd(listId, email, { custom_fields: { B: b } })
      if (success) last.set(data.id, { b, email })
      done[success ? 'created' : 'refused'] += 1
    } else if (kind === 1) {
      const { success, data } = (await call('DELETE', `/mailing_lists/${listId}/subscribers/${email}`)).body
      if (success) last.set(data.subscriber_ids_removed[0], null)
      done[success ? 'deleted' : 'refused'] += 1
    } else if (kind === 2) {
      const { success, data } = await update(listId, email, { email: other, custom_fields: { B: b } })
      if (success) last.set(data.id, { b, email: other })
      done[success ? 'renamed' : 'refused'] += 1
    } else {
      const status = kind === 3 ? 'unsubscribed' : 'active'
      const { success, data } = await update(listId, email, { status, custom_fields: { B: b } })
      if (success) last.set(data.id, { b, email })
      done[success ? 'changed' : 'refused'] += 1
    }
  }
}

const everyStatus = { active: true, unsubscribed: true, bounced: true, deactivated: true, scomp: true }

/** Requests race an import that overwrites every other of its rows. Resolves when both have ended. */
async function raceImport(rows: number) {
  const list = await createList(service, [
    { name: 'A', field_type: 'number' },
    { name: 'B', field_type: 'number' },
  ])
  const welcome = await addAutoresponder(list.id, 'Welcome', {
    trigger_include_subscribers_from_import: true,
  })
  const options = { column_mapping: ['email', 'A'], file_format: { csv_has_headers: false } }
  const importLines = (lines: string[], more: object = {}) =>
    post(`/mailing_lists/${list.id}/subscriber_imports`, {
      subscriber_import: { ...options, ...more, file_source: { type: 'json', content: lines.join('') } },
    })
  const half = await importLines(Array.from({ length: rows / 2 }, (_, i) => `s${i * 2}@example.com,1\n`))
  await importEnd(service, half.id, 60_000)
  const created = await importLines(
    Array.from({ length: rows }, (_, i) => `s${i}@example.com,2\n`),
    {
      overwrite: true,
      overwrite_when_status: everyStatus,
      autoresponders: { subscription: { trigger: true, also_trigger_on_updated_subscribers: true } },
    },
  )
  const requests: Requests = {
    done: { created: 0, changed: 0, renamed: 0, deleted: 0, refused: 0 },
    last: new Map(),
    isImportOver: false,
  }
  const requesters = [1, 2, 3, 4].map((seed) => requestWrites(list.id, rows, seed, requests))
  const view = await importEnd(service, created.id, 100_000).finally(() => (requests.isImportOver = true))
  await Promise.all(requesters)
  return { list, welcome, requests, view }
}

t.test(
  'requests and an import write the same subscribers at once, and every count adds up',
  { timeout: 300_000 },
  async (t) => {
    const rows = 4_000
    const { list, welcome, requests, view } = await raceImport(rows)
    const { done, last } = requests
    t.comment(JSON.stringify(done))
    const counts = countsOf(view)
    t.equal(view.state, 'finished')
    t.equal(
      (counts['added'] ?? 0) + (counts['updated'] ?? 0),
      rows,
      `every row was written: ${JSON.stringify(counts)}`,
    )
    const table = await collections.subscribers.find({ mailing_list_id: list.id }).toArray()
    t.equal(table.length, rows / 2 + counts['added']! + done.created - done.deleted)
    t.equal(new Set(table.map(({ id }) => id)).size, table.length, 'each subscriber has an id of its own')
    t.ok(table.every(({ _id, email }) => _id === `${list.id}:${email}`))
    t.same(await statusCounts(list.id), await countedStatuses(list.id))
    const byId = new Map(table.map((subscriber) => [subscriber.id, subscriber]))
    const [, fieldB] = (await call('GET', `/mailing_lists/${list.id}/custom_fields`)).body.data
    const wrong = [...last].filter(([id, wrote]) => {
      const subscriber = byId.get(id)
      return wrote === null
        ? subscriber !== undefined
        : subscriber?.email !== wrote.email || subscriber.custom_fields[fieldB.id] !== wrote.b
    })
    t.same(wrong, [], 'no write of a request is lost')
    const reactions = await collections.reactions
      .find({ mailing_list_id: list.id, autoresponder_id: welcome })
      .toArray()
    t.ok(
      reactions.every((reaction) => byId.has(reaction.subscriber_id!)),
      'no reaction outlives its subscriber',
    )
  },
)
