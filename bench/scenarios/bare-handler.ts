import { Cannon } from '../load/cannon.ts'
import { makeOperations, type Operation } from '../load/operations.ts'
import { loadSubscribers } from '../load/subscribers.ts'
import { serverVersion } from '../mongodb-server.ts'
import { childProcess } from '../processes.ts'
import { startProgram } from '../program.ts'
import type { Goal, Options, Outcome, Scenario } from '../scenario.ts'
import { withService, type Service } from '../service.ts'
import { spread } from '../statistics.ts'
import { bareHandler, describeResults, measureOperations } from './requests.ts'

/** Requests a second of each operation, divided by the bare handler's; a page has no goal. */
const goals: Record<string, number> = {
  'read by id': 0.9,
  'find by email, in a list': 0.9,
  create: 0.7,
  'update of values': 0.7,
  'change of status': 0.7,
  counts: 0.8,
  'page 1': 0,
}
const connections = [1, 16, 128]

/** What the service does for a request beside the reads and writes that it can't do without. */
export const againstBareHandler: Scenario = {
  name: 'bare-handler',
  summary: `operations of requests by ${connections.join(', ')} connections, against Express and the driver with the same reads and writes`,
  quick: ['--subscribers', '20000', '--seconds', '1', '--rounds', '1'],
  async run(options) {
    const cannon = new Cannon()
    const folder = options.data ?? options.folder
    try {
      return await withService({ folder }, (service) => compare(service, cannon, { ...options, folder }))
    } finally {
      await cannon.stop()
    }
  },
}

async function compare(service: Service, cannon: Cannon, options: Options): Promise<Outcome> {
  const { say, seed, only, folder } = options
  const loaded = await loadSubscribers(service, { subscribers: options.subscribers[0], seed, folder, say })
  const handler = startProgram<object, { url?: string }>(new URL('../peers/bare-handler.ts', import.meta.url))
  await handler.reply()
  handler.send({ uri: service.mongodbUri, name: service.database.db.databaseName })
  const { url = '' } = await handler.reply()
  const at = { url, processes: [await childProcess(bareHandler, handler.pid)] }
  const operations = (await makeOperations(service, loaded, seed))
    .filter(({ name }) => name in goals && name.includes(only))
    .flatMap((one): Operation[] => [one, { ...one, name: `${one.name}, ${bareHandler}`, at }])
  const measured: Goal[] = []
  const wrong: string[] = []
  for (const count of connections) {
    say(`\n${count} connections`)
    const results = await measureOperations(service, cannon, operations, { ...options, connections: count })
    for (const line of describeResults(results)) say(line)
    wrong.push(...results.flatMap(({ volleys }) => volleys.flatMap((volley) => volley.wrong)))
    for (let i = 0; i < results.length; i += 2) {
      const [ours, bare] = [results[i]!, results[i + 1]!].map(({ volleys }) =>
        volleys.map(({ rows, seconds }) => rows / seconds),
      )
      const ratio = spread(ours!.map((rate, round) => rate / bare![round]!))
      const work = `${results[i]!.name}, ${count} connections`
      const min = goals[results[i]!.name]!
      measured.push({ work, against: bareHandler, min, unit: 'x', measured: ratio })
    }
  }
  for (const sentence of wrong.slice(0, 9)) say(`WRONG REPLY: ${sentence}`)
  await handler.end()
  const found = { is_right: wrong.length === 0, goals: measured.filter(({ min }) => min !== 0) }
  return { ...found, mongodb: await serverVersion(service.database.client) }
}
