import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { metricValue } from '../helpers/metric-value.ts'
import {
  basic,
  bootstrapKey,
  controlPlaneOrigin,
  createList,
  startService,
  until,
  type Json,
} from '../helpers/service.ts'

/** What calls and imports ask of the database, all processes together, counted by the server's profiler. */

const service = await startService(t, ['control-plane', 'engine'])

/** The commands of `work`, as "imports.find". A transaction counts its commit too, which no profile of a database has. */
async function commandsOf(work: () => Promise<void>): Promise<string[]> {
  const { db } = service
  const profile = db.collection('system.profile')
  await db.command({ profile: 0 })
  await profile.drop()
  await db.command({ profile: 2, filter: { ns: { $ne: `${db.databaseName}.system.profile` } } })
  await work()
  await db.command({ profile: 0 })
  const commands: string[] = []
  const transactions = new Set<string>()
  for await (const {
    ns,
    op,
    command,
    lsid = command.lsid,
    txnNumber = command.txnNumber,
  } of profile.find()) {
    if (command.profile !== undefined) continue
    const verb = op === 'command' || op === 'query' ? Object.keys(command)[0]! : op
    commands.push(`${String(ns).slice(db.databaseName.length + 1)}.${verb}`)
    if (command.autocommit === false) transactions.add(`${lsid.id.toString('hex')} ${txnNumber}`)
  }
  return [...commands, ...Array.from(transactions, () => 'commitTransaction')].sort()
}

/** Waits until the import's event stream says that it has ended. Resolves to whether it was opened before that. */
async function followToEnd({ id }: Json): Promise<boolean> {
  const response = await fetch(`${controlPlaneOrigin(service)}/svc/api/v2/subscriber_imports/${id}/events`, {
    headers: { authorization: basic(`api:${bootstrapKey}`) },
  })
  const text = await response.text()
  const isFinished = (event = '') => event.includes('"state":"finished"')
  if (!isFinished(text)) throw new Error(text)
  return !isFinished(text.split('\n\n')[0])
}

const maxCommands = 25

t.test('an import of 100 rows takes few commands, and its end is seen soon', async (t) => {
  const list = await createList(service)
  const seconds: number[] = []
  const counted: string[][] = []
  // On a busy machine most have commands of polls, heartbeats and renewals too, which come every second or so.
  const areBusy = () => counted.every(({ length }) => length > maxCommands)
  for (let number = 0; number < 40 || (number < 160 && areBusy()); number += 1) {
    const emails = Array.from({ length: 100 }, (_, i) => `row${number}-${i}@example.com`)
    const content = ['email', ...emails].join('\n')
    const commands = await commandsOf(async () => {
      const startedAt = performance.now()
      const created = await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
        subscriber_import: { column_mapping: ['email'], file_source: { type: 'json', content } },
      })
      if (await followToEnd(created)) seconds.push((performance.now() - startedAt) / 1_000)
      // Its files are removed and the next import of the list is looked for.
      await sleep(100)
    })
    counted.push(commands)
  }
  // Where the stream is opened before an engine has started the import, it reads what that waits for.
  const [fewest] = counted.sort((a, b) => a.length - b.length)
  t.comment(`commands of each import: ${counted.map(({ length }) => length).join(' ')}`)
  const names = Object.entries(Object.groupBy(fewest!, (name) => name))
  t.comment(`${fewest!.length} commands: ${names.map(([name, all]) => `${name} ${all!.length}`).join(', ')}`)
  t.comment(
    `seconds from POST to end: ${seconds
      .sort((a, b) => a - b)
      .map((time) => time.toFixed(3))
      .join(' ')}`,
  )
  t.ok(fewest!.length <= maxCommands, `${fewest!.length} commands`)
  // Without a wake-up the stream reads it with its next poll, 0.8 s after the POST or later.
  t.ok(seconds[0]! < 0.5, `the fastest within ${seconds[0]} s`)
  const tenth = seconds[Math.floor(seconds.length / 10)]!
  t.ok(tenth < 0.8, `a tenth of them within ${tenth} s`)
  const done = counted.length
  const chunksAndSplits = await until(
    'the counts of the last import',
    async () => {
      const metrics = await (await fetch(service.processes.engine!.ready.metrics['engine']!)).text()
      return [
        metricValue(metrics, 'rollcall_import_chunks_total{result="done"}'),
        metricValue(metrics, 'rollcall_import_stage_duration_seconds_count{stage="split"}'),
      ]
    },
    (counts) => counts.every((count) => count >= done),
  )
  t.same(chunksAndSplits, [done, done], 'their chunks are counted, and the times of their splits')
})
