import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import {
  betterOf,
  judge,
  lowestParts,
  lowestOf,
  ratiosOf,
  recordsFor,
  withRecord,
  works,
  type LowestParts,
  type Ratios,
  type Recorded,
  type Rounds,
} from '../../../bench/guard/judge.ts'
import { describeMachine, type Machine } from '../../../bench/machine.ts'
import { chartsOf } from '../../../bench/report/charts.ts'
import { htmlPage } from '../../../bench/report/html.ts'
import { compactJson, reportOfComparison, type Report } from '../../../bench/report/report.ts'
import { ResultsFolder } from '../../../bench/report/results-folder.ts'
import type { Measurement } from '../../../bench/scenario.ts'
import { latencyOf } from '../../../bench/statistics.ts'
import { turns } from '../../../bench/turns.ts'

function measurement(seconds: number, cpu: number): Measurement {
  const moments = Array.from({ length: 20 }, (_, i) => (i / 19) * seconds)
  return {
    seconds,
    rows: 1_000_000,
    clientMicroseconds: cpu,
    serverMicroseconds: cpu,
    peakMemoryMB: 300,
    processes: {
      engine: { cpuSeconds: cpu, peakMemoryMB: 300 },
      mongod: { cpuSeconds: cpu, peakMemoryMB: 900 },
    },
    timeline: {
      seconds: moments,
      rows: moments.map((moment) => (moment / seconds) * 1_000_000),
      cpuSeconds: { engine: moments, mongod: moments },
      memoryMB: { engine: moments.map(() => 300), mongod: moments.map(() => 900) },
    },
    latency: latencyOf('a batch', [3, 1, 2]),
    isRight: true,
  }
}

const run = () => Promise.reject(new Error('nothing is run here'))

/** Our runs take 10, 20 and 40 s, the peer's twice as long each time. */
function madeReport(): Report {
  const seconds = [20, 10, 40]
  const particulars = {
    benchmark: 'new-rows',
    summary: 'ours <b> against "others"',
    startedAt: performance.now(),
    work: { rounds: 3 },
    machine: {
      cpu: 'CPU',
      cores: 2,
      memory_gb: 8,
      system: 'linux',
      load_average_before: 0,
      load_average_after: 1,
    },
    versions: { node: '26' },
    transcript: ['</script><b>'],
  }
  return reportOfComparison(particulars, {
    mongodb: '6.0.5',
    rows: 1_000_000,
    isRight: true,
    contenders: [
      { name: 'rollcall', run, measured: seconds.map((value) => measurement(value, 10)) },
      {
        name: 'mongoimport insert',
        version: 'mongoimport 100.9.4',
        run,
        measured: seconds.map((value) => measurement(value * 2, 30)),
      },
    ],
  })
}

t.test('a report takes ratios within rounds, and keeps every round with its moments', async (t) => {
  const { comparisons, contenders, versions } = JSON.parse(compactJson(madeReport())) as Report
  t.match(comparisons, [
    { of: 'rollcall', to: 'mongoimport insert', speed: { median: 2, least: 2, most: 2 } },
  ])
  t.match(comparisons[0]!.cpu, { median: 3 })
  t.match(contenders[0], {
    rows_per_second: { median: 50_000, least: 25_000, most: 100_000 },
    peak_memory_mb: { engine: 300, mongod: 900 },
  })
  t.equal(contenders[1]!.rounds[0]!.timeline!.rows!.length, 20)
  t.match(versions, { 'mongodb server': '6.0.5', mongoimport: '100.9.4', node: '26' })
})

t.test('plots are standalone documents; a page needs no other file, and no text breaks it', async (t) => {
  const report = madeReport()
  const charts = chartsOf(report)
  t.strictSame(
    charts.map(({ name }) => name),
    ['throughput', 'latency', 'memory', 'cpu'],
  )
  for (const { svg } of charts) {
    t.notMatch(svg, /NaN|undefined|Infinity/)
    t.match(svg, /prefers-color-scheme:dark/)
  }
  const page = htmlPage(report)
  t.notMatch(page, /<b>|(?:src|href)=/)
  t.match(page, 'npm run bench -- new-rows --rows 1000000 --rounds 3')
})

t.test('what names a plot of its own is drawn there, and what was not counted nowhere', async (t) => {
  const seen = measurement(10, 10).timeline!
  const counted = { ...seen, cpuSeconds: {}, memoryMB: {} }
  const charts = chartsOf({
    ...madeReport(),
    contenders: [],
    latencies: [
      { name: 'read', ...latencyOf('a request', [1, 2]) },
      { name: 'read', plot: 'during an import', ...latencyOf('a request', [3, 4]) },
    ],
    timelines: [
      { name: 'all', rounds: [{ ...seen, rows: null }] },
      { name: 'read', plot: 'during an import', of: 'requests', rounds: [counted] },
    ],
  })
  t.strictSame(
    charts.map(({ name }) => name),
    ['throughput-during-an-import', 'latency', 'latency-during-an-import', 'memory', 'cpu'],
  )
  t.match(charts[0], { title: /^During an import\./, svg: /requests a second/ })
  for (const { svg } of charts) t.notMatch(svg, /NaN|undefined|Infinity/)
})

