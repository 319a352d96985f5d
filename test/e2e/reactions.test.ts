import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { autoresponder } from '../helpers/autoresponder.ts'
import { Engines } from '../helpers/engines.ts'
import {
  createList,
  importEnd,
  startService,
  until,
  type Call,
  type Json,
  type Service,
} from '../helpers/service.ts'
import { storedUploads } from '../helpers/stored-uploads.ts'

/**
 * Two autoresponders answer every row of an import while engines are killed in batches. Meanwhile autoresponders are paused and unpaused, subscribers leave, and a sender takes mails. Each reaction
 * exists once and each mail is taken once; no subscriber gets a mail after leaving. docs/campaigns.md has the full size.
 */
const isLong = process.env['ROLLCALL_ROWS'] !== undefined
const rows = Number(process.env['ROLLCALL_ROWS'] ?? 4_000)
const timeoutMs = 60_000 + rows * 4

/** Where engines die, one at each place; test/helpers/crash-at.ts says how. */
const deaths = [
  'insert reactions after 1',
  'insert reactions > commitTransaction before 1',
  'insert reactions > commitTransaction after 1',
]

const emailOf = (row: number): string => `s${String(row).padStart(6, '0')}@example.com`

/** Two autoresponders that answer every subscription of an import, the second of them paused. */
async function createResponders(service: Service, listId: number) {
  const responders = ['Welcome', 'Second welcome'].map((name, i) =>
    autoresponder({
      _id: i + 1,
      mailing_list_id: listId,
      name,
      trigger_include_subscribers_from_import: true,
      paused: i === 1,
    }),
  )
  await service.collections.autoresponders.insertMany(responders)
  return responders
}

async function setPaused({ collections }: Service, id: number, paused: boolean): Promise<void> {
  await collections.autoresponders.updateOne({ _id: id }, { $set: { paused } })
}

