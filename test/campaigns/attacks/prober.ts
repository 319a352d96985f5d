import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'

/**
 * Sends the requests of the organization that is not attacked, one after the other. It has a thread of its own, so
 * that the attackers' own load doesn't delay its measurements.
 */
export interface ProberInput {
  http: string
  authorization: string
  listId: number
  pauseMs: number
}

/** Milliseconds of each request since the last report. */
export type ProberReport = number[]

const { http, authorization, listId, pauseMs }: ProberInput = workerData
const agent = new Agent({ keepAlive: true, maxSockets: 1 })
let created = 0
let times: ProberReport = []

const requests: (() => { method: string; path: string; body?: unknown })[] = [
  () => ({ method: 'GET', path: '/mailing_lists' }),
  () => ({
    method: 'POST',
    path: `/mailing_lists/${listId}/subscribers`,
    body: { subscriber: { email: `prober${(created += 1)}@example.com` } },
  }),
  () => ({ method: 'GET', path: `/mailing_lists/${listId}/subscribers?per_page=10` }),
  () => ({ method: 'POST', path: '/outbox/take', body: { outbox: { limit: 1 } } }),
]

function send({ method, path, body }: { method: string; path: string; body?: unknown }): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(`${http}/svc/api/v2${path}`, {
      method,
      agent,
      headers: { authorization, 'content-type': 'application/json' },
    })
    sent.on('error', reject)
    sent.on('response', (response) =>
      response
        .resume()
        .on('error', reject)
        .on('end', () => resolve(response.statusCode ?? 0)),
    )
    sent.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

parentPort?.on('message', () => {
  parentPort?.postMessage(times)
  times = []
})

for (let i = 0; ; i += 1) {
  const next = requests[i % requests.length]!()
  const begunAt = performance.now()
  const status = await send(next)
  times.push(performance.now() - begunAt)
  if (status !== 200) throw new Error(`${next.method} ${next.path} of the organization beside: ${status}`)
  await sleep(pauseMs)
}
