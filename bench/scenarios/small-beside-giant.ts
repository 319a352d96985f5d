import { createReadStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import path from 'node:path'
import { wrongImport } from '../check-import.ts'
import { SubscriberFile, writeSubscriberFile, type WrittenFile } from '../datasets/subscriber-file.ts'
import { createList, importSeconds, pollImport, startImport, uploaded } from '../imports.ts'
import { measure } from '../measure.ts'
import { serverVersion } from '../mongodb-server.ts'
import { describeCosts, two, whole, withRange } from '../report/text.ts'
import { goalThatBegins, type Measured, type Options, type Scenario } from '../scenario.ts'
import { withService, type Service } from '../service.ts'
import { summarizeLatency, spread } from '../statistics.ts'

const smallRows = 500
/** The giant's progress when a small import comes: the first comes while the giant is split. */
const moments = [0, 0.02, 0.2, 0.4, 0.6, 0.8]
const maxSeconds = 3

/** While an organization imports millions of rows, six others import 500 each, one after the other. */
export const smallBesideGiant: Scenario = {
  name: 'small-beside-giant',
  summary: '500 rows of another organization while an import of 5,000,000 runs: from begins_at to finished',
  quick: ['--rows', '600000', '--rounds', '1'],
  targets: [
    {
      work: '500 rows of another organization beside a giant',
      against: '',
      max: maxSeconds,
      unit: ' s',
      rows: 5_000_000,
      find: goalThatBegins('500 rows'),
    },
  ],
  async run(options) {
    const { rounds, say } = options
    const giant = await writeSubscriberFile({ ...options, rows: options.rows ?? 5_000_000 })
    const { rows } = giant.dataset
    const measured: Round[] = []
    for (let round = 1; round <= rounds && measured.every(({ wrong }) => wrong === null); round += 1) {
      // Each round has a service of its own, without what other giants left.
      const folder = path.join(options.folder, `round-${round}`)
      measured.push(await withService({ folder }, (service) => measureRound(service, giant, options)))
      await rm(folder, { recursive: true, force: true })
    }
    const costs = measured.map(({ cost }) => cost)
    const rates = spread(measured.map(({ giantRowsPerSecond }) => giantRowsPerSecond))
    const seconds = measured.flatMap((round) => round.seconds)
    const times = spread(seconds)
    say(`the giants: ${withRange(rates, whole)} rows/s; all: ${describeCosts(costs, 'a row')}`)
    return {
      mongodb: measured[0]?.mongodb ?? '',
      rows,
      isRight: measured.every(({ wrong }) => wrong === null),
      result: { small_rows: smallRows, giant_rows_per_second: rates, seconds },
      goals: [
        {
          what: `500 rows beside ${whole(rows)}: ${withRange(times, two)} s, each under ${maxSeconds} s`,
          isMet: times.max < maxSeconds,
          measured: times,
        },
      ],
      latencies: [
        {
          name: 'beside a giant',
          ...summarizeLatency(
            'an import of 500 rows',
            seconds.map((value) => value * 1000),
          ),
        },
      ],
      timelines: [{ name: 'the giant and the small ones', rounds: costs.map(({ timeline }) => timeline) }],
    }
  },
}

interface Round {
  mongodb: string
  /** Seconds of each small import. */
  seconds: number[]
  giantRowsPerSecond: number
  /** The small imports' rows count too. */
  cost: Measured
  wrong: string | null
}

async function measureRound(
  service: Service,
  { dataset, file }: WrittenFile,
  { seed, say }: Options,
): Promise<Round> {
  const { client, database, processes, place } = service
  await place(createReadStream(file), 'rows.csv')
  const list = await createList(client, 'Giant', dataset)
  const small: SmallImport[] = []
  const { done: view, ...cost } = await measure(database.client, {
    processes,
    rows: dataset.rows + moments.length * smallRows,
    do: async () => {
      const id = await startImport(client, list.listId, dataset, { file_source: uploaded('rows.csv') })
      for (const share of moments) {
        const { state, stats } = await pollImport(
          client,
          id,
          ({ state, stats }) =>
            stats.records_imported >= share * dataset.rows ||
            !['scheduled', 'splitting', 'importing'].includes(state),
        )
        const one = await importSmall(service, seed)
        small.push(one)
        say(
          `500 rows in ${two(one.seconds)} s; the giant was ${state}, at ${whole(stats.records_imported)} rows`,
        )
      }
      return pollImport(client, id)
    },
  })
  say(describeCosts([cost], 'a row'))
  let wrong = await wrongImport(service, {
    view,
    list,
    expected: dataset.expectedCounts(),
    leaves: dataset,
  })
  for (const { check } of small) wrong ??= await check()
  wrong ??= await cameLate(service, view.id, small.at(-1)?.id ?? 0)
  const giantRowsPerSecond = wrong === null ? dataset.rows / (await importSeconds(database, view.id)) : 0
  say(wrong === null ? `the giant did ${whole(giantRowsPerSecond)} rows/s` : `WRONG RESULT: ${wrong}`)
  const seconds = small.map((one) => one.seconds)
  return { mongodb: await serverVersion(database.client), seconds, giantRowsPerSecond, cost, wrong }
}

interface SmallImport {
  id: number
  seconds: number
  check: () => Promise<string | null>
}

/** Into a list of an organization of its own. */
async function importSmall(service: Service, seed: number): Promise<SmallImport> {
  const { client, database } = service
  const file = new SubscriberFile({ rows: smallRows, seed: seed + 1, defects: false })
  const organization = { organization: { name: 'Small' } }
  const { id: organizationId } = await client.post<{ id: number }>('/organizations', organization)
  const list = await createList(client, 'Small', file, organizationId)
  const source = { type: 'json', content: [...file.text()].join('') }
  const id = await startImport(client, list.listId, file, { file_source: source })
  const view = await pollImport(client, id)
  const expected = { added: smallRows }
  return {
    id,
    seconds: view.state === 'finished' ? await importSeconds(database, id) : 0,
    check: () => wrongImport(service, { view, list, expected, leaves: file, size: 'small' }),
  }
}

/** A small import that begins after the giant's end proves nothing. */
async function cameLate({ database }: Service, giantId: number, smallId: number): Promise<string | null> {
  const { imports } = database.collections
  const overlaps = async () => {
    const giant = await imports.findOne({ _id: giantId })
    return giant?.finished_at && imports.findOne({ _id: smallId, begins_at: { $lt: giant.finished_at } })
  }
  return (await overlaps())
    ? null
    : 'the giant had ended before the last small import began: take more --rows'
}
