import autocannon, { type Options, type Result } from 'autocannon'
import type { CannonOrder, CannonRequest, Volley } from './cannon.ts'

/** The process that fires: a client that shared its thread with anything else would measure that too. */

process.on('message', (order: CannonOrder) => {
  void fire(order).then((volley) => process.send!(volley))
})
process.on('disconnect', () => process.exit())

/** Milliseconds between two messages that say how many replies have come. */
const tellEveryMs = 100

async function fire(order: CannonOrder): Promise<Volley> {
  const { url, authorization, connections, seconds, amount, requests } = order
  const milliseconds: number[] = []
  const wrong: string[] = []
  let wrongReplies = 0
  let next = 0
  const options: Options = {
    url,
    connections,
    ...(amount === undefined ? { duration: seconds } : { amount }),
    timeout: 60,
    requests: [
      {
        setupRequest: (request, context) => {
          const sent = requests[next % requests.length]!
          next += 1
          ;(context as { sent: CannonRequest }).sent = sent
          const { method, path, body } = sent
          const headers = {
            authorization,
            ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          }
          return { ...request, method, path, headers, ...(body === undefined ? {} : { body }) }
        },
        onResponse: (status, body, context) => {
          const { method, path, expect } = (context as { sent: CannonRequest }).sent
          if (status === 200 && body.startsWith('{"success":true') && body.includes(expect)) return
          wrongReplies += 1
          if (wrong.length < 3) wrong.push(`${method} ${path}: ${status} ${body.slice(0, 300)}`)
        },
      },
    ],
  }
  const telling = setInterval(() => process.send!(milliseconds.length), tellEveryMs)
  const { duration, errors, timeouts } = await new Promise<Result>((resolve, reject) => {
    const run = autocannon(options, (error: Error | null, result) => {
      if (error === null) resolve(result)
      else reject(error)
    })
    run.on('response', (_client, _status, _bytes, responseTime) => {
      milliseconds.push(responseTime)
    })
  })
  clearInterval(telling)
  return {
    milliseconds,
    seconds: duration,
    errors: errors + timeouts,
    wrongReplies,
    wrong,
    usedUp: next > requests.length,
  }
}
