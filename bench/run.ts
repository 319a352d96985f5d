import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { messageOf } from '../shared/errors.ts'
import { benchmarks } from './benchmarks.ts'
import { compare } from './compare.ts'
import { describeMachine, loadAverage, versions } from './machine.ts'
import { htmlPage } from './report/html.ts'
import {
  compactJson,
  reportOfComparison,
  reportOfStudy,
  type Particulars,
  type Report,
} from './report/report.ts'
import { describe, tablesOf } from './report/text.ts'
import type { Comparison, Study, StudyOptions } from './scenario.ts'

/** Runs a benchmark by its name, and says and writes down what it did, on which machine, and what came of it. */
const { values: given, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rows: { type: 'string' },
    rounds: { type: 'string', default: '3' },
    seed: { type: 'string', default: '1' },
    subscribers: { type: 'string', default: '200000' },
    connections: { type: 'string', default: '16' },
    seconds: { type: 'string', default: '5' },
    only: { type: 'string' },
    data: { type: 'string' },
    json: { type: 'string' },
    html: { type: 'string' },
    quiet: { type: 'boolean', default: false },
  },
})
const transcript: string[] = []
const say = (text: string) => {
  transcript.push(text)
  if (!given.quiet) console.log(text)
}
const benchmark = benchmarks.find((candidate) => candidate.name === positionals[0])
if (benchmark === undefined) {
  console.log(`npm run bench -- NAME [--rows N] [--rounds N] [--seed N] [--json FILE] [--html FILE] [--quiet]
                      requests also: [--subscribers N] [--connections N] [--seconds N] [--only WORD] [--data FOLDER]\n`)
  for (const { name, summary } of benchmarks) console.log(`  ${name.padEnd(18)} ${summary}`)
  if (positionals[0] !== undefined) console.error(`\nthere is no benchmark ${positionals[0]}`)
  process.exit(positionals[0] === undefined ? 0 : 2)
}

const options: Omit<StudyOptions, 'folder'> = {
  rounds: wholeNumber('--rounds', given.rounds),
  rows: given.rows === undefined ? null : wholeNumber('--rows', given.rows),
  seed: wholeNumber('--seed', given.seed),
  subscribers: wholeNumber('--subscribers', given.subscribers),
  connections: wholeNumber('--connections', given.connections),
  seconds: wholeNumber('--seconds', given.seconds),
  only: given.only ?? null,
  data: given.data === undefined ? null : path.resolve(given.data),
  say,
}
const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-bench-'))
let exitCode = 1
try {
  const report = await run(benchmark, { ...options, folder })
  if (given.json !== undefined) await writeFile(given.json, compactJson(report))
  if (given.html !== undefined) await writeFile(given.html, htmlPage(report))
  exitCode = report.is_right ? 0 : 1
} catch (error) {
  console.error(messageOf(error))
} finally {
  await rm(folder, { recursive: true, force: true })
}
process.exit(exitCode)

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
    return reportOfStudy(particulars, outcome)
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
    ...('run' in benchmark ? { subscribers, connections, seconds } : {}),
    ...(only === null ? {} : { only }),
  }
}

function wholeNumber(name: string, text: string): number {
  if (/^[1-9]\d{0,9}$/.test(text)) return Number(text)
  console.error(`${name} must be a positive integer, not ${text}`)
  process.exit(2)
}
