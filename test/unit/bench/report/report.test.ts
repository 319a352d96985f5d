import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Script } from 'node:vm'
import t, { type Test } from 'tap'
import { compareRounds } from '../../../../bench/compare.ts'
import {
  combineRatios,
  computeRatios,
  judge,
  minShares,
  recordsFor,
  withRecord,
  works,
  type Ratios,
  type RecordedRatios,
  type Rounds,
} from '../../../../bench/guard/judge.ts'
import { readMachine, type Machine } from '../../../../bench/machine.ts'
import { drawCharts } from '../../../../bench/report/charts.ts'
import { htmlPage } from '../../../../bench/report/html.ts'
import { compactJson, makeReport, type Report } from '../../../../bench/report/report.ts'
import { keepReport, writePage } from '../../../../bench/report/results-folder.ts'
import { roundOrder } from '../../../../bench/round-order.ts'
import type { Measurement } from '../../../../bench/scenario.ts'
import { newRowsGoals } from '../../../../bench/scenarios/comparisons.ts'
import { summarizeLatency } from '../../../../bench/statistics.ts'

function measurement(seconds: number, cpu: number): Measurement {
  const moments = Array.from({ length: 20 }, (_, i) => (i / 19) * seconds)
  return {
    seconds,
    rows: 1_000_000,
    client_us_per_row: cpu,
    server_us_per_row: cpu,
    processes: {
      engine: { cpu_seconds: cpu, peak_memory_mb: 300 },
      mongod: { cpu_seconds: cpu, peak_memory_mb: 900 },
    },
    timeline: {
      seconds: moments,
      rows: moments.map((moment) => (moment / seconds) * 1_000_000),
      cpu_seconds: { engine: moments, mongod: moments },
    },
    times: { 'a batch': [3, 1, 2] },
    is_right: true,
  }
}

const run = () => Promise.reject(new Error('nothing is run here'))

/** Ours takes 10, 20 and 40 s, the other contender twice as long each time. */
function exampleReport(): Report {
  const seconds = [20, 10, 40]
  const particulars = {
    benchmark: 'new-rows',
    summary: 'ours against others',
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
    versions: { rollcall: '1.0.0 (abc1234)', node: '26' },
    transcript: ['</script><b>'],
  }
  const other = { name: 'mongoimport insert', version: 'mongoimport 100.9.4', run }
  const compared = compareRounds(
    [
      [{ name: 'rollcall', run }, seconds.map((value) => measurement(value, 10))],
      [other, seconds.map((value) => measurement(value * 2, 30))],
    ],
    'a batch',
  )
  const goals = newRowsGoals(compared)
  return makeReport(particulars, { mongodb: '6.0.5', rows: 1_000_000, is_right: true, ...compared, goals })
}

t.test('a report takes ratios within rounds, and keeps every round with its moments', async (t) => {
  const { comparisons, contenders, versions } = JSON.parse(compactJson(exampleReport())) as Report
  t.match(comparisons, [{ of: 'rollcall', to: 'mongoimport insert', speed: { median: 2, min: 2, max: 2 } }])
  t.match(comparisons[0]?.cpu, { median: 3 })
  t.match(contenders[0], {
    rows_per_second: { median: 50_000, min: 25_000, max: 100_000 },
    peak_memory_mb: { engine: 300, mongod: 900 },
  })
  t.equal(contenders[1]?.rounds[0]?.timeline.rows?.length, 20)
  t.match(versions, { 'mongodb server': '6.0.5', mongoimport: '100.9.4', node: '26' })
})

/** Titles of the plots, all of whose points are numbers. */
function titles(t: Test, report: Report): string[] {
  const charts = drawCharts(report)
  for (const { data } of charts)
    for (const { x, y } of data.datasets.flatMap((line) => line.data as { x: number; y: number }[]))
      t.ok(Number.isFinite(x) && Number.isFinite(y))
  return charts.map(({ options }) => String(options?.plugins?.title?.text))
}

t.test('a page has its plots, needs no other file, and no text breaks it', async (t) => {
  const report = exampleReport()
  t.strictSame(titles(t, report), [
    'Throughput over time, in the middle round',
    'Time of a batch',
    'Cores in use over time, in the middle round',
  ])
  const page = htmlPage(report)
  t.notMatch(page, /<b>|(?:src|href)=/)
  t.match(page, /npm run bench -- new-rows --rows 1000000 --rounds 3/)
  t.match(page, /<td>rollcall<\/td>/)
  const scripts = page.match(/<script>[^]*?<\/script>/g) ?? []
  t.equal(scripts.length, 2)
  for (const script of scripts) t.doesNotThrow(() => new Script(script.slice(8, -9)))
})

t.test('times that name a plot of their own are drawn there', async (t) => {
  const report: Report = {
    ...exampleReport(),
    contenders: [],
    latencies: [
      { name: 'read', ...summarizeLatency('a request', [1, 2]) },
      { name: 'read', plot: 'during an import', ...summarizeLatency('a request', [3, 4]) },
    ],
  }
  t.strictSame(titles(t, report), ['Time of a request', 'During an import. Time of a request'])
})

