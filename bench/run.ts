import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { arch, cpus, loadavg, platform, tmpdir, totalmem } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { messageOf } from '../shared/errors.ts'
import { compare } from './compare.ts'
import { deliveryEvents } from './scenarios/delivery-events.ts'
import { ftpUploads } from './scenarios/ftp-uploads.ts'
import { newRows } from './scenarios/new-rows.ts'
import { reactions } from './scenarios/reactions.ts'
import { requests } from './scenarios/requests.ts'
import { staging } from './scenarios/staging.ts'
import { subscriberLimit } from './scenarios/subscriber-limit.ts'
import type { Comparison, Study, StudyOptions } from './scenario.ts'

/** Runs a benchmark by its name, and writes down on which machine. */
const benchmarks: (Comparison | Study)[] = [
  newRows,
  staging,
  subscriberLimit,
  requests,
  deliveryEvents,
  ftpUploads,
  reactions,
]

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
    quiet: { type: 'boolean', default: false },
  },
})
const say = (text: string) => {
  if (!given.quiet) console.log(text)
}
const benchmark = benchmarks.find((candidate) => candidate.name === positionals[0])
if (benchmark === undefined) {
  console.log(`npm run bench -- NAME [--rows N] [--rounds N] [--seed N] [--json FILE]
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
  exitCode = await run(benchmark)
} catch (error) {
  console.error(messageOf(error))
} finally {
  await rm(folder, { recursive: true, force: true })
}
process.exit(exitCode)

async function run(benchmark: Comparison | Study): Promise<number> {
  const machine = {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryGB: Math.round(totalmem() / 1e9),
    system: `${platform()} ${arch()}`,
    node: process.version,
    load_average_before: loadavg()[0]!,
  }
  say(`${benchmark.name}: ${benchmark.summary}`)
  say(
    `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGB} GB, Node ${machine.node}, load average ${machine.load_average_before.toFixed(1)}`,
  )
  const settled = { ...options, folder }
  const { isRight, result } =
    'run' in benchmark ? await benchmark.run(settled) : await compare(benchmark, settled)
  if (given.json !== undefined) {
    const { rounds, seed } = options
    const report = {
      scenario: benchmark.name,
      at: new Date().toISOString(),
      rounds,
      seed,
      machine,
      ...result,
    }
    await writeFile(given.json, `${JSON.stringify(report, null, 2)}\n`)
  }
  return isRight ? 0 : 1
}

function wholeNumber(name: string, text: string): number {
  if (/^[1-9]\d{0,9}$/.test(text)) return Number(text)
  console.error(`${name} must be a positive integer, not ${text}`)
  process.exit(2)
}
