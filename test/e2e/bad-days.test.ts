import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { SubscriberFile } from '../../bench/datasets/subscriber-file.ts'
import { beginLargeImport, someRowsIn } from '../helpers/large-import.ts'
import { stopTookTooLong } from '../helpers/ended-late.ts'
import { repeatWhile } from '../helpers/repeat-while.ts'
import { startReplicaSet } from '../helpers/replica-set.ts'
import {
  createList,
  importEnd,
  startService,
  until,
  type Json,
  type RunningProcess,
  type Service,
} from '../helpers/service.ts'

/**
 * The database fails: a primary steps down or dies, a database is away for a while or transactions fail in the
 * middle. The import resumes, or fails with a message that says what to do. The processes keep running.
 */

/** Seconds for which the database is away, after everybody has said that it is; 60 by hand, with larger files. */
const awaySeconds = Number(process.env['ROLLCALL_AWAY_SECONDS'] ?? 2)
const rows = awaySeconds < 60 ? 12_000 : 40_000
const file = new SubscriberFile({ rows, seed: 5 })

/** Compares the import with what an undisturbed one would have left. */
async function checkBalance(t: Test, service: Service, view: Json): Promise<void> {
  t.match(view, {
    state: 'finished',
    error_message: null,
    stats: { number_of_records: rows, records_imported: rows, subscribers: file.expectedCounts() },
  })
  const there = await service.collections.subscribers.countDocuments({
    mailing_list_id: view.mailing_list_id,
  })
  t.equal(there, file.expectedCounts().added)
  const ids = await service.collections.subscribers.distinct('id', { mailing_list_id: view.mailing_list_id })
  t.equal(ids.length, there)
  const stripes = await service.collections.subscriberCounts
    .find({ mailing_list_id: view.mailing_list_id })
    .toArray()
  t.equal(
    stripes.reduce((sum, stripe) => sum + stripe.active, 0),
    there,
  )
}

function checkAlive(t: Test, { processes }: { processes: Record<string, RunningProcess> }): void {
  for (const [name, { child }] of Object.entries(processes))
    t.ok(child.exitCode === null && child.signalCode === null, `${name} lives`)
}

/** A scrape says that the database is away, waits for it only a moment, and tells soon no more what it knew before. */
async function checkMetricsOfAway(t: Test, urls: Record<string, string>): Promise<void> {
  const [url] = Object.values(urls)
  const text = await until(
    'a scrape without the database',
    async () => (await fetch(url!, { signal: AbortSignal.timeout(10_000) })).text(),
    (text) => /^rollcall_database_up 0$/m.test(text) && !/^rollcall_import_queue_age_seconds /m.test(text),
    90_000,
    500,
  )
  t.match(text, /^process_resident_memory_bytes \d/m)
}

/**
 * Waits until the metrics of every process are right again. Earlier versions cached each reading for 200 times its
 * duration.
 */
async function checkMetricsOfBack(t: Test, service: Service): Promise<void> {
  const backAt = Date.now()
  const finished = await service.collections.imports.countDocuments({ state: 'finished' })
  for (const [name, { ready }] of Object.entries(service.processes))
    await until(
      `the metrics of ${name}`,
      async () => (await fetch(Object.values(ready.metrics)[0]!)).text(),
      (text) =>
        /^rollcall_database_up 1$/m.test(text) &&
        /^rollcall_engines\{state="alive"\} 1$/m.test(text) &&
        /^rollcall_database_server_connections \d/m.test(text) &&
        /^rollcall_database_checkouts_waiting 0$/m.test(text) &&
        text.includes(`rollcall_imports{state="finished"} ${finished}\n`),
      60_000,
      200,
    )
  t.comment(`the metrics were right ${Date.now() - backAt} ms later`)
}

t.setTimeout(550_000)
const set = await startReplicaSet(t, 3)
const started = await startService(t, ['control-plane', 'engine'], { MONGODB_URI: set.uri })
const service: Service = { ...started, get: patientGet }

