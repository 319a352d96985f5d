import path from 'node:path'
import { parseArgs } from 'node:util'
import { comparison } from './compare.ts'
import { exitAfter } from './interrupt.ts'
import { Cannon } from './load/cannon.ts'
import { makeOperations } from './load/operations.ts'
import { loadSubscribers } from './load/subscribers.ts'
import { measure } from './measure.ts'
import { rollcallImport } from './rollcall-import.ts'
import { alternate } from './round-order.ts'
import type { Measured } from './scenario.ts'
import { rollcallWorks } from './scenarios/comparisons.ts'
import { checkSmallImports, importMany } from './scenarios/many-small.ts'
import { withService, type Service } from './service.ts'
import { percentile } from './statistics.ts'

/**
 * The CPU time of rows, of imports of 500 rows and of the requests of `requests` in this tree and in another one, which
 * has its own node_modules: of the engine, the control plane and the server together, of requests without the engine.
 * The trees take turns on one MongoDB server, so that a machine whose speed drifts slows both alike.
 * `node bench/two-trees.ts OTHER_TREE [--rows 300000] [--rounds 20] [--only WORDS]`
 */
const text = (value: string) => ({ type: 'string', default: value }) as const
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { rows: text('300000'), rounds: text('20'), only: text('') },
})
const [otherTree] = positionals
if (otherTree === undefined)
  throw new Error('name the folder of the other tree: node bench/two-trees.ts OTHER')
const [rows, rounds] = [Number(values.rows), Number(values.rounds)]
const trees = ['this', 'other'] as const

function show(name: string, ratios: number[]): void {
  const [low, median, high] = [0.25, 0.5, 0.75].map((share) => percentile(ratios, share).toFixed(3))
  console.log(`${name.padEnd(28)} this / other ${median} (quartiles ${low} to ${high})`)
}

const cpuOf = (one: Measured): number => one.client_us_per_row + one.server_us_per_row

/** Each import has new processes. */
async function compareRows(folder: string): Promise<void> {
  const sizes = { rows, rounds: Math.ceil(rounds / 4), seed: 1, folder, say: console.log }
  for (const [name, makeWork] of Object.entries(rollcallWorks).filter(([one]) => one.includes(values.only))) {
    const scenario = comparison({
      name,
      summary: '',
      quick: null,
      defaultRows: rows,
      async prepare(bench) {
        const work = await makeWork(bench)
        return trees.map((tree) =>
          rollcallImport(bench, work, { name: tree, ...(tree === 'other' ? { tree: otherTree! } : {}) }),
        )
      },
    })
    const { contenders = [], is_right } = await scenario.run(sizes)
    if (!is_right) throw new Error(`${name}: a result was wrong`)
    const [ours, theirs] = contenders.map((one) => one.rounds)
    show(
      name,
      ours!.map((one, round) => cpuOf(one) / cpuOf(theirs![round]!)),
    )
  }
}

/** Work that is repeated in processes that stay. */
async function prepareServiceWorks(service: Service, folder: string, cannon: Cannon) {
  const loaded = await loadSubscribers(service, { subscribers: 20_000, seed: 1, folder, say: console.log })
  const { url, authorization, database, processes } = service
  const requestWorks = (await makeOperations(service, loaded, 1)).map(({ name, makeRequests }) => {
    const run = async () => {
      const requests = makeRequests()
      const { done, ...cost } = await measure(database.client, {
        processes: processes.filter((one) => one.name === 'control plane'),
        rows: () => cannon.replies,
        sampleIntervalMs: 60_000,
        do: () => cannon.fire({ url, authorization, connections: 16, seconds: 1, requests }),
      })
      if (done.wrongReplies > 0) throw new Error(`${name}: ${done.wrong[0]}`)
      return cost
    }
    return { name, run }
  })
  const seeds = Array.from({ length: 8 }, (_, i) => i + 1)
  const smallImports = {
    name: '8 imports of 500 rows',
    async run() {
      const { done, ...cost } = await importMany(service, seeds, 1)
      const { wrong } = await checkSmallImports(service, done)
      if (wrong !== null) throw new Error(wrong)
      return cost
    },
  }
  return [smallImports, ...requestWorks].filter(({ name }) => name.includes(values.only))
}

async function compareServices(folder: string): Promise<void> {
  const cannon = new Cannon()
  const [ours, theirs] = [path.join(folder, 'this'), path.join(folder, 'other')]
  await withService({ folder: ours }, (service) => {
    const mongodb = { uri: service.mongodbUri, database: 'other' }
    return withService({ folder: theirs, tree: otherTree!, mongodb }, async (other) => {
      const works = {
        this: await prepareServiceWorks(service, ours, cannon),
        other: await prepareServiceWorks(other, theirs, cannon),
      }
      for (const [i, { name }] of works.this.entries()) {
        const measureOnce = async (tree: (typeof trees)[number]) => cpuOf(await works[tree][i]!.run())
        await alternate(trees, 2, measureOnce)
        const microseconds = await alternate(trees, rounds, measureOnce)
        show(
          name,
          microseconds.this.map((one, round) => one / microseconds.other[round]!),
        )
      }
    })
  })
  await cannon.stop()
}

await exitAfter('rollcall-bench-', async (folder) => {
  await compareServices(folder)
  await compareRows(folder)
  return 0
})
