import path from 'node:path'
import { parseArgs } from 'node:util'
import { exitAfter } from './interrupt.ts'
import { serverUsage } from './mongodb-server.ts'
import { alternate } from './round-order.ts'
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
const warmUpRounds = 2

interface Contender {
  service: Service
  /** The path of its list's subscribers. */
  subscribers: string
  subscriberIds: number[]
  /** Requests so far, which choose the next one's subscriber. */
  sent: number
}

const emailOf = (i: number) => `s${i}@example.com`
const emailInUrl = ({ sent }: Contender) => encodeURIComponent(emailOf(sent % subscriberCount))
const pathOf = ({ subscribers, subscriberIds, sent }: Contender) =>
  `${subscribers}/${subscriberIds[sent % subscriberIds.length]}`

const operations: Record<string, (contender: Contender) => Promise<unknown>> = {
  'read by id': (one) => one.service.client.get(pathOf(one)),
  'read by email': (one) => one.service.client.get(`${one.subscribers}/${emailInUrl(one)}`),
  'find by email': (one) => one.service.client.get(`/subscribers_by_email/${emailInUrl(one)}`),
  create: ({ service, subscribers, sent }) =>
    service.client.post(subscribers, { subscriber: { email: `created${sent}@example.com` } }),
  update: (one) => {
    const status = one.sent % 4 === 0 ? 'unsubscribed' : 'active'
    return one.service.client.put(pathOf(one), { subscriber: { status } })
  },
  counts: ({ service }) => service.client.get('/subscriber_counts'),
  page: ({ service, subscribers }) => service.client.get(`${subscribers}?per_page=100`),
}

async function contend(service: Service): Promise<Contender> {
  const { client } = service
  const list = { mailing_list: { name: 'Two trees' } }
  const subscribers = `/mailing_lists/${(await client.post<{ id: number }>('/mailing_lists', list)).id}/subscribers`
  const subscriberIds: number[] = []
  for (let i = 0; i < subscriberCount; i += 1) {
    const { id } = await client.post<{ id: number }>(subscribers, { subscriber: { email: emailOf(i) } })
    subscriberIds.push(id)
  }
  return { service, subscribers, subscriberIds, sent: 0 }
}

/** Microseconds of CPU time of a request: of the control plane and the server. */
async function measureBurst(
  contender: Contender,
  operation: (contender: Contender) => Promise<unknown>,
): Promise<number> {
  const { database, processes } = contender.service
  const controlPlane = processes.find(({ name }) => name === 'control plane')
  const cpuSeconds = async () =>
    ((await controlPlane?.usage())?.cpuSeconds ?? NaN) + (await serverUsage(database.client)).cpuSeconds
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
        const measureOnce = (tree: keyof typeof contenders) => measureBurst(contenders[tree], operation)
        await alternate(['this', 'other'], warmUpRounds, measureOnce)
        const microseconds = await alternate(['this', 'other'], Number(values.rounds), measureOnce)
        const ratios = microseconds.this.map((value, round) => value / microseconds.other[round]!)
        const quartile = (share: number) =>
          percentile(
            ratios.toSorted((a, b) => a - b),
            share,
          ).toFixed(2)
        const [ours, theirs] = [spread(microseconds.this), spread(microseconds.other)]
        console.log(
          `${name.padEnd(14)} this / other ${spread(ratios).median.toFixed(3)} (quartiles ${quartile(0.25)} to ${quartile(0.75)}), ${ours.median.toFixed(0)} and ${theirs.median.toFixed(0)} us of CPU time`,
        )
      }
      return 0
    })
  }),
)
