import { openDatabase, type Database } from '../shared/database.ts'
import { createLogger } from '../shared/logger.ts'
import { startEmbeddedMongoDB } from '../shared/mongod/embedded-mongodb.ts'
import { defaultCacheFolder, findMongod } from '../shared/mongod/find-mongod.ts'
import { programSearchPath } from '../shared/config.ts'
import { serverCpuSeconds, serverVersion } from './mongodb-server.ts'
import type { BenchContext, Comparison, Measurement, Outcome, StudyOptions } from './scenario.ts'
import { ratios, summarize, type Summary } from './statistics.ts'

/**
 * Runs a comparison: its contenders in turn, round after round, in an order that changes, on one MongoDB server. What
 * counts is the median over the rounds, with the spread; ratios are taken round by round, because a shared machine is
 * slower today than yesterday.
 */
export async function compare(comparison: Comparison, options: StudyOptions): Promise<Outcome> {
  const log = createLogger({ process: 'bench', level: 'warn' })
  const { signal } = new AbortController()
  const server = await startEmbeddedMongoDB({
    dataFolder: options.folder,
    cacheMB: 2_048,
    findMongod: () =>
      findMongod({
        binarySetting: process.env['MONGOD_BINARY'],
        searchPath: programSearchPath(),
        cacheFolder: process.env['MONGOD_CACHE_DIR'] ?? defaultCacheFolder(),
        log,
        signal,
      }),
    log,
    signal,
  })
  const admin = await openDatabase({ uri: server.uri, name: 'admin' })
  try {
    const { isRight, result } = await runRounds(
      comparison,
      contextOn(admin, server.uri, comparison, options),
      options,
    )
    return { isRight, result: { mongodb: await serverVersion(admin.client), ...result } }
  } finally {
    await admin.close()
    await server.stop()
  }
}

async function runRounds(
  comparison: Comparison,
  context: BenchContext,
  { rounds, say }: StudyOptions,
): Promise<Outcome> {
  say(`${context.rows.toLocaleString('en')} rows, ${rounds} rounds, seed ${context.seed}\n`)
  const contenders = await comparison.prepare(context)
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

  const summaries = contenders.map(({ name }) => ({ name, ...summarize(results.get(name)!) }))
  const [first, ...others] = contenders
  const comparisons = others.map(({ name }) => ({
    of: first!.name,
    to: name,
    ...ratios(results.get(first!.name)!, results.get(name)!),
  }))
  print(summaries, comparisons, say)
  return {
    isRight: [...results.values()].flat().every((measured) => measured.isRight),
    result: {
      rows: context.rows,
      contenders: summaries,
      comparisons,
      rounds_measured: Object.fromEntries(results),
    },
  }
}

function contextOn(
  admin: Database,
  mongodbUri: string,
  { defaultRows }: Comparison,
  { rows, seed, folder, say }: StudyOptions,
): BenchContext {
  return {
    rows: rows ?? defaultRows,
    seed,
    folder,
    mongodbUri,
    say,
    openDatabase: (name) => openDatabase({ uri: mongodbUri, name }),
    serverCpuSeconds: () => serverCpuSeconds(admin.client),
  }
}

function print(
  summaries: (Summary & { name: string })[],
  comparisons: { of: string; to: string; median: number; least: number; most: number }[],
  say: (text: string) => void,
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