t.test('the page of results is made of what is kept', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-results-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const shown = ['new-rows', 'overwriting']
  const page = await readFile(await keepReport(folder, shown, exampleReport()), 'utf8')
  const [, head = '', rest = ''] = /^# Results\n\n([^]*?)\n\n([^]*)$/.exec(page) ?? []
  t.equal(head.split('\n').length, 3, 'the first table has a line for each goal of its own that was measured')
  const headline =
    / 50,000 rows\/s \| mongoimport insert: 25,000 rows\/s \| +2\.00 \| at least 1\.60x \| +met \|/
  t.match(head, headline)
  t.match(
    rest,
    /^```text\nnew-rows, rows a second\n {2}rollcall +█{40} 50,000\n {2}mongoimport insert +█{20} 25,000\n```/,
  )
  t.match(rest, /\| new rows +\| +mongoimport insert +\| at least 1\.60x \| +2\.00x \| +met \|/)
  t.match(
    rest,
    /\| new rows, made beforehand elsewhere +\| +insertMany in file order +\| at least 1\.05x \| not measured \| +\|/,
  )
  t.match(
    rest,
    /^Measured with Rollcall 1\.0\.0 \(abc1234\): new-rows\. Without a result here: overwriting\.$/m,
  )
  const files = await readdir(path.join(folder, 'results'))
  t.strictSame(files.sort(), ['new-rows.html', 'new-rows.json'])
  t.strictSame((await readdir(folder)).sort(), ['RESULTS.json', 'RESULTS.md', 'results'])

  await rm(path.join(folder, 'results'), { recursive: true })
  const once = await readFile(await writePage(folder, shown), 'utf8')
  t.equal(once, page, 'what is kept in git is enough')
  const second = await keepReport(folder, shown, { ...exampleReport(), benchmark: 'overwriting' })
  t.match(await readFile(second, 'utf8'), /## new-rows[^]*## overwriting/, 'another run keeps what was there')
})

t.test('the guard finds a slowdown of a fifth, or two thirds elsewhere, by client and server', async (t) => {
  const makeRounds = (client: number, elapsed = 15): Rounds =>
    Object.fromEntries(
      works.map((work) => [
        work,
        [1, 5, 2].map((noise) => ({
          ours: { client: client * noise, server: 10 * noise, elapsed: elapsed * noise },
          peer: { client: 40 * noise, server: 80 * noise, elapsed: 150 * noise },
        })),
      ]),
    ) as unknown as Rounds
  const recorded = computeRatios(makeRounds(20))
  t.match(recorded, { 'new rows, client': 2, 'new rows, server': 8, 'new rows, elapsed': 10 })
  const fallen = (
    client: number,
    shares: { cpu: number; elapsed: number } = minShares.here,
    elapsed?: number,
  ) =>
    judge(recorded, computeRatios(makeRounds(client, elapsed)), shares)
      .filter(({ hasFallen }) => hasFallen)
      .map(({ name }) => name)
  t.strictSame(fallen(24), [])
  const clients = ['new rows, client', 'overwriting, client', 'all skipped, client']
  t.strictSame(fallen(26), clients)
  t.strictSame(fallen(33, minShares.elsewhere), [])
  t.strictSame(fallen(34, minShares.elsewhere), clients)
  const times = ['new rows, elapsed', 'overwriting, elapsed', 'all skipped, elapsed']
  t.strictSame(fallen(20, minShares.here, 27), [], 'a neighbour on one of two cores')
  t.strictSame(fallen(20, minShares.here, 28), times, 'a wait that costs no CPU time')
  t.strictSame(fallen(20, minShares.elsewhere, 37), [])
  t.strictSame(fallen(20, minShares.elsewhere, 38), times)
  const once = combineRatios([computeRatios(makeRounds(26)), computeRatios(makeRounds(21))], Math.max)
  t.ok(
    judge(recorded, once, minShares.here).every(({ hasFallen }) => !hasFallen),
    'a neighbour that is gone',
  )
  t.ok(
    judge(recorded, {} as Ratios, minShares.elsewhere).every(({ hasFallen }) => hasFallen),
    'what was not measured has fallen',
  )
})

t.test('in as many rounds as there are contenders each takes each position once', async (t) => {
  for (const contenders of [
    ['a', 'b'],
    ['a', 'b', 'c', 'd'],
    ['a', 'b', 'c', 'd', 'e'],
  ]) {
    const rounds = contenders.map((_, round) => roundOrder(contenders, round))
    for (const order of rounds) t.strictSame(order.toSorted(), contenders)
    for (const position of contenders.keys())
      t.equal(new Set(rounds.map((order) => order[position])).size, contenders.length)
    const before = rounds.flatMap((order) => order.slice(1).map((one, i) => `${order[i]}${one}`))
    t.ok(new Set(before).size > contenders.length || before.length === 2, 'and follows different ones')
  }
})

t.test('the guard judges a machine by the record of its kind, and one without by the lowest of all', (t) => {
  const machine = (cpu: string, cores = 2): Machine => ({ ...readMachine(), cpu, cores })
  const ratios = (client: number, server: number) =>
    Object.fromEntries(
      works.flatMap((work) => [
        [`${work}, client`, client],
        [`${work}, server`, server],
        [`${work}, elapsed`, 3],
      ]),
    ) as Ratios
  const recordFor = (of: Machine, client: number, server: number): RecordedRatios => ({
    at: '2026-11-23T00:00:00.000Z',
    machine: of,
    versions: { rollcall: '0.1.0' },
    rows: 60_000,
    rounds: 3,
    ratios: ratios(client, server),
  })
  const [one, other] = [recordFor(machine('one'), 2, 9), recordFor(machine('other'), 3, 5)]
  const both = withRecord(withRecord([], one), other)
  t.strictSame(recordsFor(machine('other'), both), [other])
  t.strictSame(recordsFor(machine('other', 4), both), [one, other])
  const lowest = combineRatios(
    both.map((record) => record.ratios),
    Math.min,
  )
  t.strictSame(lowest, ratios(2, 5))
  const anew = recordFor(machine('one'), 4, 8)
  t.strictSame(withRecord(both, anew), [anew, other], 'in the place of the one before')
  t.end()
})