/** Members that get too little processor time elect another primary, so a 503, which says to try again, is obeyed. */
async function patientGet(path: string): Promise<Json> {
  const call = () => started.call('GET', path)
  const { status, text, body } = await until(
    `a reply to GET ${path}`,
    call,
    (answer) => answer.status !== 503,
  )
  if (status !== 200) throw new Error(`GET ${path}: ${status} ${text}`)
  return body.data
}

t.test('an import resumes when the primary steps down, and later dies', async (t) => {
  const { id } = await beginLargeImport(service, file)
  await someRowsIn(service, id, 1)
  await set.command({ replSetStepDown: 20, force: true }).catch(() => undefined)
  await set.elect()
  await someRowsIn(service, id, rows / 3)
  const dead = await set.primary()
  await set.kill(dead)
  await set.elect()
  const view = await importEnd(service, id, 90_000)
  await checkBalance(t, service, view)
  checkAlive(t, service)
  await set.restart(dead)
})

t.test('commands and commits fail in every way that MongoDB documents', async (t) => {
  const failures = [
    { failCommands: ['insert'], errorCode: 112, errorLabels: ['TransientTransactionError'] },
    { failCommands: ['update'], errorCode: 251, errorLabels: ['TransientTransactionError'] },
    { failCommands: ['insert'], closeConnection: true },
    { failCommands: ['commitTransaction'], closeConnection: true },
    { failCommands: ['commitTransaction'], errorCode: 91 },
    {
      failCommands: ['commitTransaction'],
      writeConcernError: { code: 64, errmsg: 'waiting for replication timed out' },
    },
    { failCommands: ['findAndModify'], closeConnection: true },
    { failCommands: ['find', 'aggregate'], errorCode: 11600 },
    { failCommands: ['insert', 'abortTransaction'], closeConnection: true },
  ]
  const member = await set.primary()
  const begun = [(await beginLargeImport(service, file)).id as number]
  await someRowsIn(service, begun[0]!, 1)
  for (const failure of failures) {
    const data = { ...failure, appName: 'rollcall' }
    const fail = (mode: unknown) => set.command({ configureFailPoint: 'failCommand', mode, data }, member)
    const hitsBefore = Number((await fail({ times: 2 }))['count'])
    const hit = { waitForFailPoint: 'failCommand', timesEntered: hitsBefore + 1, maxTimeMS: 1_000 }
    await until(
      `a hit of ${JSON.stringify(failure)}`,
      async () => {
        const ended = { _id: begun.at(-1)!, state: { $in: ['finished', 'failed'] as const } }
        if ((await service.collections.imports.countDocuments(ended)) > 0) {
          await fail('off')
          begun.push((await beginLargeImport(service, file)).id)
          await fail({ times: 2 })
        }
        return set.command(hit, member).then(
          () => true,
          () => false,
        )
      },
      (isHit) => isHit,
    )
  }
  await set.command({ configureFailPoint: 'failCommand', mode: 'off' }, member)
  t.comment(`${failures.length} failures in ${begun.length} imports`)
  for (const id of begun) await checkBalance(t, service, await importEnd(service, id))
  checkAlive(t, service)
})

t.test('a read that the primary refuses for a moment is answered with 503', async (t) => {
  const [member, namespace] = [await set.primary(), `${service.db.databaseName}.imports`]
  const refuse = (mode: string, errorCode: number) => {
    const data = { failCommands: ['find', 'aggregate'], errorCode, namespace, appName: 'rollcall' }
    return set.command({ configureFailPoint: 'failCommand', mode, data }, member)
  }
  t.teardown(() => refuse('off', 1))
  // 43 is a cursor that a restarted member no longer has.
  for (const errorCode of [43, 91, 262, 11_602]) {
    await refuse('alwaysOn', errorCode)
    const { status } = await service.call('GET', '/subscriber_imports/1')
    t.equal(status, 503, `error ${errorCode}`)
  }
})

