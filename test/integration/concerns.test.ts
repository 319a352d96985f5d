import { createServer } from 'node:http'
import { MongoClient, type Document } from 'mongodb'
import t, { type Test } from 'tap'
import { unsubscribeToken } from '../../control-plane/api/signed-token.ts'
import { openCollections } from '../../shared/contract/schemas/collections.ts'
import { keyHashSecret } from '../../shared/store/api-keys.ts'
import { CommandGate } from '../helpers/command-gate.ts'
import { FtpSession } from '../helpers/ftp-session.ts'
import { listeningPort } from '../helpers/listening-port.ts'
import {
  createList,
  importText,
  startService,
  testMongodbUri,
  until,
  type Json,
  type Service,
} from '../helpers/service.ts'

/**
 * Checks the first paragraph of docs/protocol.md on the commands that a whole service sends, with its files in the
 * database. The walk goes by every kind of write; the table below says which must have been seen.
 */

const writes = new Set(['insert', 'update', 'delete', 'findAndModify'])
const reads = new Set(['find', 'aggregate', 'count', 'distinct'])
const ends = new Set(['commitTransaction'])

/** Collections that are written outside of transactions, by commands that each name their own concern. */
const singleWrites = {
  insert: 'blob_pieces campaign_templates confirmation_forms wake_ups import_callbacks',
  update:
    'campaign_templates counters deleted_fields engines import_callbacks import_chunks imports ' +
    'installation ledgers processes reactions schema subscribers uploads',
  delete: 'blob_pieces deleted_fields import_chunks import_failures import_outcomes processes',
  findAndModify:
    'auth_failures blob_pieces counters import_callbacks import_chunks imports mailing_lists subscribers uploads users',
}

/** Collections that are written in transactions, whose commit names the concern. */
const transactionWrites = {
  insert:
    'api_keys audit_events autoresponders clicked_links custom_fields deleted_fields deleted_subscribers ' +
    'delivery_events delivery_messages import_chunks import_failures import_outcomes imports mailing_lists ' +
    'reactions subscribers users',
  update:
    'api_keys autoresponder_days autoresponders bounce_codes custom_fields idempotency_keys import_chunks imports ' +
    'installation ledgers mailing_lists organizations reactions subscriber_counts subscribers uploads users',
  delete: 'api_keys custom_fields import_chunks pending_subscribers reactions subscribers uploads users',
  findAndModify: 'imports mailing_lists pending_subscribers uploads users',
}

/** Collections that are read, in transactions and outside of them. */
const allReads = {
  find:
    'api_keys autoresponders blob_pieces campaign_templates confirmation_forms custom_fields deleted_fields ' +
    'delivery_events delivery_messages wake_ups engines import_callbacks import_chunks imports installation ' +
    'mailing_lists organizations pending_subscribers reactions schema subscribers uploads users',
  aggregate: 'import_chunks imports subscriber_counts uploads',
  distinct: 'import_chunks',
}

/** What the test reads and changes itself doesn't pass the gate. */
type Walked = Service & { list: Json; path: string }

async function startWalk(t: Test, commands: Document[]): Promise<Walked> {
  const gate = await CommandGate.open(testMongodbUri(), (command) => commands.push(command))
  t.teardown(() => gate.close())
  const service = await startService(t, ['control-plane', 'ftp', 'engine'], {
    MONGODB_URI: gate.uri,
    STAGING: 'gridfs',
    USER_LOCKOUT_FAILURES: '1',
  })
  const client = await MongoClient.connect(testMongodbUri(), { promoteBuffers: true })
  t.teardown(() => client.close())
  const collections = openCollections(client.db(service.db.databaseName))
  const list = await createList(service, [{ name: 'Town', field_type: 'text' }])
  return { ...service, collections, list, path: `/mailing_lists/${list.id}` }
}

