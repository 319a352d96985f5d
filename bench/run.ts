import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { benchmarks } from './benchmarks.ts'
import { compare } from './compare.ts'
import { exitAfter } from './interrupt.ts'
import { describeMachine, loadAverage, versions } from './machine.ts'
import { htmlPage } from './report/html.ts'
import {
  compactJson,
  reportOfComparison,
  reportOfStudy,
  type Particulars,
  type Report,
} from './report/report.ts'
import { describe, describeVersions, tablesOf } from './report/text.ts'
import { quickArgs, quickFolder, runAll } from './run-all.ts'
import type { Comparison, Study, StudyOptions } from './scenario.ts'

/** Runs a benchmark by its name, and says and writes down what it did, on which machine, and what came of it. */
const sizes = {
  rows: { type: 'string' },
  rounds: { type: 'string' },
  seed: { type: 'string' },
  subscribers: { type: 'string' },
  connections: { type: 'string' },
  seconds: { type: 'string' },
} as const
const { values: given, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    ...sizes,
    only: { type: 'string' },
    data: { type: 'string' },
    json: { type: 'string' },
    html: { type: 'string' },
    out: { type: 'string' },
    quick: { type: 'boolean', default: false },
    quiet: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  },
})
const transcript: string[] = []
const say = (text: string) => {
  transcript.push(text)
  if (!given.quiet) console.log(text)
}
const [name] = positionals
const benchmark = benchmarks.find((candidate) => candidate.name === name)
const isKnown = benchmark !== undefined || name === 'all' || name === 'results'
if (!isKnown || given.help) {
  console.log(`npm run bench -- NAME [--rows N] [--rounds N] [--seed N] [--json FILE] [--html FILE] [--quiet]
                      requests also: [--subscribers N[,N ...]] [--connections N] [--seconds N] [--only WORD] [--data FOLDER];
                      delivery-events and reactions [--seconds N]
npm run bench -- all [--quick] [--only NAME,NAME] [--out FOLDER]
                      each in turn, and then the page bench/RESULTS.md (bench/quick/RESULTS.md with --quick);
                      options of the benchmarks are passed on
npm run bench -- results [--quick] [--out FOLDER]
                      the page once more, of the figures that are there\n`)
  for (const { name, summary } of benchmark === undefined ? benchmarks : [benchmark])
    console.log(`  ${name.padEnd(18)} ${summary}`)
  if (name !== undefined && !isKnown) console.error(`\nthere is no benchmark ${name}`)
  process.exit(name === undefined || isKnown ? 0 : 2)
}

if (benchmark === undefined && (given.json !== undefined || given.html !== undefined))
  refuse(`--json and --html are of one benchmark: ${name} writes its own files, into --out`)
const quick = given.quick && benchmark !== undefined ? quickArgs(benchmark) : []
if (quick === null) refuse(`${name} can't be quick; --rows and --rounds make it smaller`)
// What is given by hand stands before what quick means.
const size = { ...parseArgs({ args: quick, options: sizes }).values, ...given }
const { rounds = '3', seed = '1', subscribers = '200000', connections = '16', seconds = '5' } = size
const options: Omit<StudyOptions, 'folder'> = {
  rounds: wholeNumber('--rounds', rounds),
  rows: size.rows === undefined ? null : wholeNumber('--rows', size.rows),
  seed: wholeNumber('--seed', seed),
  subscribers: subscribers.split(',').map((number) => wholeNumber('--subscribers', number)),
  connections: wholeNumber('--connections', connections),
  seconds: wholeNumber('--seconds', seconds),
  only: given.only ?? null,
  data: given.data === undefined ? null : path.resolve(given.data),
  say,
}
await exitAfter('rollcall-bench-', (folder) =>
  benchmark === undefined ? runMany(folder) : runOne(benchmark, folder),
)

async function runOne(benchmark: Comparison | Study, folder: string): Promise<number> {
  const report = await run(benchmark, { ...options, folder })
  if (given.json !== undefined) await writeFile(given.json, compactJson(report))
  if (given.html !== undefined) await writeFile(given.html, htmlPage(report))
  return report.is_right ? 0 : 1
}

async function runMany(folder: string): Promise<number> {
  const usual = given.quick ? quickFolder : import.meta.dirname
  const out = given.out === undefined ? usual : path.resolve(given.out)
  const only = name === 'results' ? [] : (given.only?.split(',') ?? null)
  const unknown = only?.find((wanted) => benchmarks.every((known) => known.name !== wanted))
  if (unknown !== undefined) throw new Error(`there is no benchmark ${unknown}`)
  const passedOn = ['rows', 'rounds', 'seed', 'subscribers', 'connections', 'seconds', 'data'] as const
  const args = passedOn.flatMap((option) =>
    given[option] === undefined ? [] : [`--${option}`, given[option]],
  )
  const failed = await runAll({ only, isQuick: given.quick, args, out, folder })
  if (failed.length > 0) console.error(`failed, their earlier results stay: ${failed.join(', ')}`)
  return failed.length > 0 ? 1 : 0
}

async function run(benchmark: Comparison | Study, settled: StudyOptions): Promise<Report> {
  const particulars: Particulars = {
    benchmark: benchmark.name,
    summary: benchmark.summary,
    startedAt: performance.now(),
    work: workOf(benchmark, settled),
    machine: describeMachine(),
    versions: versions(),
    transcript,
  }
  const { machine } = particulars
  say(`${benchmark.name}: ${benchmark.summary}`)
  say(`${describe(machine)}, load average ${machine.load_average_before.toFixed(1)}`)
  if ('run' in benchmark) {
    const outcome = await benchmark.run(settled)
    machine.load_average_after = loadAverage()
    const report = reportOfStudy(particulars, outcome)
    say(describeVersions(report.versions))
    return report
  }
  const compared = await compare(benchmark, settled)
  machine.load_average_after = loadAverage()
  const report = reportOfComparison(particulars, compared)
  for (const line of tablesOf(report)) say(line)
  return report
}

/** What the benchmark was told; each knows which of it matters to it. */
function workOf(benchmark: Comparison | Study, settled: StudyOptions): Record<string, string | number> {
  const { rounds, seed, rows, subscribers, connections, seconds, only } = settled
  return {
    ...(rows === null ? {} : { rows }),
    rounds,
    seed,
    ...('run' in benchmark ? { subscribers: subscribers.join(','), connections, seconds } : {}),
    ...(only === null ? {} : { only }),
  }
}

function wholeNumber(name: string, text: string): number {
  if (/^[1-9]\d{0,9}$/.test(text)) return Number(text)
  return refuse(`${name} must be a positive integer, not ${text}`)
}

function refuse(sentence: string): never {
  console.error(sentence)
  process.exit(2)
}