t.test('a request whose commit is not confirmed is told that it may be done', async (t) => {
  const [list, member] = [await createList(service), await set.primary()]
  const fail = (mode: string) => {
    // The driver doesn't repeat a commit that exceeds its time.
    const data = { failCommands: ['commitTransaction'], errorCode: 50, appName: 'rollcall' }
    return set.command({ configureFailPoint: 'failCommand', mode, data }, member)
  }
  await fail('alwaysOn')
  t.teardown(() => fail('off'))
  const subscriber = { email: 'perhaps@example.com' }
  const { status, body } = await service.call('POST', `/mailing_lists/${list.id}/subscribers`, {
    subscriber,
  })
  t.equal(status, 503)
  t.match(body, { success: false, error_message: /has not confirmed.*may be done.*look before you send/ })
})

t.test('the database is suspended for a moment', async (t) => {
  const all = [0, 1, 2]
  for (const member of all) set.suspend(member)
  t.teardown(() => all.forEach((member) => set.resume(member)))
  for (const { ready } of Object.values(service.processes)) {
    await checkMetricsOfAway(t, ready.metrics)
    const readyz = Object.values(ready.metrics)[0]!.replace(/metrics$/, 'readyz')
    t.equal((await fetch(readyz)).status, 503)
  }
  for (const member of all) set.resume(member)
  await set.elect()
  await checkMetricsOfBack(t, service)
  checkAlive(t, service)
})

t.test(`the database is away for ${awaySeconds} s`, async (t) => {
  const engines = [service.processes.engine!]
  // One of them is stopped meanwhile. The others are spare ones for a stop that a busy machine makes too slow.
  if (awaySeconds < 60) for (let i = 0; i < 2; i += 1) engines.push(await service.start('engine'))
  const { id } = await beginLargeImport(service, file)
  await someRowsIn(service, id, 1)
  await Promise.all([0, 1, 2].map((member) => set.kill(member)))
  const answer = await service.call('GET', `/subscriber_imports/${id}`)
  const log = service.processes['control-plane']?.log().split('\n') ?? []
  const lastError = log.findLast((line) => line.includes('"level":"error"'))
  t.equal(answer.status, 503, answer.status === 503 ? 'refused' : `${answer.text} after ${lastError}`)
  t.match(answer.body, { success: false, error_code: 'internal_error' })
  for (const { ready } of Object.values(service.processes)) await checkMetricsOfAway(t, ready.metrics)
  await sleep(awaySeconds * 1000)
  checkAlive(t, service)
  checkAlive(t, { processes: Object.fromEntries(engines.entries()) })
  if (awaySeconds < 60) {
    const { code, tookMs } = await repeatWhile(
      async (attempt) => {
        const stoppingAt = Date.now()
        const engine = engines[attempt - 1]!
        const code = await engine.stop()
        return { code, tookMs: Date.now() - stoppingAt, engine }
      },
      ({ tookMs, engine }) => tookMs >= 10_000 || stopTookTooLong(engine),
    )
    t.equal(code, 0, 'an engine can be stopped meanwhile')
    t.ok(tookMs < 10_000, 'within 10 s')
    await Promise.all(engines.map((engine) => engine.stop('SIGKILL')))
  }
  await Promise.all([0, 1, 2].map((member) => set.restart(member)))
  const backAt = Date.now()
  await set.elect()
  if (awaySeconds < 60) {
    // What they couldn't hand back is free at once, and not when their leases end.
    await service.collections.engines.updateMany({}, { $set: { dead: true } })
    await service.start('engine')
  }
  const view = await until(
    'the end',
    () => service.get(`/subscriber_imports/${id}`).catch(() => ({ state: 'unknown' })),
    (view: Json) => ['finished', 'failed', 'cancelled'].includes(view.state),
    120_000,
  )
  t.comment(`finished ${Date.now() - backAt} ms after the database was back`)
  await checkMetricsOfBack(t, service)
  await checkBalance(t, service, view)
  checkAlive(t, service)
})
