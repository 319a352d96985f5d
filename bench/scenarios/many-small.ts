import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ImportView } from '../../control-plane/cli/api-client.ts'
import { wrongDocuments, wrongImport, wrongLogs, wrongSubscribers } from '../contenders/check-import.ts'
import { createList, documentsOf, importEnd, secondsOf, type List } from '../contenders/installation.ts'
import { placeUpload } from '../contenders/place-upload.ts'
import { SubscriberFile } from '../datasets/subscriber-file.ts'
import { costOf, costOfRounds, describeCosts, type Cost } from '../load/cost.ts'
import { onMeasuredService, type MeasuredService } from '../load/service-client.ts'
import { linesOf, startImport, writeRows } from '../load/subscribers.ts'
import { serverVersion } from '../mongodb-server.ts'
import { two, withRange } from '../report/text.ts'
import type { NamedTimelines, Study, StudyOptions, Timeline } from '../scenario.ts'
import { latencyOf, spread } from '../statistics.ts'

/**
 * Many organizations import a few hundred rows each, all at once, inline: what an import costs beside its rows. The
 * same rows in one import, in the same round, say how much that is.
 */
export const manySmall: Study = {
  name: 'many-small',
  summary: 'imports of 500 rows of 100 organizations, all at once, against one import of all the rows',
  quick: ['--rows', '20000', '--rounds', '2'],
  run: (options) => onMeasuredService(options.folder, (service) => measure(service, options)),
}

const usualRows = 250_000
const rowsOfImport = 500
const organizationCount = 100
const requestsAtOnce = 16

async function measure(service: MeasuredService, options: StudyOptions) {
  const { rows, rounds, seed, folder, say } = options
  const importCount = Math.ceil((rows ?? usualRows) / rowsOfImport)
  const file = new SubscriberFile({ rows: importCount * rowsOfImport, seed, defects: false })
  await writeRows(path.join(folder, 'rows.csv'), file, [{ first: 0, count: file.rows }])
  await placeUpload(
    path.join(folder, 'rows.csv'),
    { STAGING: 'disk', DATA_DIR: path.join(folder, 'data') },
    service.database,
  )
  const organizations: number[] = []
  for (let i = 0; i < Math.min(organizationCount, importCount); i += 1) {
    const organization = { name: `Organization ${i}` }
    organizations.push((await service.client.post<{ id: number }>('/organizations', { organization })).id)
  }
  const measured: MeasuredRound[] = []
  const milliseconds: number[] = []
  const timelines: NamedTimelines[] = [
    { name: 'many small imports', rounds: [] },
    { name: 'one import', rounds: [] },
  ]
  for (let round = 1; round <= rounds; round += 1) {
    const lists: List[] = []
    for (const id of organizations) lists.push(await createList(service.client, `Round ${round}`, file, id))
    const one = await createList(service.client, `Round ${round}`, file)
    const turns = [
      () => costOf(service, file.rows, () => importMany(service, file, lists, importCount)),
      () => costOf(service, file.rows, () => importOne(service, file, one)),
    ]
    const order = round % 2 === 1 ? turns : turns.reverse()
    const done = [await order[0]!(), await order[1]!()]
    if (round % 2 === 0) done.reverse()
    const [{ done: many, cost, timeline }, { done: single, cost: costOfOne, timeline: ofOne }] = done as [
      Costed,
      Costed,
    ]
    timelines[0]!.rounds.push(timeline)
    timelines[1]!.rounds.push(ofOne)
    milliseconds.push(...many.milliseconds)
    const wrong = (await many.wrong()) ?? (await single.wrong())
    const result = {
      manyPerSecond: file.rows / many.seconds,
      onePerSecond: file.rows / single.seconds,
      cost,
      costOfOne,
      wrong,
    }
    measured.push(result)
    say(
      `round ${round}  ${importCount} imports in ${many.seconds.toFixed(1)} s (${(importCount / many.seconds).toFixed(0)} a second, ${Math.round(result.manyPerSecond).toLocaleString('en')} rows/s); all rows in one ${single.seconds.toFixed(1)} s${wrong === null ? '' : `  WRONG RESULT: ${wrong}`}`,
    )
  }
  const [costs, costsOfOne] = [measured.map(({ cost }) => cost), measured.map(({ costOfOne }) => costOfOne)]
  say(`many    ${describeCosts(costs)}`)
  say(`in one  ${describeCosts(costsOfOne)}`)
  const importsPerSecond = spread(measured.map(({ manyPerSecond }) => manyPerSecond / rowsOfImport))
  const share = spread(measured.map(({ manyPerSecond, onePerSecond }) => manyPerSecond / onePerSecond))
  say(`${withRange(importsPerSecond, (value) => value.toFixed(1))} imports a second`)
  say(`${withRange(share, two)} of the speed of one import of all the rows`)
  return {
    isRight: measured.every(({ wrong }) => wrong === null),
    result: {
      mongodb: await serverVersion(service.database.client),
      imports: importCount,
      rows_of_each: rowsOfImport,
      organizations: organizations.length,
      imports_per_second: importsPerSecond,
      share_of_one_import: share,
      cost_a_row: costOfRounds(costs),
      cost_a_row_in_one: costOfRounds(costsOfOne),
      measured,
    },
    latencies: [
      { name: 'many small imports', ...latencyOf('an import, from its request to its end', milliseconds) },
    ],
    timelines,
  }
}

