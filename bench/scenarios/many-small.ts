import { wrongImport } from '../check-import.ts'
import { SubscriberFile } from '../datasets/subscriber-file.ts'
import { createList, importSeconds, pollImport, startImport } from '../imports.ts'
import { measure } from '../measure.ts'
import { serverVersion } from '../mongodb-server.ts'
import { describeCosts, two, whole, withRange } from '../report/text.ts'
import { roundOrder } from '../round-order.ts'
import type { Measured, Options, Outcome, Scenario } from '../scenario.ts'
import { withService, type Service } from '../service.ts'
import { spread, summarizeLatency } from '../statistics.ts'

const smallRows = 500
const maxLanes = 16

/** Shows what an import costs beside its rows: 500 rows take little of its time. */
export const manySmall: Scenario = {
  name: 'many-small',
  summary: `imports of ${smallRows} rows, each of another organization, one after the other and ${maxLanes} side by side: from begins_at to finished`,
  quick: ['--rows', '10000', '--rounds', '2'],
  run: (options) => withService({ folder: options.folder }, (service) => measureRounds(service, options)),
}

interface ManyImports {
  importMilliseconds: number[]
  cost: Measured
  wrong: string | null
}

async function measureRounds(service: Service, { rows, rounds, seed, say }: Options): Promise<Outcome> {
  const length = Math.ceil((rows ?? 100_000) / smallRows)
  const shape = { rows: smallRows, defects: false } as const
  const files = Array.from({ length }, (_, i) => new SubscriberFile({ ...shape, seed: seed + i }))
  const serial = { name: 'one after the other', lanes: 1, measured: new Array<ManyImports>() }
  const parallel = { name: 'side by side', lanes: maxLanes, measured: new Array<ManyImports>() }
  // New processes compile their code during the first imports, so these aren't measured.
  await importMany(service, files.slice(0, maxLanes), maxLanes)
  for (let round = 0; round < rounds; round += 1)
    for (const { name, lanes, measured } of roundOrder([serial, parallel], round, seed)) {
      const one = await importMany(service, files, lanes)
      measured.push(one)
      say(`round ${round + 1}, ${name}: ${combine([one]).text}`)
      if (one.wrong !== null) say(`WRONG RESULT: ${one.wrong}`)
    }
  const ways = [serial, parallel].map(({ name, measured }) => ({ name, ...combine(measured) }))
  for (const { name, text } of ways) say(`all, ${name}: ${text}`)
  return {
    mongodb: await serverVersion(service.database.client),
    rows: length * smallRows,
    isRight: ways.every(({ isRight }) => isRight),
    latencies: ways.map(({ name, latency }) => ({ name, ...latency })),
    timelines: ways.map(({ name, timelines }) => ({ name, rounds: timelines })),
  }
}

function combine(measured: ManyImports[]) {
  const costs = measured.map(({ cost }) => cost)
  const all = measured.flatMap(({ importMilliseconds }) => importMilliseconds)
  const rates = spread(costs.map(({ rows, seconds }) => rows / smallRows / seconds))
  return {
    text: `each in ${withRange(spread(all), whole)} ms, ${withRange(rates, two)} imports/s; ${describeCosts(costs, 'a row')}`,
    isRight: measured.every(({ wrong }) => wrong === null),
    latency: summarizeLatency(`an import of ${smallRows} rows`, all),
    timelines: costs.map(({ timeline }) => timeline),
  }
}

async function importMany(service: Service, files: SubscriberFile[], lanes: number): Promise<ManyImports> {
  const { client, database, processes } = service
  const lists = await inLanes(maxLanes, files, async (file) => {
    const { id } = await client.post<{ id: number }>('/organizations', { organization: { name: 'Small' } })
    return { file, content: [...file.text()].join(''), list: await createList(client, 'Small', file, id) }
  })
  const { done, ...cost } = await measure(database.client, {
    processes,
    rows: files.length * smallRows,
    do: () =>
      inLanes(lanes, lists, async ({ file, content, list }) => {
        const id = await startImport(client, list.listId, file, { file_source: { type: 'json', content } })
        return { list, leaves: file, view: await pollImport(client, id) }
      }),
  })
  const importMilliseconds: number[] = []
  for (const one of done) {
    const wrong = await wrongImport(service, { ...one, expected: { added: smallRows }, size: 'small' })
    if (wrong !== null) return { importMilliseconds, cost, wrong: `import ${one.view.id}: ${wrong}` }
    importMilliseconds.push((await importSeconds(database, one.view.id)) * 1000)
  }
  return { importMilliseconds, cost, wrong: null }
}

/** Each lane takes the next item when it is done with one. */
async function inLanes<T, R>(lanes: number, items: T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const done: R[] = []
  const remaining = items.values()
  const lane = async () => {
    for (const item of remaining) done.push(await work(item))
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  return done
}
