import t from 'tap'
import type { AutoresponderDocument } from '../../../shared/contract/schemas/autoresponder.ts'
import { watchChunks } from '../../helpers/watch-chunks.ts'
import { autoresponder } from '../../helpers/autoresponder.ts'
import { countsOf, createList, importText, until, type Json, type Service } from '../../helpers/service.ts'
import { service } from './service.ts'

/** Autoresponder reactions that an import queues: one a subscriber and autoresponder, in the batch's transaction. */

const noHeader = { file_format: { csv_has_headers: false } }

async function addAutoresponder(
  service: Service,
  listId: number,
  {
    _id,
    name,
    trigger,
    fromImport = false,
  }: Pick<AutoresponderDocument, '_id' | 'name' | 'trigger'> & { fromImport?: boolean },
): Promise<void> {
  await service.collections.autoresponders.insertOne(
    autoresponder({
      _id,
      mailing_list_id: listId,
      name,
      trigger,
      trigger_include_subscribers_from_import: fromImport,
    }),
  )
}

/** The number of reactions by autoresponder. */
async function reactionsIn(service: Service, listId: number): Promise<Record<string, number>> {
  const groups = await service.collections.reactions
    .aggregate<{ _id: number; n: number }>([
      { $match: { mailing_list_id: listId } },
      { $group: { _id: '$autoresponder_id', n: { $sum: 1 } } },
      { $sort: { _id: 1 } },
    ])
    .toArray()
  return Object.fromEntries(groups.map(({ _id, n }) => [_id, n]))
}

/** Else a later take spends its time on dropping those of subscribers that are gone. */
async function removeReactions({ collections: { reactions } }: Service): Promise<void> {
  await reactions.deleteMany({})
}

const list = await createList(service)
await addAutoresponder(service, list.id, {
  _id: 1,
  name: 'Welcome',
  trigger: 'subscription',
  fromImport: true,
})
await addAutoresponder(service, list.id, { _id: 2, name: 'Not from imports', trigger: 'subscription' })
await addAutoresponder(service, list.id, { _id: 3, name: 'For New Ones', trigger: 'api' })
await addAutoresponder(service, list.id, { _id: 4, name: 'For updated ones', trigger: 'api' })
const other = await createList(service)
await addAutoresponder(service, other.id, { _id: 5, name: 'Elsewhere', trigger: 'api' })

t.test('nothing is triggered unasked', async (t) => {
  t.same(countsOf(await importText(service, list.id, 'old1@example.com\nold2@example.com\n', noHeader)), {
    added: 2,
  })
  t.same(await reactionsIn(service, list.id), {})
})

t.test('each one that is asked for reacts once to each subscriber', async (t) => {
  const autoresponders = {
    subscription: { trigger: true },
    api: { trigger_new: { name: 'for new ones' }, trigger_updated: { id: 4, name: 'ignored' } },
  }
  const rows = [
    'old1@example.com,',
    'new1@example.com,',
    'new2@example.com,unsubscribed',
    'NEW1@example.com,',
    'bad,',
  ]
  const view = await importText(service, list.id, rows.join('\n'), {
    ...noHeader,
    column_mapping: ['email', 'status'],
    overwrite: true,
    autoresponders,
  })
  t.same(countsOf(view), { added: 2, updated: 1, skipped_duplicate: 1, failed: 1 })
  t.same(view.autoresponders, {
    subscription: { trigger: true, also_trigger_on_updated_subscribers: false },
    api: {
      trigger_new: { id: 3, name: 'For New Ones' },
      trigger_updated: { id: 4, name: 'For updated ones' },
    },
  })
  t.same(
    await reactionsIn(service, list.id),
    { 1: 1, 3: 2, 4: 1 },
    'on-subscription ones run for active subscribers only',
  )
  const reactions = await service.collections.reactions.find({ mailing_list_id: list.id }).toArray()
  const newest = await service.collections.subscribers.findOne({ _id: `${list.id}:new1@example.com` })
  t.match(
    reactions.find((reaction) => reaction.autoresponder_id === 1),
    { subscriber_id: newest!.id, import_id: view.id, organization_id: 1 },
  )
  t.equal(new Set(reactions.map((reaction) => reaction.id)).size, 4, 'ids are unique')
})

