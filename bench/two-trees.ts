import path from 'node:path'
import { parseArgs } from 'node:util'
import { exitAfter } from './interrupt.ts'
import { serverUsage } from './mongodb-server.ts'
import { roundOrder } from './round-order.ts'
import { withService, type Service } from './service.ts'
import { percentile, spread } from './statistics.ts'

/**
 * The CPU time of a request in this tree and in another one, with its own node_modules, of the control plane and the
 * server together. Both run at once on one MongoDB server, in databases of their own, and get requests of half a second
 * in turn, so that a machine whose speed drifts slows both alike.
 * `node bench/two-trees.ts OTHER_TREE [--rounds 60] [--only WORDS]`
 */
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { rounds: { type: 'string', default: '60' }, only: { type: 'string', default: '' } },
})
const [otherTree] = positionals
if (otherTree === undefined)
  throw new Error('name the folder of the other tree: node bench/two-trees.ts OTHER')
const connections = 16
const burstMs = 500
const subscriberCount = 2_000

interface Contender {
  service: Service
  /** The path of its list's subscribers. */
  subscribers: string
  subscriberIds: number[]
  /** Requests so far, which choose the next one's subscriber. */
  sent: number
}

const emailOf = (i: number) => `s${i}@example.com`
const idOf = ({ subscriberIds, sent }: Contender) => subscriberIds[sent % subscriberIds.length]
const emailInUrl = ({ sent }: Contender) => encodeURIComponent(emailOf(sent % subscriberCount))

const operations: Record<string, (contender: Contender) => Promise<unknown>> = {
  'read by id': (c) => c.service.client.get(`${c.subscribers}/${idOf(c)}`),
  'read by email': (c) => c.service.client.get(`${c.subscribers}/${emailInUrl(c)}`),
  'find by email': (c) => c.service.client.get(`/subscribers_by_email/${emailInUrl(c)}`),
  create: (c) => createSubscriber(c, `created${c.sent}@example.com`),
  update: (c) =>
    c.service.client.put(`${c.subscribers}/${idOf(c)}`, {
      subscriber: { status: c.sent % 4 === 0 ? 'unsubscribed' : 'active' },
    }),
  counts: (c) => c.service.client.get('/subscriber_counts'),
  page: (c) => c.service.client.get(`${c.subscribers}?per_page=100`),
}

const createSubscriber = (
  { service, subscribers }: Pick<Contender, 'service' | 'subscribers'>,
  email: string,
) => service.client.post<{ id: number }>(subscribers, { subscriber: { email } })

async function contend(service: Service): Promise<Contender> {
  const list = await service.client.post<{ id: number }>('/mailing_lists', {
    mailing_list: { name: 'Two trees' },
  })
  const subscribers = `/mailing_lists/${list.id}/subscribers`
  const subscriberIds: number[] = []
  for (let i = 0; i < subscriberCount; i += 1)
    subscriberIds.push((await createSubscriber({ service, subscribers }, emailOf(i))).id)
  return { service, subscribers, subscriberIds, sent: 0 }
}

/** Microseconds of CPU time of a request: of the control plane and the server. */
async function measureBurst(
  contender: Contender,
  operation: (contender: Contender) => Promise<unknown>,
): Promise<number> {
  const controlPlane = contender.service.processes.find(({ name }) => name === 'control plane')
  const cpuSeconds = async () =>
    ((await controlPlane?.usage())?.cpuSeconds ?? NaN) +
    (await serverUsage(contender.service.database.client)).cpuSeconds
  const [sentBefore, cpuBefore] = [contender.sent, await cpuSeconds()]
  const end = performance.now() + burstMs
  const sendUntilEnd = async () => {
    while (performance.now() < end) {
      contender.sent += 1
      await operation(contender)
    }
  }
  await Promise.all(Array.from({ length: connections }, sendUntilEnd))
  return ((await cpuSeconds()) - cpuBefore) * (1e6 / (contender.sent - sentBefore))
}

await exitAfter('rollcall-bench-', (folder) =>
  withService({ folder: path.join(folder, 'this') }, async (service) => {
    const mongodb = { uri: service.mongodbUri, database: 'other' }
    return withService({ folder: path.join(folder, 'other'), tree: otherTree, mongodb }, async (other) => {
      const contenders = { this: await contend(service), other: await contend(other) }
      for (const [name, operation] of Object.entries(operations)) {
        if (!name.includes(values.only)) continue
        const microseconds: Record<keyof typeof contenders, number[]> = { this: [], other: [] }
        for (let round = -2; round < Number(values.rounds); round += 1)
          for (const tree of roundOrder(['this', 'other'] as const, Math.abs(round), 1)) {
            const measured = await measureBurst(contenders[tree], operation)
            if (round >= 0) microseconds[tree].push(measured) // The first two rounds warm up.
          }
        const ratios = microseconds.this.map((value, round) => value / (microseconds.other[round] ?? NaN))
        const sorted = ratios.toSorted((a, b) => a - b)
        const quartile = (share: number) => percentile(sorted, share).toFixed(2)
        const median = (times: number[]) => spread(times).median.toFixed(0)
        console.log(
          `${name.padEnd(14)} this / other ${spread(ratios).median.toFixed(3)} (quartiles ${quartile(0.25)} to ${quartile(0.75)}), ${median(microseconds.this)} and ${median(microseconds.other)} us of CPU time`,
        )
      }
      return 0
    })
  }),
)
