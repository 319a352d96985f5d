import { openDatabase } from '../shared/runtime/database.ts'
import { createLogger } from '../shared/runtime/logger.ts'
import { startEmbeddedMongoDB } from '../shared/runtime/mongod/embedded-mongodb.ts'
import { findMongod } from '../shared/runtime/mongod/find-mongod.ts'
import { endOnInterrupt, interrupted, unlessInterrupted } from './interrupt.ts'
import { serverVersion } from './mongodb-server.ts'
import { whole } from './report/text.ts'
import { roundOrder } from './round-order.ts'
import type { Bench, Contender, MeasuredContender, Outcome, Scenario } from './scenario.ts'

interface Comparison extends Omit<Scenario, 'quick' | 'run'> {
  quick?: null
  defaultRows: number
  /** Cache of the MongoDB server in MiB, 2048 by default. */
  cacheMB?: number
  prepare: (bench: Bench) => Promise<Contender[]>
}

/**
 * A scenario whose contenders do the same work in alternating order, round after round, on one MongoDB server. A shared
 * machine changes its speed, so ratios are taken within a round (report/report.ts).
 */
export function comparison(compared: Comparison): Scenario {
  const { defaultRows, cacheMB = 2_048, quick = ['--rows', '50000'], prepare, ...described } = compared
  return {
    ...described,
    quick,
    run: (options) =>
      onServer({ ...options, rows: options.rows ?? defaultRows, cacheMB }, (bench) =>
        runRounds(bench, prepare, options.rounds),
      ),
  }
}

async function runRounds(bench: Bench, prepare: Comparison['prepare'], rounds: number): Promise<Outcome> {
  const { rows, seed, say } = bench
  say(`${whole(rows)} rows, ${rounds} rounds, seed ${seed}\n`)
  const contenders: MeasuredContender[] = (await prepare(bench)).map((one) => ({ ...one, measured: [] }))
  for (let round = 0; round < rounds; round += 1)
    for (const { name, run, measured } of roundOrder(contenders, round, seed)) {
      const one = await run()
      measured.push(one)
      const rate = whole(one.rows / one.seconds).padStart(9)
      const verdict = one.isRight ? '' : '  WRONG RESULT'
      say(`round ${round + 1}  ${name.padEnd(24)} ${rate} rows/s  ${one.seconds.toFixed(1)} s${verdict}`)
    }
  return {
    mongodb: await serverVersion(bench.server),
    rows,
    isRight: contenders.every(({ measured }) => measured.every(({ isRight }) => isRight)),
    contenders,
  }
}

type ServerOptions = Pick<Bench, 'rows' | 'seed' | 'folder' | 'say'> & { cacheMB: number }

/** Does work on a MongoDB server of its own, whose data are in the scratch folder. */
export async function onServer<T>(
  { rows, seed, folder, say, cacheMB }: ServerOptions,
  work: (bench: Bench) => Promise<T>,
): Promise<T> {
  const log = createLogger({ process: 'bench', level: 'warn' })
  const search = {
    binarySetting: process.env['MONGOD_BINARY'],
    cacheFolder: process.env['MONGOD_CACHE_DIR'],
    log,
    signal: interrupted,
  }
  const starting = startEmbeddedMongoDB({
    dataFolder: folder,
    cacheMB,
    findMongod: () => findMongod(search),
    log,
    signal: interrupted,
  })
  const end = async () => (await starting.catch(() => null))?.stop()
  const unregister = endOnInterrupt(end)
  try {
    const { uri } = await starting
    await unlessInterrupted()
    const open = (name: string) => openDatabase({ uri, name })
    const admin = await open('admin')
    const { client: server } = admin
    try {
      return await work({ rows, seed, folder, say, mongodbUri: uri, server, openDatabase: open })
    } finally {
      await admin.close()
    }
  } finally {
    await end()
    unregister()
  }
}