t.test('the page of results is made of what is kept, and what is left of a broken run goes', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-results-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const results = new ResultsFolder(folder, ['new-rows', 'overwriting'])
  await results.keep('new-rows', compactJson(madeReport()))
  const leftOvers = ['new-rows-latency.svg.part', 'gone-cpu.svg']
  for (const name of leftOvers) await writeFile(path.join(folder, 'results', name), 'half')
  const page = await readFile(await results.writePage(), 'utf8')
  t.match(page, /\| new rows \| mongoimport insert.*\| at least 1\.25x \| 2\.00x \| met \|/)
  t.match(page, /\| rows overwriting .* not measured \|/)
  const files = await readdir(path.join(folder, 'results'))
  for (const [, shown] of page.matchAll(/\(results\/(\S+\.svg)\)/g))
    t.ok(files.includes(shown!), `${shown} is there`)
  for (const name of leftOvers) t.notOk(files.includes(name), name)
})

t.test(
  'the guard finds a slowdown of a fifth, or two thirds elsewhere, by client and server, and whatever takes much longer',
  async (t) => {
    const roundsOf = (client: number, elapsed = 15): Rounds =>
      Object.fromEntries(
        works.map((work) => [
          work,
          [1, 5, 2].map((noise) => ({
            ours: { client: client * noise, server: 10 * noise, elapsed: elapsed * noise },
            peer: { client: 40 * noise, server: 80 * noise, elapsed: 150 * noise },
          })),
        ]),
      ) as unknown as Rounds
    const recorded = ratiosOf(roundsOf(20))
    t.match(recorded, { 'new rows, client': 2, 'new rows, server': 8, 'new rows, elapsed': 10 })
    const fallen = (client: number, parts: LowestParts = lowestParts.here, elapsed?: number) =>
      judge(recorded, ratiosOf(roundsOf(client, elapsed)), parts)
        .filter(({ hasFallen }) => hasFallen)
        .map(({ name }) => name)
    t.strictSame(fallen(24), [])
    const clients = ['new rows, client', 'overwriting, client', 'all skipped, client']
    t.strictSame(fallen(26), clients)
    t.strictSame(fallen(33, lowestParts.elsewhere), [])
    t.strictSame(fallen(34, lowestParts.elsewhere), clients)
    const times = ['new rows, elapsed', 'overwriting, elapsed', 'all skipped, elapsed']
    t.strictSame(fallen(20, lowestParts.here, 27), [], 'a neighbour on one of two cores')
    t.strictSame(fallen(20, lowestParts.here, 28), times, 'a wait that costs no CPU time')
    t.strictSame(fallen(20, lowestParts.elsewhere, 37), [])
    t.strictSame(fallen(20, lowestParts.elsewhere, 38), times)
    const once = betterOf(ratiosOf(roundsOf(26)), ratiosOf(roundsOf(21)))
    t.ok(
      judge(recorded, once, lowestParts.here).every(({ hasFallen }) => !hasFallen),
      'a neighbour that went',
    )
    t.ok(
      judge(recorded, {} as Ratios, lowestParts.elsewhere).every(({ hasFallen }) => hasFallen),
      'what was not measured has fallen',
    )
  },
)

t.test('each subject starts once before any starts twice, in changing orders', async (t) => {
  const contenders = ['a', 'b', 'c', 'd', 'e']
  for (let seed = 1; seed <= 20; seed += 1) {
    const rounds = Array.from({ length: 10 }, (_, round) => turns(contenders, round, seed))
    for (const order of rounds) t.strictSame([...order].sort(), contenders)
    for (const half of [rounds.slice(0, 5), rounds.slice(5)])
      t.equal(new Set(half.map(([first]) => first)).size, contenders.length)
    t.ok(new Set(rounds.map((order) => order.slice(1).join())).size > 5)
    t.strictSame(turns(contenders, 3, seed), rounds[3])
  }
})

t.test('the guard judges a machine by the record of its kind, and one without by the lowest of all', (t) => {
  const machine = (cpu: string, cores = 2): Machine => ({ ...describeMachine(), cpu, cores })
  const ratios = (client: number, server: number) =>
    Object.fromEntries(
      works.flatMap((work) => [
        [`${work}, client`, client],
        [`${work}, server`, server],
        [`${work}, elapsed`, 3],
      ]),
    ) as Ratios
  const recordOf = (of: Machine, client: number, server: number): Recorded => ({
    at: '2026-11-23T00:00:00.000Z',
    machine: of,
    versions: { rollcall: '0.1.0' },
    rows: 60_000,
    rounds: 3,
    ratios: ratios(client, server),
  })
  const [one, other] = [recordOf(machine('one'), 2, 9), recordOf(machine('other'), 3, 5)]
  const both = withRecord(withRecord([], one), other)
  t.strictSame(recordsFor(machine('other'), both), [other])
  t.strictSame(recordsFor(machine('other', 4), both), [one, other])
  t.strictSame(lowestOf(both.map((record) => record.ratios)), ratios(2, 5))
  const anew = recordOf(machine('one'), 4, 8)
  t.strictSame(withRecord(both, anew), [anew, other], 'in the place of the one before')
  t.end()
})
