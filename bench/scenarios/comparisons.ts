import { comparison, type MeasuredRounds } from '../compare.ts'
import { writeFileTwice, writeSubscriberFile } from '../datasets/subscriber-file.ts'
import { bulkWritePeer } from '../peers/bulk-write.ts'
import { insertManyPeer, insertModes } from '../peers/insert-many.ts'
import { mongoimportPeers } from '../peers/mongoimport.ts'
import { whole } from '../report/text.ts'
import { rollcallImports, type ImportWork } from '../rollcall-import.ts'
import type { Bench, Goal, MeasuredContender } from '../scenario.ts'
import { spread } from '../statistics.ts'

const million = 1_000_000

interface SpeedGoal {
  work: string
  min?: number
  /** The fastest of these counts. */
  than: string[]
  isHeadline?: boolean
}

/** Goals that are multiples of the speed of contenders. */
const faster =
  (goals: SpeedGoal[], rows = million) =>
  ({ contenders, comparisons }: MeasuredRounds): Goal[] =>
    goals.map(({ than, isHeadline = true, ...goal }) => {
      const speed = ({ rows_per_second: rate }: MeasuredContender) => rate.median
      const show = (one: MeasuredContender) => `${whole(speed(one))} rows/s`
      const found = contenders.filter(({ name }) => than.includes(name))
      const best = found.toSorted((a, b) => speed(b) - speed(a))[0]
      const about = { ...goal, against: best?.name ?? than.join(' or '), unit: 'x', set_for: rows }
      if (best === undefined) return { ...about, measured: null }
      const measured = comparisons.find(({ to }) => to === best.name)?.speed ?? null
      const headline = { we: show(contenders[0]!), peer: `${best.name}: ${show(best)}` }
      return { ...about, measured, ...(isHeadline ? { headline } : {}) }
    })

/** What Rollcall does in three of the comparisons. */
export const rollcallWorks = {
  // Without duplicates: for each of them mongoimport would write 500 rows again, row by row.
  'new rows': (bench: Bench): Promise<ImportWork> => writeSubscriberFile(bench, { defects: false }),
  async overwriting(bench: Bench) {
    const { before, dataset, file } = await writeFileTwice(bench)
    return { before, dataset, file, overwrite: true, expected: { updated: dataset.rows } }
  },
  /** The file that comes every night: all of its rows are subscribers of the list, and nothing is overwritten. */
  async 'all skipped'(bench: Bench) {
    const { before, dataset, file } = await writeFileTwice(bench)
    return { before, dataset, file, expected: { skipped_overwrite: dataset.rows }, leaves: before.dataset }
  },
}

export const newRowsGoals = faster([
  { work: 'new rows', min: 1.6, than: ['mongoimport insert'] },
  { work: 'new rows, made beforehand elsewhere', min: 1.05, than: ['insertMany in file order'] },
  { work: 'new rows, made and sorted beforehand elsewhere', min: 0.85, than: ['insertMany by _id'] },
  { work: 'new rows, ready-made elsewhere', than: ['ready-made BSON'], isHeadline: false },
])

/** Five contenders, so that in five rounds each takes each position once. */
export const newRows = comparison({
  name: 'new-rows',
  summary:
    'new rows through the upload directory, against mongoimport, and against insertMany and ready-made BSON of the same documents, which show what this server can do',
  goals: newRowsGoals,
  quick: ['--rows', '50000'],
  full: ['--rounds', '5'],
  defaultRows: million,
  async prepare(bench) {
    const work = await rollcallWorks['new rows'](bench)
    return [
      ...rollcallImports(bench, work),
      ...insertModes.map((mode) => insertManyPeer(bench, work.dataset, mode)),
      ...(await mongoimportPeers(bench, { ...work, before: undefined, modes: ['insert'] })),
    ]
  },
})

/** Of 60 columns, 52 of them further texts. */
export const wideRows = comparison({
  name: 'wide-rows',
  summary: 'new rows of 60 columns, against mongoimport, and insertMany of the same documents',
  goals: faster(
    [
      { work: 'new rows of 60 columns', min: 1.5, than: ['mongoimport insert'] },
      { work: 'the same, made beforehand elsewhere', min: 0.85, than: ['insertMany in file order'] },
    ],
    300_000,
  ),
  quick: ['--rows', '20000'],
  full: ['--rounds', '5'],
  defaultRows: 300_000,
  async prepare(bench) {
    const work = await writeSubscriberFile(bench, { defects: false, texts: 52 })
    return [
      ...rollcallImports(bench, work),
      insertManyPeer(bench, work.dataset, 'insertMany in file order'),
      ...(await mongoimportPeers(bench, { ...work, before: undefined, modes: ['insert'] })),
    ]
  },
})

const upserts = ['mongoimport upsert', 'mongoimport upsert, 2 processes']

