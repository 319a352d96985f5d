import { openDatabase } from '../shared/runtime/database.ts'
import { createLogger } from '../shared/runtime/logger.ts'
import { startEmbeddedMongoDB } from '../shared/runtime/mongod/embedded-mongodb.ts'
import { findMongod } from '../shared/runtime/mongod/find-mongod.ts'
import { endOnInterrupt, unlessInterrupted } from './interrupt.ts'
import { measure } from './measure.ts'
import { serverCpuSeconds, serverVersion } from './mongodb-server.ts'
import type { BenchContext, Comparison, Contender, Measurement, StudyOptions } from './scenario.ts'
import { turns } from './turns.ts'

/**
 * Runs a comparison: its contenders in turn, round after round, in an order that changes, on one MongoDB server. What
 * counts is the median over the rounds, with the spread; ratios are taken round by round (report/report.ts), because a
 * shared machine is slower today than yesterday.
 */
export async function compare(comparison: Comparison, options: StudyOptions): Promise<Compared> {
  const { defaultRows, cacheMB = 2_048 } = comparison
  const size = { rows: options.rows ?? defaultRows, cacheMB }
  return onServer({ ...options, ...size }, async (context, mongodb) => ({
    mongodb,
    ...(await runRounds(comparison, context, options)),
  }))
}

/** Does work on a MongoDB server of its own, in the scratch folder. */
export async function onServer<T>(
  options: { rows: number; seed: number; cacheMB: number; folder: string; say: (text: string) => void },
  work: (context: BenchContext, version: string) => Promise<T>,
): Promise<T> {
  const { cacheMB, folder } = options
  const log = createLogger({ process: 'bench', level: 'warn' })
  const starting = new AbortController()
  const { signal } = starting
  const started = startEmbeddedMongoDB({
    dataFolder: folder,
    cacheMB,
    findMongod: () =>
      findMongod({
        binarySetting: process.env['MONGOD_BINARY'],
        cacheFolder: process.env['MONGOD_CACHE_DIR'],
        log,
        signal,
      }),
    log,
    signal,
  })
  const end = () =>
    started.then(
      (server) => server.stop(),
      () => undefined,
    )
  const forget = endOnInterrupt(() => {
    starting.abort()
    return end()
  })
  try {
    const { uri } = await started
    await unlessInterrupted()
    return await workOn(uri, options, work)
  } finally {
    await end()
    forget()
  }
}

async function workOn<T>(
  uri: string,
  { rows, seed, folder, say }: { rows: number; seed: number; folder: string; say: (text: string) => void },
  work: (context: BenchContext, version: string) => Promise<T>,
): Promise<T> {
  const admin = await openDatabase({ uri, name: 'admin' })
  const context: BenchContext = {
    rows,
    seed,
    folder,
    mongodbUri: uri,
    say,
    openDatabase: (name) => openDatabase({ uri, name }),
    serverCpuSeconds: () => serverCpuSeconds(admin.client),
    measure: (measured) => measure(admin.client, measured.rows ?? rows, measured),
  }
  try {
    return await work(context, await serverVersion(admin.client))
  } finally {
    await admin.close()
  }
}

/** What each contender came to, and each round of it. */
export interface Compared {
  mongodb: string
  rows: number
  isRight: boolean
  contenders: (Contender & { measured: Measurement[] })[]
}

async function runRounds(
  comparison: Comparison,
  context: BenchContext,
  { rounds, say }: StudyOptions,
): Promise<Omit<Compared, 'mongodb'>> {
  say(`${context.rows.toLocaleString('en')} rows, ${rounds} rounds, seed ${context.seed}\n`)
  const contenders = await comparison.prepare(context)
  const results = new Map<string, Measurement[]>(contenders.map(({ name }) => [name, []]))
  for (let round = 0; round < rounds; round += 1) {
    for (const contender of turns(contenders, round, context.seed)) {
      const measured = await contender.run()
      results.get(contender.name)!.push(measured)
      say(
        `round ${round + 1}  ${contender.name.padEnd(24)} ${Math.round(measured.rows / measured.seconds)
          .toLocaleString('en')
          .padStart(9)} rows/s  ${measured.seconds.toFixed(1)} s${measured.isRight ? '' : '  WRONG RESULT'}`,
      )
    }
  }
  return {
    rows: context.rows,
    isRight: [...results.values()].flat().every(({ isRight }) => isRight),
    contenders: contenders.map((contender) => ({ ...contender, measured: results.get(contender.name)! })),
  }
}
