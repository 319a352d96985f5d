import t from 'tap'
import { databaseTime } from '../../shared/runtime/database.ts'
import { ensureSchema } from '../../shared/runtime/ensure-schema.ts'
import { createLogger } from '../../shared/runtime/logger.ts'
import { openSide } from '../campaigns/interleavings/side.ts'
import { databaseAndFolder } from '../helpers/database-and-folder.ts'
import { testMongodbUri, type Json } from '../helpers/service.ts'

/**
 * How many commands a request sends to the database: alone, and beside 63 others of its kind, with which it shares them.
 * Round trips are most of what a request costs (docs/decisions/165-fewer-round-trips.md).
 */

const { database, folder } = await databaseAndFolder(t)
await ensureSchema(database.db, createLogger({ process: 'test', level: 'silent' }))
const uri = `${testMongodbUri()}&monitorCommands=true`
const side = await openSide({ uri, name: database.db.databaseName, folder, number: 1, staging: 'disk' })
t.teardown(() => side.close())
// The last heartbeat, without which no change is made in place.
side.database.local.leaseWatch.lastKnown = { time: await databaseTime(database.db), election: null }

const commands: string[] = []
side.database.client.on('commandStarted', ({ commandName, command }) => {
  // The credential is looked up once in two seconds.
  if (command['find'] !== 'api_keys') commands.push(commandName)
})

async function send(method: string, path: string, body?: unknown): Promise<Json> {
  const answer = await side.call(method, path, body)
  if (answer.status !== 200) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`)
  return answer.body.data
}

const { id: listId } = await send('POST', '/mailing_lists', { mailing_list: { name: 'News' } })
const list = `/mailing_lists/${listId}`
await send('POST', `${list}/custom_fields`, { custom_field: { name: 'Points', field_type: 'number' } })
const create = (i: number) =>
  send('POST', `${list}/subscribers`, { subscriber: { email: `s${i}@example.com` } })
const ids = (await Promise.all(Array.from({ length: 64 }, (_, i) => create(i)))).map(({ id }) => id as number)
let created = 64
// Each round changes all of them: two steps on in three are another status.
const statuses = ['unsubscribed', 'active', 'bounced']
let changes = 0

const kinds: Record<string, { run: (i: number) => Promise<Json>; alone: number }> = {
  'read by id': { run: (i) => send('GET', `${list}/subscribers/${ids[i]}`), alone: 3 },
  'find on all lists': {
    run: (i) => send('GET', `/subscribers_by_email/s${i}@example.com`),
    alone: 2,
  },
  'find on one list': {
    run: (i) => send('GET', `${list}/subscribers_by_email/s${i}@example.com`),
    alone: 2,
  },
  create: { run: () => create((created += 1)), alone: 9 },
  'update of values': {
    run: (i) =>
      send('PUT', `${list}/subscribers/${ids[i]}`, { subscriber: { custom_fields: { Points: changes } } }),
    alone: 4,
  },
  'change of status': {
    run: (i) =>
      send('PUT', `${list}/subscribers/${ids[i]}`, { subscriber: { status: statuses[changes % 3] } }),
    alone: 9,
  },
  counts: { run: () => send('GET', '/subscriber_counts'), alone: 3 },
  'page of 100': { run: () => send('GET', `${list}/subscribers?per_page=100`), alone: 4 },
}

for (const [kind, { run, alone }] of Object.entries(kinds))
  t.test(`commands of a request: ${kind}`, async (t) => {
    const count = async (requests: number): Promise<string[]> => {
      changes += 1
      // The process has opened its connections, and knows the list's fields.
      await run(0)
      changes += 1
      commands.length = 0
      await Promise.all(Array.from({ length: requests }, (_, i) => run(i)))
      return [...commands]
    }
    const ofOne = await count(1)
    // The first round opens connections, and other work on the machine spreads the requests over time.
    const rounds = [await count(64), await count(64), await count(64)]
    const ofMany = Math.min(...rounds.map(({ length }) => length)) / 64
    t.comment(`${kind}: ${ofOne.length} alone (${ofOne.join(', ')}), ${ofMany.toFixed(2)} of 64 at once`)
    t.ok(ofOne.length <= alone, `${ofOne.length} commands alone, at most ${alone}`)
    t.ok(ofMany <= alone / 2, `${ofMany} commands of 64 at once, at most ${alone / 2}`)
  })
