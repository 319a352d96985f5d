import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { notifyEngines } from '../../shared/store/wake-up.ts'
import { autoresponder } from '../helpers/autoresponder.ts'
import { Engines } from '../helpers/engines.ts'
import { callerOf, createList, importEnd, startService, until, type Json } from '../helpers/service.ts'
import { finalizeUpload } from '../helpers/settled-upload.ts'

/**
 * Two autoresponders answer every row of an import, and engines are killed in turn, in batches and on the way into the
 * outbox, while people pause, unpause, unsubscribe and are deleted, and a mail sender takes: each reaction is there
 * once, each mail is taken once, and nobody gets one who left. At full size: docs/campaigns.md.
 */
const isLong = process.env['ROLLCALL_ROWS'] !== undefined
const rows = Number(process.env['ROLLCALL_ROWS'] ?? 4_000)
const timeoutMs = 60_000 + rows * 4

/** Where an engine dies, see test/helpers/crash-at.ts. Each one is met by an engine of its own. */
const deaths = [
  'insert reactions after 1',
  'update reactions "state":"due" after 1',
  // Before the same commit as the next one.
  ...(isLong ? ['insert outbox after 1'] : []),
  'insert outbox > commitTransaction before 1',
  'insert outbox > commitTransaction after 1',
]

const emailOf = (row: number): string => `s${String(row).padStart(6, '0')}@example.com`

t.setTimeout(4 * timeoutMs)
t.test('each reaction comes once, whoever is killed', { timeout: 4 * timeoutMs }, async (t) => {
  const service = await startService(t, ['control-plane'])
  const { collections, post, get } = service
  const engines = new Engines(t, service)
  const list = await createList(service)
  const responders = ['Welcome', 'Second welcome'].map((name, i) =>
    autoresponder({
      _id: i + 1,
      mailing_list_id: list.id,
      name,
      trigger_include_subscribers_from_import: true,
      paused: i === 1,
    }),
  )
  await collections.autoresponders.insertMany(responders)
  const setPaused = async (id: number, paused: boolean) => {
    await collections.autoresponders.updateOne({ _id: id }, { $set: { paused } })
    await notifyEngines(collections, 'paused or unpaused')
  }

  const folder = path.join(service.dataFolder, 'uploads', '1')
  await mkdir(folder, { recursive: true })
  await writeFile(
    path.join(folder, 'rows.csv'),
    Array.from({ length: rows }, (_, row) => `${emailOf(row)}\n`).join(''),
  )
  await finalizeUpload(path.join(folder, 'rows.csv'))
  const { id: importId } = await post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: ['email'],
      file_format: { csv_has_headers: false },
      autoresponders: { subscription: { trigger: true } },
      file_source: { type: 'upload_directory', filename: 'rows.csv' },
    },
  })

  // ---- meanwhile ----
  const isOver = new AbortController()
  const gone = new Map<string, 'unsubscribed' | 'deleted'>()
  const takenBy = new Map<number, { to: string; takes: number }>()
  const call = callerOf(() => service.processes['control-plane']!.ready.http!)
  const take = async (): Promise<number> => {
    const { body } = await call('POST', '/outbox/take', { outbox: { limit: 1000 } })
    const messages = body.data as Json[]
    for (const { id, to } of messages) takenBy.set(id, { to, takes: (takenBy.get(id)?.takes ?? 0) + 1 })
    if (messages.length > 0) {
      const given = messages.map(({ id, lease_token }) => ({ id, lease_token }))
      await call('POST', '/outbox/acknowledge', { outbox: { messages: given } })
    }
    return messages.length
  }
  const meanwhile = async (work: (turn: number) => Promise<void>): Promise<void> => {
    for (let turn = 0; !isOver.signal.aborted; turn += 1) {
      await work(turn)
      await sleep(isLong ? 50 : 150)
    }
  }
  const disturbances = [
    meanwhile(async (turn) => {
      const email = emailOf((turn * 37) % rows)
      const leaves = turn % 2 === 0
      const at = `/mailing_lists/${list.id}/subscribers/${email}`
      const { body } = leaves
        ? await call('PUT', at, { subscriber: { status: 'unsubscribed' } })
        : await call('DELETE', at)
      // A mail that went out before isn't called back.
      if (body.success === true && !gone.has(email)) gone.set(email, leaves ? 'unsubscribed' : 'deleted')
      if (body.success === true && !leaves) gone.set(email, 'deleted')
    }),
    meanwhile(async (turn) => setPaused((turn % 2) + 1, turn % 4 < 2)),
    meanwhile(async () => {
      await take()
    }),
  ]

  // ---- deaths ----
  const beganAt = Date.now()
  const lap = (what: string) => t.comment(`${what} after ${((Date.now() - beganAt) / 1000).toFixed(1)} s`)
  for (const crashAt of deaths) {
    const engine = await engines.start(crashAt)
    await Promise.race([engine.ended, sleep(timeoutMs, undefined, { ref: false })])
    if (!t.notOk(engine.isAlive(), `an engine died: ${crashAt}`)) t.comment(engine.log())
    lap(`${crashAt}: died`)
    await engines.kill([engine])
    await engines.endLeaseOf(engine)
  }
  await engines.start()
  const view = await importEnd(service, importId, timeoutMs)
  lap('imported')
  isOver.abort()
  await Promise.all(disturbances)
  t.match(view, { state: 'finished', stats: { subscribers: { added: rows } } })

  // ---- everything that may go goes out ----
  for (const { _id } of responders) await setPaused(_id, false)
  await until(
    'the last of the reactions',
    async () => ({
      taken: await take(),
      queued: await collections.reactions.countDocuments({ state: 'queued' }),
    }),
    ({ taken, queued }) => taken === 0 && queued === 0,
    timeoutMs,
  )
  lap('all out')
  t.equal(await collections.outbox.countDocuments(), 0, 'nothing is left in the outbox')
  t.ok(gone.size > 0, `${gone.size} left`)

  const reactions = await collections.reactions.find({ mailing_list_id: list.id }).toArray()
  const subscribers = await collections.subscribers.find({ mailing_list_id: list.id }).toArray()
  const statusOf = new Map(subscribers.map(({ id, status }) => [id, status]))
  t.equal(reactions.length, 2 * subscribers.length, 'two for each who is there, none for others')
  t.equal(new Set(reactions.map(({ _id }) => _id)).size, reactions.length)
  t.equal(new Set(reactions.map(({ id }) => id)).size, reactions.length)
  const wrong = reactions.filter(({ id, state, subscriber_id: subscriberId }) => {
    const takes = takenBy.get(id)?.takes ?? 0
    if (statusOf.get(subscriberId) === 'active') return state !== 'sent' || takes !== 1
    return state === 'sent' ? takes !== 1 : state !== 'dropped'
  })
  t.same(wrong, [], 'active ones got each mail once; what the others didn’t get is dropped')
  t.same(
    [...takenBy].filter(([, { takes }]) => takes > 1),
    [],
    'nobody got a mail twice',
  )
  t.equal((await get(`/mailing_lists/${list.id}/reactions?state=queued,held,due`)).length, 0)
})