interface MeasuredRound {
  manyPerSecond: number
  onePerSecond: number
  cost: Cost
  costOfOne: Cost
  wrong: string | null
}

interface Costed {
  done: Done
  cost: Cost
  timeline: Timeline
}

interface Done {
  seconds: number
  /** Of each import, from the creation to the end. */
  milliseconds: number[]
  /** Asked for once the costs are known: it isn't part of them. */
  wrong: () => Promise<string | null>
}

/** From the first request to the end of the last import. */
async function importMany(
  service: MeasuredService,
  file: SubscriberFile,
  lists: List[],
  count: number,
): Promise<Done> {
  const { imports } = service.database.collections
  const listOf = (i: number) => lists[i % lists.length]!
  const ids: number[] = []
  let next = 0
  const lane = async () => {
    while (next < count) {
      const i = next
      next += 1
      const rows = [{ first: i * rowsOfImport, count: rowsOfImport }]
      const content = [...linesOf(file, rows)].join('')
      const { id } = await startImport(service, listOf(i).listId, { type: 'json', content })
      ids.push(id)
    }
  }
  const startedAt = Date.now()
  await Promise.all(Array.from({ length: requestsAtOnce }, lane))
  const ended = { _id: { $in: ids }, state: { $in: ['finished', 'failed', 'cancelled'] as const } }
  while ((await imports.countDocuments(ended)) < count) await sleep(50)
  const documents = await imports
    .find({ _id: { $in: ids } }, { projection: { created_at: 1, finished_at: 1, state: 1 } })
    .toArray()
  const failed = documents.filter(({ state }) => state !== 'finished').length
  return {
    seconds: (Math.max(...documents.map(({ finished_at }) => finished_at!.getTime())) - startedAt) / 1000,
    milliseconds: documents.map(
      ({ created_at, finished_at }) => finished_at!.getTime() - created_at.getTime(),
    ),
    wrong: async () => {
      if (failed > 0) return `${failed} imports didn't finish`
      const found = { count: 0, points: 0 }
      for (const list of lists) {
        const { count, points } = await documentsOf(service.database, list, 'small')
        found.count += count
        found.points += points
      }
      return (
        wrongDocuments(found, file.expectedDocuments()) ??
        (await wrongSubscribers(service.database, file, (row) => listOf(Math.floor(row / rowsOfImport)))) ??
        (await wrongLogsOf(service, ids.slice(0, checkedLogs)))
      )
    },
  }
}

/** A hundred of five hundred logs would say no more. */
const checkedLogs = 20

async function wrongLogsOf({ client }: MeasuredService, ids: number[]): Promise<string | null> {
  for (const id of ids) {
    const wrong = await wrongLogs(client, await client.get<ImportView>(`/subscriber_imports/${id}`))
    if (wrong !== null) return wrong
  }
  return null
}

async function importOne(service: MeasuredService, file: SubscriberFile, list: List): Promise<Done> {
  const { client, database } = service
  const { id } = await startImport(service, list.listId, { type: 'upload_directory', filename: 'rows.csv' })
  const view = await importEnd(client, id)
  return {
    seconds: await secondsOf(database, id),
    milliseconds: [],
    wrong: () => wrongImport(service, { view, list, expected: { added: file.rows }, leaves: file }),
  }
}
