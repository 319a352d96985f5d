import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { arch, cpus, platform, tmpdir, totalmem } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { openDatabase, type Database } from '../shared/database.ts'
import { messageOf } from '../shared/errors.ts'
import { createLogger } from '../shared/logger.ts'
import { startEmbeddedMongoDB } from '../shared/mongod/embedded-mongodb.ts'
import { defaultCacheFolder, findMongod } from '../shared/mongod/find-mongod.ts'
import { programSearchPath } from '../shared/config.ts'
import { newRows } from './scenarios/new-rows.ts'
import { staging } from './scenarios/staging.ts'
import { subscriberLimit } from './scenarios/subscriber-limit.ts'
import type { BenchContext, Measurement, Scenario } from './scenario.ts'
import { ratios, summarize, type Summary } from './statistics.ts'

/**
 * Runs a benchmark: its contenders in turn, round after round, in an order that changes, on one MongoDB server. What
 * counts is the median over the rounds, with the spread; ratios are taken round by round, because a shared machine is
 * slower today than yesterday.
 */
const scenarios: Scenario[] = [newRows, staging, subscriberLimit]

const { values: given, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rows: { type: 'string' },
    rounds: { type: 'string', default: '3' },
    seed: { type: 'string', default: '1' },
    json: { type: 'string' },
    quiet: { type: 'boolean', default: false },
  },
})
const say = (text: string) => {
  if (!given.quiet) console.log(text)
}
const scenario = scenarios.find((candidate) => candidate.name === positionals[0])
if (scenario === undefined) {
  console.log('npm run bench -- NAME [--rows N] [--rounds N] [--seed N] [--json FILE]\n')
  for (const { name, summary } of scenarios) console.log(`  ${name.padEnd(18)} ${summary}`)
  if (positionals[0] !== undefined) console.error(`\nthere is no benchmark ${positionals[0]}`)
  process.exit(positionals[0] === undefined ? 0 : 2)
}

const rounds = wholeNumber('--rounds', given.rounds)
const rows = given.rows === undefined ? scenario.defaultRows : wholeNumber('--rows', given.rows)
const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-bench-'))
const log = createLogger({ process: 'bench', level: 'warn' })
const stopping = new AbortController()
const server = await startEmbeddedMongoDB({
  dataFolder: folder,
  cacheMB: 2_048,
  findMongod: () =>
    findMongod({
      binarySetting: process.env['MONGOD_BINARY'],
      searchPath: programSearchPath(),
      cacheFolder: process.env['MONGOD_CACHE_DIR'] ?? defaultCacheFolder(),
      log,
      signal: stopping.signal,
    }),
  log,
  signal: stopping.signal,
})
let exitCode = 1
try {
  exitCode = await run(scenario)
} catch (error) {
  console.error(messageOf(error))
} finally {
  await server.stop()
  await rm(folder, { recursive: true, force: true })
}
process.exit(exitCode)

async function run(scenario: Scenario): Promise<number> {
  const admin = await openDatabase({ uri: server.uri, name: 'admin' })
  const machine = {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryGB: Math.round(totalmem() / 1e9),
    system: `${platform()} ${arch()}`,
    node: process.version,
    mongodb: ((await admin.db.command({ buildInfo: 1 })) as { version: string }).version,
  }
  say(`${scenario.name}: ${scenario.summary}`)
  say(
    `${rows.toLocaleString('en')} rows, ${rounds} rounds, seed ${given.seed}; ${machine.cpu}, ${machine.cores} cores, ${machine.memoryGB} GB, Node ${machine.node}, MongoDB ${machine.mongodb}\n`,
  )

  const contenders = await scenario.prepare(contextOn(admin))
  const results = new Map<string, Measurement[]>(contenders.map(({ name }) => [name, []]))
  for (let round = 0; round < rounds; round += 1) {
    // Each begins once as often as the others: who runs first finds another machine.
    const order = contenders.map((_, i) => contenders[(i + round) % contenders.length]!)
    for (const contender of order) {
      const measured = await contender.run()
      results.get(contender.name)!.push(measured)
      say(
        `round ${round + 1}  ${contender.name.padEnd(24)} ${Math.round(measured.rows / measured.seconds)
          .toLocaleString('en')
          .padStart(9)} rows/s  ${measured.seconds.toFixed(1)} s${measured.isRight ? '' : '  WRONG RESULT'}`,
      )
    }
  }
  await admin.close()

  const summaries = contenders.map(({ name }) => ({ name, ...summarize(results.get(name)!) }))
  const [first, ...others] = contenders
  const comparisons = others.map(({ name }) => ({
    of: first!.name,
    to: name,
    ...ratios(results.get(first!.name)!, results.get(name)!),
  }))
  print(summaries, comparisons)
  if (given.json !== undefined) {
    const result = {
      scenario: scenario.name,
      at: new Date().toISOString(),
      rows,
      rounds,
      seed: Number(given.seed),
      machine,
      contenders: summaries,
      comparisons,
      rounds_measured: Object.fromEntries(results),
    }
    await writeFile(given.json, `${JSON.stringify(result, null, 2)}\n`)
  }
  return [...results.values()].flat().every((measured) => measured.isRight) ? 0 : 1
}

function contextOn(admin: Database): BenchContext {
  return {
    rows,
    seed: Number(given.seed),
    folder,
    mongodbUri: server.uri,
    say,
    openDatabase: (name) => openDatabase({ uri: server.uri, name }),
    async serverCpuSeconds() {
      const status = (await admin.db.command({ serverStatus: 1 })) as {
        extra_info: { user_time_us: number; system_time_us: number }
      }
      return (status.extra_info.user_time_us + status.extra_info.system_time_us) / 1e6
    },
  }
}

function print(
  summaries: (Summary & { name: string })[],
  comparisons: { of: string; to: string; median: number; least: number; most: number }[],
): void {
  say('')
  say(
    `${''.padEnd(24)}${['rows/s median', 'least', 'most', 'client us/row', 'server us/row', 'memory MB'].map((title) => title.padStart(15)).join('')}`,
  )
  for (const summary of summaries) {
    const figures = [
      summary.rowsPerSecond.median,
      summary.rowsPerSecond.least,
      summary.rowsPerSecond.most,
    ].map((value) => Math.round(value).toLocaleString('en'))
    const costs = [summary.clientMicroseconds, summary.serverMicroseconds].map((value) => value.toFixed(1))
    say(
      `${summary.name.padEnd(24)}${[...figures, ...costs, String(Math.round(summary.peakMemoryMB))].map((text) => text.padStart(15)).join('')}`,
    )
  }
  say('')
  for (const { of, to, median, least, most } of comparisons)
    say(`${of} / ${to}: ${median.toFixed(2)} (${least.toFixed(2)} to ${most.toFixed(2)})`)
}

function wholeNumber(name: string, text: string): number {
  if (/^[1-9]\d{0,9}$/.test(text)) return Number(text)
  console.error(`${name} must be a positive integer, not ${text}`)
  process.exit(2)
}