t.test('each reaction of many chunks has an id of its own, unlike those of the next import', async (t) => {
  const rows = 20_000
  const { reactions } = service.collections
  const before = await reactions.countDocuments()
  const importRows = (from: number) => {
    const emails = Array.from({ length: rows }, (_, i) => `m${from + i}@example.com`)
    const autoresponders = { subscription: { trigger: true }, api: { trigger_new: { id: 3 } } }
    return importText(service, list.id, emails.join('\n'), { ...noHeader, autoresponders })
  }
  const untilMoreChunksThan = await watchChunks(t, service)
  for (const from of [0, rows]) t.same(countsOf(await importRows(from)), { added: rows })
  await untilMoreChunksThan(3)
  t.equal((await reactions.distinct('id')).length, before + 4 * rows)
  await removeReactions(service)
})

t.test('an import triggers reactions for updated subscribers too, and a dry run for none', async (t) => {
  await removeReactions(service)
  const options = {
    ...noHeader,
    overwrite: true,
    autoresponders: { subscription: { trigger: true, also_trigger_on_updated_subscribers: true } },
  }
  const text = 'old1@example.com\nold2@example.com\nnew3@example.com\n'
  await importText(service, list.id, text, { ...options, dry_run: true })
  t.same(await reactionsIn(service, list.id), {})
  await importText(service, list.id, text, options)
  t.same(await reactionsIn(service, list.id), { 1: 3 })
  await importText(service, list.id, text, options)
  t.same(await reactionsIn(service, list.id), { 1: 6 }, 'another import is another cause')
})

t.test('a subscriber whom an import makes active again gets the mail of that import', async (t) => {
  await removeReactions(service)
  const withStatus = { ...noHeader, column_mapping: ['email', 'status'] }
  await importText(service, list.id, 'back@example.com,unsubscribed\n', withStatus)
  await importText(service, list.id, 'back@example.com,active\n', {
    ...withStatus,
    overwrite: true,
    overwrite_what: { status: true },
    overwrite_when_status: { unsubscribed: true },
    autoresponders: { api: { trigger_updated: { id: 4 } } },
  })
  const subscriber = await service.collections.subscribers.findOne({ _id: `${list.id}:back@example.com` })
  t.equal(subscriber!.status, 'active')
  const mail = await until(
    'its mail',
    () => service.post<Json[]>('/outbox/take', { outbox: { limit: 100 } }),
    (messages) => messages.length > 0,
    20_000,
  )
  t.same(
    mail.map(({ autoresponder_id, to }) => [autoresponder_id, to]),
    [[4, 'back@example.com']],
  )
})

t.test('a subscriber who leaves by an import gets no mail that still waits', async (t) => {
  const reactions = () =>
    service.collections.reactions.find({ mailing_list_id: list.id }).sort({ subscriber_id: 1 }).toArray()
  await removeReactions(service)
  await importText(service, list.id, 'stays@example.com\nleaves@example.com\n', {
    ...noHeader,
    autoresponders: { api: { trigger_new: { id: 3 } } },
  })
  const leaving = await service.collections.subscribers.findOne({ _id: `${list.id}:leaves@example.com` })
  t.equal((await reactions()).length, 2)
  await importText(service, list.id, 'leaves@example.com,unsubscribed\nstays@example.com,\n', {
    ...noHeader,
    column_mapping: ['email', 'status'],
    overwrite: true,
    overwrite_what: { status: true },
  })
  for (const { subscriber_id: id, state } of await reactions())
    t.equal(state === 'dropped', id === leaving!.id, `${id} is ${state}`)
})

t.test('autoresponders that are none of the list, or not for the API, are refused', async (t) => {
  const cases: [object, RegExp][] = [
    [{ id: 1 }, /trigger_new 1 is triggered by subscription, not by the API/],
    [{ id: 5 }, /trigger_new 5 is no autoresponder of the list/],
    [{ name: 'Nobody' }, /trigger_new "Nobody" is no autoresponder of the list/],
  ]
  for (const [reference, message] of cases) {
    const { body } = await service.call('POST', `/mailing_lists/${list.id}/subscriber_imports`, {
      subscriber_import: {
        column_mapping: ['email'],
        file_source: { type: 'json', content: 'a@example.com' },
        autoresponders: { api: { trigger_new: reference } },
      },
    })
    t.match(body, { success: false, error_code: 'validation_failed', error_message: message })
  }
})
