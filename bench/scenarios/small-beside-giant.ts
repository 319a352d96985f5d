import { mkdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ImportView } from '../../control-plane/cli/api-client.ts'
import { wrongImport } from '../contenders/check-import.ts'
import { createList, importEnd, secondsOf } from '../contenders/installation.ts'
import { placeUpload } from '../contenders/place-upload.ts'
import type { WrittenFile } from '../datasets/subscriber-file.ts'
import { SubscriberFile, writeSubscriberFile } from '../datasets/subscriber-file.ts'
import { costOf, costOfRounds, describeCosts, type Cost } from '../load/cost.ts'
import { onMeasuredService, type MeasuredService } from '../load/service-client.ts'
import { linesOf, startImport } from '../load/subscribers.ts'
import { serverVersion } from '../mongodb-server.ts'
import { whole, withRange } from '../report/text.ts'
import type { Goal, Outcome, Study, Timeline } from '../scenario.ts'
import { latencyOf, spread } from '../statistics.ts'

/**
 * One organization imports millions of rows; others import 500 each meanwhile, one after the other: while the giant is
 * split, and from then on in even parts of the way to its end.
 */
export const smallBesideGiant: Study = {
  name: 'small-beside-giant',
  summary: '500 rows of another organization while an import of 5,000,000 runs: from begins_at to finished',
  quick: ['--rows', '300000', '--rounds', '1'],
  async run(options) {
    const { rows, rounds, seed, folder, say } = options
    const giant = await writeSubscriberFile({ rows: rows ?? usualRows, seed, folder, say })
    const measured: Round[] = []
    for (let round = 1; round <= rounds && measured.every(({ wrong }) => wrong === null); round += 1)
      measured.push(await runRound(path.join(folder, `round-${round}`), giant, seed, say))
    return report(measured, giant.dataset.rows, say)
  },
}

const usualRows = 5_000_000
const smallRows = 500
/** Where the giant stands when a small one comes, in parts of its rows. */
const moments = [0, 0.02, 0.2, 0.4, 0.6, 0.8]
const maxSeconds = 3

interface Round {
  mongodb: string
  /** Of each small import. */
  seconds: number[]
  giantRowsPerSecond: number
  /** Of all rows, the small imports' too. */
  cost: Cost
  timeline: Timeline
  wrong: string | null
}