/** Imports that add, update, deactivate, fail rows, react, call back, are created twice, paused and cancelled. */
async function walkImports(t: Test, service: Walked): Promise<void> {
  const { path, list, call, post, collections } = service
  const receiver = createServer((_request, response) => void response.writeHead(204).end())
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
  t.teardown(() => receiver.close())
  await post(`${path}/autoresponders`, {
    autoresponder: {
      name: 'Welcome',
      trigger: 'subscription',
      content_subject: 'Hello',
      content_text: 'Hello',
      trigger_include_subscribers_from_import: true,
    },
  })
  const column_mapping = ['email', 'Town']
  await importText(
    service,
    list.id,
    'email,Town\nann@example.com,Rome\nbob@example.com,Oslo\nno address,\n',
    {
      column_mapping,
      autoresponders: { subscription: { trigger: true } },
      callback_url: `http://127.0.0.1:${listeningPort(receiver)}/`,
    },
  )
  await importText(service, list.id, 'email,Town\nann@example.com,Bonn\n', {
    column_mapping,
    overwrite: true,
    deactivate_subscribers_not_in_import: true,
  })
  const keyed = {
    subscriber_import: {
      ...{ column_mapping: ['email'], begins_at: '2100-01-01T00:00' },
      file_source: { type: 'json', content: 'dora@example.com\n' },
    },
  }
  const withKey = () =>
    call('POST', `${path}/subscriber_imports`, keyed, { headers: { 'idempotency-key': 'once' } })
  const { id } = (await withKey()).body.data
  t.equal((await withKey()).body.data.id, id)
  for (const move of ['pause', 'unpause', 'cancel']) await post(`/subscriber_imports/${id}/${move}`)
  const delivered = () => collections.callbacks.countDocuments({ state: 'delivered' })
  await until('the callback', delivered, (count) => count === 1, 20_000)
}

/** Subscribers that requests add, change, delete, unsubscribe, and ask to confirm. */
async function walkSubscribers(t: Test, service: Walked): Promise<void> {
  const { path, list, call, post, collections } = service
  const [carl, dora] = await Promise.all(
    ['carl', 'dora'].map((name) =>
      post(`${path}/subscribers`, { subscriber: { email: `${name}@example.com` } }),
    ),
  )
  await call('PUT', `${path}/subscribers/${carl.id}`, { subscriber: { custom_fields: { Town: 'Rome' } } })
  await call('PUT', `${path}/subscribers/${carl.id}`, { subscriber: { status: 'unsubscribed' } })
  await call('DELETE', `${path}/subscribers/${carl.id}`)
  const secret = await keyHashSecret(collections)
  const token = unsubscribeToken(secret, { listId: list.id, subscriberId: dora.id, messageId: '1' })
  t.match(await post('/subscribers/unsubscribe', { unsubscribe: { token } }), { status: 'unsubscribed' })
  const form = await post(`${path}/confirmation_forms`, { confirmation_form: { name: 'Form' } })
  await post(`${path}/subscribers`, {
    subscriber: { email: 'emil@example.com' },
    confirmation_form_id: form.id,
  })
  const pending = await collections.pendingSubscribers.findOne({})
  const visit = `${service.processes['control-plane']!.ready.http}/confirm/${pending!.token}`
  t.equal((await fetch(visit)).status, 200)
  t.equal(await collections.subscribers.countDocuments({ email: 'emil@example.com' }), 1)
}

/** A mail that a sender takes, acknowledges and reports on. */
async function walkMails({ post }: Walked): Promise<void> {
  const messages: Json[] = await until(
    'a mail of the autoresponder',
    () => post('/outbox/take', { outbox: { limit: 10 } }),
    (taken: Json[]) => taken.some(({ autoresponder_id: id }) => id !== null),
    20_000,
  )
  await post('/outbox/acknowledge', {
    outbox: { messages: messages.map(({ id, lease_token }) => ({ id, lease_token })) },
  })
  const { id, autoresponder_id, subscriber } = messages.find((message) => message.autoresponder_id !== null)
  const about = { message_id: String(id), autoresponder_id, subscriber_id: subscriber.id }
  const at = { occurred_at: new Date().toISOString() }
  await post('/delivery_events', {
    delivery_events: [
      { id: '1', type: 'sent', ...at, ...about, format: 'text' },
      { id: '2', type: 'clicked', ...at, ...about, url: 'https://example.com/' },
      {
        id: '3',
        type: 'bounced',
        ...at,
        ...about,
        bounce_type: 'hard',
        bounce_location: 'remote',
        bounce_code: '550',
      },
    ],
  })
}