/** Uploads the rows and creates their import. Resolves to its id. */
async function createImport(service: Service, listId: number): Promise<number> {
  const content = Array.from(
    { length: rows },
    (_, row) => `${emailOf(row)}
`,
  ).join('')
  await storedUploads(service).put('rows.csv', content)
  const { id } = await service.post(`/mailing_lists/${listId}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: ['email'],
      file_format: { csv_has_headers: false },
      autoresponders: { subscription: { trigger: true } },
      file_source: { type: 'upload_directory', filename: 'rows.csv' },
    },
  })
  return id
}

/** Takes mails from the outbox as a sender does, and counts how often each was taken. */
class MailSender {
  /** The number of takes, by the reaction's id. */
  readonly takes = new Map<number, number>()
  readonly #call: Call

  constructor(call: Call) {
    this.#call = call
  }

  /** Takes and acknowledges up to 1,000 mails. Resolves to their number. */
  async takeMails(): Promise<number> {
    const { body } = await this.#call('POST', '/outbox/take', { outbox: { limit: 1000 } })
    const messages: Json[] = body.data
    for (const { id } of messages) this.takes.set(id, (this.takes.get(id) ?? 0) + 1)
    if (messages.length > 0) {
      const taken = messages.map(({ id, lease_token }) => ({ id, lease_token }))
      await this.#call('POST', '/outbox/acknowledge', { outbox: { messages: taken } })
    }
    return messages.length
  }
}

/** Unsubscribes and deletes subscribers, pauses and unpauses autoresponders, and takes mails, until the signal. */
function startDisturbances(service: Service, listId: number, sender: MailSender, signal: AbortSignal) {
  /** Addresses that were unsubscribed or deleted. */
  const gone = new Set<string>()
  const repeat = async (work: (round: number) => Promise<unknown>): Promise<void> => {
    for (let round = 0; !signal.aborted; round += 1) {
      await work(round)
      await sleep(isLong ? 50 : 150)
    }
  }
  const ended = Promise.all([
    repeat(async (round) => {
      const email = emailOf((round * 37) % rows)
      const at = `/mailing_lists/${listId}/subscribers/${email}`
      const { body } =
        round % 2 === 0
          ? await service.call('PUT', at, { subscriber: { status: 'unsubscribed' } })
          : await service.call('DELETE', at)
      if (body.success === true) gone.add(email)
    }),
    repeat((round) => setPaused(service, (round % 2) + 1, round % 4 < 2)),
    repeat(() => sender.takeMails()),
  ])
  return { gone, ended }
}

/** Starts an engine for each death, one after the other, and waits until it has died there. */
async function killEngines(t: Test, engines: Engines, lap: (what: string) => void): Promise<void> {
  for (const crashAt of deaths) {
    const engine = await engines.start(crashAt)
    await Promise.race([engine.ended, sleep(timeoutMs, undefined, { ref: false })])
    if (!t.notOk(engine.isAlive(), `an engine died: ${crashAt}`)) t.comment(engine.log())
    lap(`${crashAt}: died`)
    await engines.kill([engine])
    await engines.endLeaseOf(engine)
  }
}

t.setTimeout(4 * timeoutMs)
t.test('each reaction comes once, wherever engines die', { timeout: 4 * timeoutMs }, async (t) => {
  const service = await startService(t, ['control-plane'])
  const { collections } = service
  const engines = new Engines(t, service)
  const { id: listId } = await createList(service)
  const responders = await createResponders(service, listId)
  const importId = await createImport(service, listId)
  const sender = new MailSender(service.call)
  const isOver = new AbortController()
  const { gone, ended } = startDisturbances(service, listId, sender, isOver.signal)

  const beganAt = Date.now()
  const lap = (what: string) => t.comment(`${what} after ${((Date.now() - beganAt) / 1000).toFixed(1)} s`)
  await killEngines(t, engines, lap)
  await engines.start()
  const view = await importEnd(service, importId, timeoutMs)
  lap('imported')
  isOver.abort()
  await ended
  t.match(view, { state: 'finished', stats: { subscribers: { added: rows } } })

  for (const { _id } of responders) await setPaused(service, _id, false)
  await until(
    'the last of the reactions',
    async () => ({
      taken: await sender.takeMails(),
      queued: await collections.reactions.countDocuments({ state: 'queued' }),
    }),
    ({ taken, queued }) => taken === 0 && queued === 0,
    timeoutMs,
  )
  lap('all out')
  t.ok(gone.size > 0, `${gone.size} left`)
  t.equal((await service.get(`/mailing_lists/${listId}/reactions?state=queued,held,due`)).length, 0)
  await checkReactions(t, service, listId, sender.takes)
})

async function checkReactions(
  t: Test,
  { collections }: Service,
  listId: number,
  takes: Map<number, number>,
): Promise<void> {
  const reactions = await collections.reactions.find({ mailing_list_id: listId }).toArray()
  const subscribers = await collections.subscribers.find({ mailing_list_id: listId }).toArray()
  const statuses = new Map(subscribers.map(({ id, status }) => [id, status]))
  t.equal(reactions.length, 2 * subscribers.length, 'two for each subscriber that exists, none for others')
  t.equal(new Set(reactions.map(({ _id }) => _id)).size, reactions.length)
  t.equal(new Set(reactions.map(({ id }) => id)).size, reactions.length)
  const wrong = reactions.filter(({ id, state, subscriber_id: subscriberId }) => {
    const count = takes.get(id) ?? 0
    if (statuses.get(subscriberId!) === 'active') return state !== 'sent' || count !== 1
    // A mail that went out before its subscriber left isn't called back.
    return state === 'sent' ? count !== 1 : state !== 'dropped'
  })
  t.same(wrong, [], 'active subscribers got each mail once; what the others didn’t get is dropped')
  t.same(
    [...takes].filter(([, count]) => count > 1),
    [],
    'no mail was taken twice',
  )
}
