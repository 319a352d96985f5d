import type { Document } from 'mongodb'
import t from 'tap'
import { CommandGate } from '../helpers/command-gate.ts'
import { createList, importText, startService, testMongodbUri, until } from '../helpers/service.ts'

/**
 * Checks the first paragraph of docs/protocol.md on the commands that a whole service sends. An import adds, updates
 * and deactivates; requests come, a reaction becomes a message, and a sender takes and acknowledges it.
 */

const writes = new Set(['insert', 'update', 'delete', 'findAndModify'])
const reads = new Set(['find', 'aggregate', 'count', 'distinct'])
const ends = new Set(['commitTransaction'])

t.test('each write and commit waits for a majority, each read asks one', { timeout: 180_000 }, async (t) => {
  const commands: Document[] = []
  const gate = await CommandGate.open(testMongodbUri(), (command) => commands.push(command))
  t.teardown(() => gate.close())
  const service = await startService(t, ['control-plane', 'engine'], { MONGODB_URI: gate.uri })
  const list = await createList(service, [{ name: 'Town', field_type: 'text' }])
  const path = `/mailing_lists/${list.id}`
  await service.post(`${path}/autoresponders`, {
    autoresponder: {
      name: 'Welcome',
      trigger: 'subscription',
      content_subject: 'Hello',
      content_text: 'Hello',
      trigger_include_subscribers_from_import: true,
    },
  })
  await importText(service, list.id, 'email,Town\nann@example.com,Rome\nbob@example.com,Oslo\n', {
    column_mapping: ['email', 'Town'],
    autoresponders: { subscription: { trigger: true } },
  })
  await importText(service, list.id, 'email,Town\nann@example.com,Bonn\n', {
    column_mapping: ['email', 'Town'],
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
    service.call('POST', `${path}/subscriber_imports`, keyed, { headers: { 'idempotency-key': 'once' } })
  t.equal((await withKey()).body.data.id, (await withKey()).body.data.id)
  const carl = await service.post(`${path}/subscribers`, { subscriber: { email: 'carl@example.com' } })
  await service.call('PUT', `${path}/subscribers/${carl.id}`, { subscriber: { status: 'unsubscribed' } })
  await service.call('DELETE', `${path}/subscribers/${carl.id}`)
  const messages = await until(
    'a message',
    () => service.post('/outbox/take', { outbox: { limit: 10 } }),
    (taken) => taken.length > 0,
    20_000,
  )
  await service.post('/outbox/acknowledge', {
    outbox: { messages: messages.map(({ id, lease_token }: Document) => ({ id, lease_token })) },
  })

  const nameOf = (command: Document): string => Object.keys(command)[0]!
  const seen = commands.map(nameOf)
  for (const name of [...writes, ...reads, ...ends])
    t.ok(seen.includes(name) || name === 'count', `${name} was seen`)
  const isInTransaction = ({ autocommit }: Document): boolean => autocommit === false
  const described = (command: Document): string =>
    `${nameOf(command)} ${String(command[nameOf(command)])} ${JSON.stringify(command['writeConcern'] ?? command['readConcern'] ?? null)}`
  const faults = commands.filter((command) => {
    const name = nameOf(command)
    if (ends.has(name)) return command['writeConcern']?.w !== 'majority'
    // The first command says it for the whole transaction.
    if (isInTransaction(command))
      return command['startTransaction'] === true && command['readConcern']?.level !== 'snapshot'
    if (writes.has(name)) return command['writeConcern']?.w !== 'majority'
    // A wake-up is only a hint, whatever becomes of the write that it announces.
    if (command['find'] === 'doorbell') return false
    // Chunks move within the index by which they are found, so what is summed up of them is of one moment.
    if (command['aggregate'] === 'import_chunks') return command['readConcern']?.level !== 'snapshot'
    return reads.has(name) && !['majority', 'snapshot'].includes(command['readConcern']?.level)
  })
  t.same([...new Set(faults.map(described))], [], `${commands.length} commands`)
})