/** Users and keys that are made, changed and deleted, and sign-ins that fail. */
async function walkCredentials(t: Test, { call, post }: Walked): Promise<void> {
  const key = await post('/api_keys', { api_key: { name: 'Key' } })
  await call('PUT', `/api_keys/${key.id}`, { api_key: { name: 'Other' } })
  t.equal((await call('DELETE', `/api_keys/${key.id}`)).status, 200)
  t.equal((await call('GET', '/users', undefined, { key: key.key })).status, 401)
  const password = 'a long enough password'
  const user = await post('/users', {
    user: {
      full_name: 'Jane Roe',
      email: 'jane@example.com',
      active: true,
      role: 'standard',
      password1: password,
      password2: password,
    },
  })
  await call('POST', '/users/authenticate', { user: { email: user.email, password: 'wrong password' } })
  const { body } = await call('PUT', `/users/${user.id}/reset_password_failure_lockout`, {})
  t.match(body.data, { result: 'lockout_cleared' })
  await call('PUT', `/users/${user.id}`, { user: { full_name: 'Jane Doe' } })
  t.equal((await call('DELETE', `/users/${user.id}`)).status, 200)
}

/** The other records, each made and changed. */
async function walkRecords(t: Test, { call, post, path, list }: Walked): Promise<void> {
  const changed = async (at: string, body: unknown) =>
    t.match((await call('PUT', at, body)).body, { success: true })
  await changed(`/mailing_lists/${list.id}`, { mailing_list: { name: 'Other' } })
  const template = await post(`${path}/templates`, { campaign: { name: 'News' } })
  await changed(`/templates/${template.id}`, { campaign: { name: 'Olds' } })
  const organization = await post('/organizations', { organization: { name: 'Example' } })
  await changed(`/organizations/${organization.id}`, { organization: { subscriber_limit: 7 } })
  const [{ id }] = (await call('GET', `${path}/autoresponders`)).body.data
  await changed(`${path}/autoresponders/${id}`, { autoresponder: { paused: true } })
  const field = await post(`${path}/custom_fields`, { custom_field: { name: 'Plan', field_type: 'text' } })
  await changed(`${path}/custom_fields/${field.id}`, { custom_field: { name: 'Tariff' } })
  await call('DELETE', `${path}/custom_fields/${field.id}`)
}