/** With a service of its own, so that what other giants left is in nobody's way. */
async function runRound(
  folder: string,
  giant: WrittenFile,
  seed: number,
  say: (text: string) => void,
): Promise<Round> {
  await mkdir(folder)
  try {
    return await onMeasuredService(folder, (service) => measureRound(service, folder, giant, seed, say))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function measureRound(
  service: MeasuredService,
  folder: string,
  giant: WrittenFile,
  seed: number,
  say: (text: string) => void,
): Promise<Round> {
  const { client, database } = service
  const { dataset } = giant
  const mongodb = await serverVersion(database.client)
  await placeUpload(giant.file, { STAGING: 'disk', DATA_DIR: path.join(folder, 'data') }, database)
  const list = await createList(client, 'Giant', dataset)
  const seconds: number[] = []
  const checks: (() => Promise<string | null>)[] = []
  let lastId = 0
  const rows = dataset.rows + moments.length * smallRows
  const {
    done: view,
    cost,
    timeline,
  } = await costOf(service, rows, async () => {
    const { id } = await startImport(service, list.listId, {
      type: 'upload_directory',
      filename: 'rows.csv',
    })
    for (const part of moments) {
      const state = await untilRows(service, id, part * dataset.rows)
      const small = await importSmall(service, seed)
      checks.push(small.wrong)
      lastId = small.id
      seconds.push(small.seconds)
      say(`500 rows in ${small.seconds.toFixed(2)} s; the giant was ${state}`)
    }
    return importEnd(client, id)
  })
  say(describeCosts([cost]))
  let wrong = await wrongImport(service, {
    view,
    list,
    expected: dataset.expectedCounts(),
    leaves: dataset,
  })
  for (const check of checks) wrong ??= await check()
  wrong ??= await cameLate(database, view.id, lastId)
  const giantRowsPerSecond = wrong === null ? dataset.rows / (await secondsOf(database, view.id)) : 0
  say(
    wrong === null
      ? `the giant did ${Math.round(giantRowsPerSecond).toLocaleString('en')} rows/s`
      : `WRONG RESULT: ${wrong}`,
  )
  return { mongodb, seconds, giantRowsPerSecond, cost, timeline, wrong }
}

/** Into a list of an organization of its own. */
async function importSmall(
  service: MeasuredService,
  seed: number,
): Promise<{ id: number; seconds: number; wrong: () => Promise<string | null> }> {
  const { client, database } = service
  const small = new SubscriberFile({ rows: smallRows, seed: seed + 1, defects: false })
  const content = [...linesOf(small, [{ first: 0, count: smallRows }])].join('')
  const organization = await client.post<{ id: number }>('/organizations', {
    organization: { name: 'Small' },
  })
  const list = await createList(client, 'Small', small, organization.id)
  const { id } = await startImport(service, list.listId, { type: 'json', content })
  const view = await importEnd(client, id)
  return {
    id,
    seconds: view.state === 'finished' ? await secondsOf(database, id) : 0,
    wrong: () =>
      wrongImport(service, { view, list, expected: { added: smallRows }, leaves: small, size: 'small' }),
  }
}

/** A small import that comes when the giant has ended is beside nobody. */
async function cameLate(
  { collections }: MeasuredService['database'],
  giantId: number,
  smallId: number,
): Promise<string | null> {
  const [giant, small] = await Promise.all(
    [giantId, smallId].map((_id) => collections.imports.findOne({ _id })),
  )
  return small!.begins_at < giant!.finished_at!
    ? null
    : 'the giant had ended before the last small import began: take more --rows'
}

function report(measured: Round[], rows: number, say: (text: string) => void): Outcome {
  const seconds = measured.flatMap((round) => round.seconds)
  const costs = measured.map(({ cost }) => cost)
  const giant = spread(measured.map(({ giantRowsPerSecond }) => giantRowsPerSecond))
  say(`the giants: ${withRange(giant, whole)} rows/s; all: ${describeCosts(costs)}`)
  const goals: Goal[] = []
  if (seconds.length > 0) {
    const times = spread(seconds)
    const what = `500 rows beside ${rows.toLocaleString('en')}: ${times.median.toFixed(2)} s (${times.least.toFixed(2)} to ${times.most.toFixed(2)}), each under ${maxSeconds} s`
    goals.push({ what, isMet: times.most < maxSeconds, measured: times })
    say(`${times.most < maxSeconds ? 'met    ' : 'MISSED '} ${what}`)
  }
  const milliseconds = seconds.map((value) => value * 1000)
  return {
    isRight: measured.every(({ wrong }) => wrong === null),
    result: {
      mongodb: measured[0]!.mongodb,
      rows,
      small_rows: smallRows,
      giant_rows_per_second: giant,
      cost_a_row: costOfRounds(costs),
      measured: measured.map(({ timeline: _, ...round }) => round),
    },
    goals,
    latencies: [{ name: 'beside a giant', ...latencyOf('an import of 500 rows', milliseconds) }],
    timelines: [{ name: 'the giant and the small ones', rounds: measured.map(({ timeline }) => timeline) }],
  }
}

/** When the import has done so many rows, or ended; how it stands then. */
async function untilRows({ client }: MeasuredService, id: number, rows: number): Promise<string> {
  for (;;) {
    const { state, stats } = await client.get<ImportView>(`/subscriber_imports/${id}`)
    const { number_of_records: all, records_imported: done } = stats
    if (done >= rows || !['scheduled', 'splitting', 'importing'].includes(state))
      return all === null ? state : `${state}, at ${Math.floor((done / all) * 100)} %`
    await sleep(50)
  }
}
