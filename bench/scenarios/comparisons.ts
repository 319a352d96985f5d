import { comparison } from '../compare.ts'
import { writeFileTwice, writeSubscriberFile } from '../datasets/subscriber-file.ts'
import { bulkWritePeer } from '../peers/bulk-write.ts'
import { insertManyPeer } from '../peers/insert-many.ts'
import { mongoimportPeers } from '../peers/mongoimport.ts'
import { whole } from '../report/text.ts'
import { rollcallImport } from '../rollcall-import.ts'
import type { Target } from '../scenario.ts'
import { spread } from '../statistics.ts'

/** A multiple of the speed of the contender with this name. */
const faster = (work: string, min: number, name: string, against = name): Target => ({
  work,
  against,
  min,
  unit: 'x',
  rows: 1_000_000,
  find: ({ comparisons }) => comparisons.find(({ to }) => to === name)?.speed ?? null,
})

export const newRows = comparison({
  name: 'new-rows',
  summary:
    'new rows through the upload directory, against insertMany of the same documents, mongoimport, and csv-parse with bulkWrite',
  targets: [
    faster('new rows', 1.25, 'mongoimport insert', 'mongoimport insert, unique email index, 4 workers'),
    faster(
      'new rows',
      1,
      'plain insertMany',
      'insertMany of the driver, the same documents in file order, same indexes, 2 threads',
    ),
    faster('new rows', 3.5, 'mongoimport upsert'),
  ],
  defaultRows: 1_000_000,
  async prepare(bench) {
    // Without duplicates: for each of them mongoimport would write 500 rows again, row by row.
    const { dataset, file } = await writeSubscriberFile(bench, { defects: false })
    return [
      rollcallImport(bench, { name: 'rollcall', dataset, file }),
      insertManyPeer(bench, dataset),
      ...(await mongoimportPeers(bench, { dataset, file, modes: ['insert', 'upsert'] })),
      bulkWritePeer(bench, { dataset, file, overwrite: true }),
    ]
  },
})

export const overwriting = comparison({
  name: 'overwriting',
  summary:
    'rows that overwrite subscribers, every one of them, against mongoimport and csv-parse with bulkWrite',
  targets: [
    faster('rows overwriting', 1.5, 'mongoimport merge'),
    faster('rows overwriting', 2.5, 'mongoimport upsert'),
  ],
  defaultRows: 1_000_000,
  async prepare(bench) {
    const { before, dataset, file } = await writeFileTwice(bench)
    const peers = { dataset, file, before: before.dataset }
    const expected = { updated: dataset.rows }
    // Without `overwrite_what` an import leaves the subscribe times.
    const subscribeTimes = before.dataset
    const work = { dataset, file, before, overwrite: true, expected, subscribeTimes }
    return [
      rollcallImport(bench, { name: 'rollcall', ...work }),
      ...(await mongoimportPeers(bench, { ...peers, modes: ['merge', 'upsert'] })),
      bulkWritePeer(bench, { ...peers, overwrite: true }),
    ]
  },
})

/** The file that comes every night: all of its rows are subscribers of the list, and nothing is overwritten. */
export const allSkipped = comparison({
  name: 'all-skipped',
  summary:
    'rows that are all there and stay as they are, against new rows, mongoimport, and csv-parse with bulkWrite',
  targets: [faster('rows all skipped', 2, 'rollcall, new rows', 'its own rate for new rows')],
  defaultRows: 1_000_000,
  async prepare(bench) {
    const { before, dataset, file } = await writeFileTwice(bench)
    const peers = { dataset, file, before: before.dataset }
    const skipped = { before, expected: { skipped_overwrite: dataset.rows }, leaves: before.dataset }
    return [
      rollcallImport(bench, { name: 'rollcall', dataset, file, ...skipped }),
      rollcallImport(bench, { name: 'rollcall, new rows', dataset, file }),
      ...(await mongoimportPeers(bench, { ...peers, modes: ['insert'] })),
      bulkWritePeer(bench, { ...peers, overwrite: false }),
    ]
  },
})

const tenMillion = { rows: 10_000_000, against: 'its own for a tenth of them' }
const memory = 'memory of the engine, ten times as many rows'

function findMemory(compute: (many: number, few: number) => number): Target['find'] {
  return ({ contenders }) => {
    const [many, few] = contenders.map(({ peak_memory_mb }) => peak_memory_mb['engine'])
    return many === undefined || few === undefined ? null : spread([compute(many, few)])
  }
}

/** Neither the time of a row nor the engine's memory may grow with the file. */
export const beyondCache = comparison({
  name: 'beyond-cache',
  summary: 'many new rows on a server with 0.5 GB of cache, against a tenth of them there',
  targets: [
    {
      ...tenMillion,
      work: 'ten times as many new rows, server cache 0.5 GB',
      against: 'its own rate for a tenth of them',
      min: 0.85,
      unit: 'x',
      find: ({ comparisons }) => comparisons[0]?.speed ?? null,
    },
    { ...tenMillion, work: memory, against: '', max: 400, unit: ' MB', find: findMemory((many) => many) },
    { ...tenMillion, work: memory, max: 100, unit: ' MB more', find: findMemory((many, few) => many - few) },
  ],
  quick: null,
  defaultRows: 10_000_000,
  cacheMB: 512,
  async prepare(bench) {
    const contenders = []
    for (const rows of [bench.rows, Math.ceil(bench.rows / 10)]) {
      const written = await writeSubscriberFile({ ...bench, rows }, { name: `rows-${rows}.csv` })
      contenders.push(rollcallImport(bench, { name: `${whole(rows)} rows`, ...written }))
    }
    return contenders
  },
})

export const staging = comparison({
  name: 'staging',
  summary: 'new rows through the upload directory, uploads and staged files on disk and in the database',
  defaultRows: 200_000,
  async prepare(bench) {
    const { dataset, file } = await writeSubscriberFile(bench)
    return (['disk', 'gridfs'] as const).map((STAGING) =>
      rollcallImport(bench, { name: STAGING, dataset, file, STAGING }),
    )
  },
})
