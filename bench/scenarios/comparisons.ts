import { comparison, type MeasuredRounds } from '../compare.ts'
import { writeFileTwice, writeSubscriberFile } from '../datasets/subscriber-file.ts'
import { bulkWritePeer } from '../peers/bulk-write.ts'
import { insertManyPeer } from '../peers/insert-many.ts'
import { mongoimportPeers } from '../peers/mongoimport.ts'
import { whole } from '../report/text.ts'
import { rollcallImport, type ImportWork } from '../rollcall-import.ts'
import type { Bench, Goal } from '../scenario.ts'
import { spread } from '../statistics.ts'

const million = 1_000_000

/** Goals that are multiples of the speed of contenders. */
const faster =
  (work: string, goals: { min: number; name: string; against?: string }[]) =>
  ({ comparisons }: MeasuredRounds): Goal[] =>
    goals.map(({ min, name, against = name }) => {
      const measured = comparisons.find(({ to }) => to === name)?.speed ?? null
      return { work, against, min, unit: 'x', set_for: million, measured }
    })

/** What Rollcall does in three of the comparisons. */
export const rollcallWorks = {
  // Without duplicates: for each of them mongoimport would write 500 rows again, row by row.
  'new rows': (bench: Bench): Promise<ImportWork> => writeSubscriberFile(bench, { defects: false }),
  async overwriting(bench: Bench) {
    const { before, dataset, file } = await writeFileTwice(bench)
    // Without `overwrite_what` an import leaves the subscribe times.
    const subscribeTimes = before.dataset
    return { before, dataset, file, overwrite: true, expected: { updated: dataset.rows }, subscribeTimes }
  },
  /** The file that comes every night: all of its rows are subscribers of the list, and nothing is overwritten. */
  async 'all skipped'(bench: Bench) {
    const { before, dataset, file } = await writeFileTwice(bench)
    return { before, dataset, file, expected: { skipped_overwrite: dataset.rows }, leaves: before.dataset }
  },
}

export const newRowsGoals = faster('new rows', [
  { min: 1.25, name: 'mongoimport insert', against: 'mongoimport insert, unique email index, 4 workers' },
  {
    min: 1,
    name: 'plain insertMany',
    against: 'insertMany of the driver, the same documents in file order, same indexes, 2 threads',
  },
  { min: 3.5, name: 'mongoimport upsert' },
])

export const newRows = comparison({
  name: 'new-rows',
  summary:
    'new rows through the upload directory, against insertMany of the same documents, mongoimport, and csv-parse with bulkWrite',
  goals: newRowsGoals,
  quick: ['--rows', '50000'],
  defaultRows: million,
  async prepare(bench) {
    const work = await rollcallWorks['new rows'](bench)
    return [
      rollcallImport(bench, work),
      insertManyPeer(bench, work.dataset),
      ...(await mongoimportPeers(bench, { ...work, before: undefined, modes: ['insert', 'upsert'] })),
      bulkWritePeer(bench, { ...work, before: undefined, overwrite: true }),
    ]
  },
})

export const overwriting = comparison({
  name: 'overwriting',
  summary:
    'rows that overwrite subscribers, every one of them, against mongoimport and csv-parse with bulkWrite',
  goals: faster('rows overwriting', [
    { min: 1.5, name: 'mongoimport merge' },
    { min: 2.5, name: 'mongoimport upsert' },
  ]),
  quick: ['--rows', '50000'],
  defaultRows: million,
  async prepare(bench) {
    const work = await rollcallWorks.overwriting(bench)
    const peers = { ...work, before: work.before.dataset }
    return [
      rollcallImport(bench, work),
      ...(await mongoimportPeers(bench, { ...peers, modes: ['merge', 'upsert'] })),
      bulkWritePeer(bench, peers),
    ]
  },
})

export const allSkipped = comparison({
  name: 'all-skipped',
  summary:
    'rows that are all there and stay as they are, against new rows, mongoimport, and csv-parse with bulkWrite',
  goals: faster('rows all skipped', [
    { min: 2, name: 'rollcall, new rows', against: 'its own rate for new rows' },
  ]),
  quick: ['--rows', '50000'],
  defaultRows: million,
  async prepare(bench) {
    const work = await rollcallWorks['all skipped'](bench)
    const { dataset, file } = work
    const peers = { dataset, file, before: work.before.dataset }
    return [
      rollcallImport(bench, work),
      rollcallImport(bench, { dataset, file }, { name: 'rollcall, new rows' }),
      ...(await mongoimportPeers(bench, { ...peers, modes: ['insert'] })),
      bulkWritePeer(bench, { ...peers, overwrite: false }),
    ]
  },
})

/** Neither the time of a row nor the engine's memory may grow with the file. */
export const beyondCache = comparison({
  name: 'beyond-cache',
  summary: 'many new rows on a server with 0.5 GB of cache, against a tenth of them there',
  goals({ contenders, comparisons }) {
    const [many = NaN, few = NaN] = contenders.map(({ peak_memory_mb }) => peak_memory_mb['engine'] ?? NaN)
    const work = 'memory of the engine, ten times as many rows'
    const against = 'its own for a tenth of them'
    const goals: Goal[] = [
      {
        work: 'ten times as many new rows, server cache 0.5 GB',
        against: 'its own rate for a tenth of them',
        min: 0.85,
        unit: 'x',
        measured: comparisons[0]?.speed ?? null,
      },
      { work, max: 400, unit: ' MB', measured: spread([many]) },
      { work, against, max: 100, unit: ' MB more', measured: spread([many - few]) },
    ]
    return goals.map((goal) => ({ ...goal, set_for: 10 * million }))
  },
  quick: null,
  defaultRows: 10 * million,
  cacheMB: 512,
  async prepare(bench) {
    const contenders = []
    for (const rows of [bench.rows, Math.ceil(bench.rows / 10)]) {
      const written = await writeSubscriberFile({ ...bench, rows }, { name: `rows-${rows}.csv` })
      contenders.push(rollcallImport(bench, written, { name: `${whole(rows)} rows` }))
    }
    return contenders
  },
})

export const staging = comparison({
  name: 'staging',
  summary: 'new rows through the upload directory, uploads and staged files on disk and in the database',
  quick: ['--rows', '50000'],
  defaultRows: 200_000,
  async prepare(bench) {
    const written = await writeSubscriberFile(bench)
    return ['disk', 'gridfs'].map((STAGING) => rollcallImport(bench, written, { name: STAGING, STAGING }))
  },
})