export const upserting = comparison({
  name: 'upserting',
  summary: 'new rows, against programs that would update a subscriber who is there',
  goals: faster([
    { work: 'new rows', min: 3.5, than: ['mongoimport upsert'], isHeadline: false },
    { work: 'new rows, each an upsert elsewhere', min: 1.5, than: [...upserts, 'csv-parse, bulkWrite'] },
  ]),
  quick: ['--rows', '50000'],
  full: ['--rounds', '4'],
  defaultRows: million,
  async prepare(bench) {
    const work = await rollcallWorks['new rows'](bench)
    const peers = { ...work, before: undefined }
    return [
      ...rollcallImports(bench, work),
      ...(await mongoimportPeers(bench, { ...peers, modes: ['upsert', 'upsert, 2 processes'] })),
      bulkWritePeer(bench, { ...peers, overwrite: true }),
    ]
  },
})

export const overwriting = comparison({
  name: 'overwriting',
  summary:
    'rows that overwrite subscribers, every one of them and all of its columns, against mongoimport and csv-parse with bulkWrite',
  goals: faster([
    { work: 'rows overwriting', min: 3, than: ['mongoimport merge'] },
    { work: 'rows overwriting', min: 1.5, than: [...upserts, 'csv-parse, bulkWrite'], isHeadline: false },
  ]),
  quick: ['--rows', '50000'],
  full: ['--rounds', '5'],
  defaultRows: million,
  async prepare(bench) {
    const work = await rollcallWorks.overwriting(bench)
    const peers = { ...work, before: work.before.dataset }
    return [
      ...rollcallImports(bench, work),
      ...(await mongoimportPeers(bench, { ...peers, modes: ['merge', 'upsert', 'upsert, 2 processes'] })),
      bulkWritePeer(bench, peers),
    ]
  },
})

export const allSkipped = comparison({
  name: 'all-skipped',
  summary:
    'rows that are all there and stay as they are, against new rows, mongoimport, and csv-parse with bulkWrite',
  goals: (rounds) => {
    const { rows_per_second: rate } = rounds.contenders[0]!
    const isFast = rounds.contenders[1]!.rows_per_second.median > 85_000
    const work = 'rows all skipped'
    return [
      ...faster([
        // The faster new rows are, the less a row that is read, checked and sorted like them can be ahead.
        { work, ...(isFast ? {} : { min: 2.2 }), than: ['rollcall, new rows'] },
        // Repeated rows are its worst mode, so no goal is set.
        { work, than: ['mongoimport insert', 'csv-parse, bulkWrite'], isHeadline: false },
      ])(rounds),
      ...(isFast ? [{ work, min: 190_000, unit: ' rows/s', measured: rate, set_for: million }] : []),
    ]
  },
  quick: ['--rows', '50000'],
  full: ['--rounds', '4'],
  defaultRows: million,
  async prepare(bench) {
    const work = await rollcallWorks['all skipped'](bench)
    const { dataset, file } = work
    const peers = { dataset, file, before: work.before.dataset }
    return [
      ...rollcallImports(bench, work),
      ...rollcallImports(bench, { dataset, file }, { name: 'rollcall, new rows' }),
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
    const [many, few] = contenders.map(({ rows_per_second, peak_memory_mb }) => ({
      rate: `${whole(rows_per_second.median)} rows/s`,
      engineMB: peak_memory_mb['engine'] ?? NaN,
    }))
    const work = 'memory of the engine, ten times as many rows'
    const against = 'its own for a tenth of them'
    const more = spread([many!.engineMB - few!.engineMB])
    const goals: Goal[] = [
      {
        work: 'ten times as many new rows, server cache 0.5 GB',
        against: 'its own rate for a tenth of them',
        min: 0.85,
        unit: 'x',
        measured: comparisons[0]?.speed ?? null,
        headline: { we: many!.rate, peer: `a tenth of them: ${few!.rate}` },
      },
      {
        ...{ work, max: 400, unit: ' MB', measured: spread([many!.engineMB]) },
        headline: { we: `${whole(many!.engineMB)} MB`, peer: '' },
      },
      { work, against, max: 100, unit: ' MB more', measured: more },
    ]
    return goals.map((goal) => ({ ...goal, set_for: 10 * million }))
  },
  full: ['--rounds', '2'],
  quick: ['--rows', '200000'],
  defaultRows: 10 * million,
  cacheMB: 512,
  async prepare(bench) {
    const contenders = []
    for (const rows of [bench.rows, Math.ceil(bench.rows / 10)]) {
      const written = await writeSubscriberFile({ ...bench, rows }, { name: `rows-${rows}.csv` })
      contenders.push(...rollcallImports(bench, written, { name: `${whole(rows)} rows` }))
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
    return ['disk', 'gridfs'].flatMap((STAGING) =>
      rollcallImports(bench, written, { name: STAGING, STAGING }),
    )
  },
})