/** Uploads that are made, imported, renamed and deleted; one of them breaks off. */
async function walkUploads(t: Test, service: Walked): Promise<void> {
  const { call, collections, list, path, processes, post } = service
  const session = await FtpSession.open(processes.ftp!.ready.ftp!)
  t.match(await session.upload('STOR rows.csv', 'email\nfay@example.com\n'), /^226 /)
  t.match(await session.upload('STOR pieces.csv', 'x'.repeat(600_000)), /^226 /)
  const { id } = await post(`${path}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: ['email'],
      file_source: { type: 'upload_directory', filename: 'rows.csv' },
    },
  })
  await until(
    'the import of the upload',
    () => collections.imports.findOne({ _id: id }),
    (found) => found?.state === 'finished',
  )
  t.equal(
    await collections.subscribers.countDocuments({ mailing_list_id: list.id, email: 'fay@example.com' }),
    1,
  )
  await session.command('RNFR rows.csv')
  t.match(await session.command('RNTO old.csv'), /^250 /)
  t.match(await session.command('MFMT 20260101000000 old.csv'), /^213 /)
  for (const name of ['old.csv', 'pieces.csv']) t.match(await session.command(`DELE ${name}`), /^250 /)
  t.equal((await call('PUT', '/uploads/web.csv', new TextEncoder().encode('email\n'))).status, 200)
  t.equal((await call('DELETE', '/uploads/web.csv')).status, 200)
  const data = await session.beginUpload('STOR half.csv')
  data.write('email\n')
  const half = { name: 'half.csv', state: 'unfinished' } as const
  await until(
    'half a file',
    () => collections.uploads.countDocuments(half),
    (count) => count === 1,
  )
  data.resetAndDestroy()
  session.close()
  await until(
    'its lock is free',
    () => collections.uploads.countDocuments({ lease: { $ne: null } }),
    (count) => count === 0,
  )
}

/** What a second engine removes at its start: everything is made a week older, and deleted values are due again. */
async function walkPurges(service: Walked): Promise<void> {
  const { collections } = service
  const isSettled = (count: number) => count === 0
  await until('finalized imports', () => collections.imports.countDocuments({ finalized: false }), isSettled)
  const isOld = new Date(Date.now() - 8 * 24 * 3_600_000)
  await collections.imports.updateMany({}, { $set: { finished_at: isOld } })
  await collections.uploads.updateMany({}, { $set: { modified_at: isOld } })
  await collections.deletedFields.updateMany({}, { $set: { second_pass_at: isOld } })
  const first = service.processes.engine!
  await service.start('engine')
  await first.stop()
  const left = async () => [
    await collections.imports.countDocuments({ logs_purged_at: null }),
    await collections.uploads.countDocuments(),
    await collections.deletedFields.countDocuments(),
  ]
  await until('the purges', left, (counts) => counts.every((count) => count === 0), 30_000)
  for (const running of Object.values(service.processes)) await running.stop()
}

const nameOf = (command: Document): string => Object.keys(command)[0]!
const isInTransaction = ({ autocommit }: Document): boolean => autocommit === false
const pairOf = (command: Document): string => `${nameOf(command)} ${String(command[nameOf(command)])}`

/** Those of the table that no command was. */
function missingOf(table: Record<string, string>, commands: Document[]): string[] {
  const seen = new Set(commands.map(pairOf))
  const expected = Object.entries(table).flatMap(([name, collections]) =>
    collections.split(' ').map((collection) => `${name} ${collection}`),
  )
  return expected.filter((pair) => !seen.has(pair))
}

function isFaulty(command: Document): boolean {
  const name = nameOf(command)
  if (ends.has(name)) return command['writeConcern']?.w !== 'majority'
  // The first command says it for the whole transaction.
  if (isInTransaction(command))
    return command['startTransaction'] === true && command['readConcern']?.level !== 'snapshot'
  // A wake-up is only a hint, whatever becomes of the write that it announces.
  if (command[name] === 'wake_ups') return false
  if (writes.has(name)) return command['writeConcern']?.w !== 'majority'
  // Chunks move within the index by which they are found, so what is summed up of them is of one moment.
  if (command['aggregate'] === 'import_chunks') return command['readConcern']?.level !== 'snapshot'
  return reads.has(name) && !['majority', 'snapshot'].includes(command['readConcern']?.level)
}

t.test('each write and commit waits for a majority, each read asks one', { timeout: 180_000 }, async (t) => {
  const commands: Document[] = []
  const service = await startWalk(t, commands)
  await walkImports(t, service)
  await walkSubscribers(t, service)
  await walkMails(service)
  await walkCredentials(t, service)
  await walkRecords(t, service)
  await walkUploads(t, service)
  await walkPurges(service)

  const described = (command: Document): string =>
    `${pairOf(command)} ${JSON.stringify(command['writeConcern'] ?? command['readConcern'] ?? null)}`
  t.same([...new Set(commands.filter(isFaulty).map(described))], [], `${commands.length} commands`)
  const isWrite = (command: Document) => writes.has(nameOf(command))
  const single = commands.filter((command) => isWrite(command) && !isInTransaction(command))
  const inTransactions = commands.filter((command) => isWrite(command) && isInTransaction(command))
  t.same(missingOf(singleWrites, single), [], 'the walk has all writes outside of transactions')
  t.same(missingOf(transactionWrites, inTransactions), [], 'and all in transactions')
  t.same(missingOf(allReads, commands), [], 'and all reads')
})
