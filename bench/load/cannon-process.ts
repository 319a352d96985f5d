import autocannon, { type Result } from 'autocannon'
import type { CannonOrder, CannonRequest, Volley } from './cannon.ts'

/** The process of cannon.ts. */
process.on('message', (order: CannonOrder) => {
  void fire(order).then((volley) => process.send?.(volley))
})
process.on('disconnect', () => process.exit())

async function fire(order: CannonOrder): Promise<Volley> {
  const { url, authorization, connections, seconds, requests } = order
  const milliseconds: number[] = []
  const wrong: string[] = []
  const sent = new WeakMap<object, CannonRequest>()
  let wrongReplies = 0
  let next = 0
  const setupRequest = (request: autocannon.Request, context: object): autocannon.Request => {
    const one = requests[next % requests.length]
    if (one === undefined) throw new Error('the order has no requests')
    next += 1
    sent.set(context, one)
    const { method, path, body } = one
    if (body === undefined) return { ...request, method, path, headers: { authorization } }
    return { ...request, method, path, body, headers: { authorization, 'content-type': 'application/json' } }
  }
  const onResponse = (status: number, body: string, context: object) => {
    const { method, path, expect } = sent.get(context) ?? { method: '', path: '', expect: body }
    if (status === 200 && body.startsWith('{"success":true') && body.includes(expect)) return
    wrongReplies += 1
    if (wrong.length < 3) wrong.push(`${method} ${path}: ${status} ${body.slice(0, 300)}`)
  }
  const reporting = setInterval(() => process.send?.(milliseconds.length), 100)
  const { duration, errors, timeouts } = await new Promise<Result>((resolve, reject) => {
    const run = autocannon(
      { url, connections, duration: seconds, timeout: 60, requests: [{ setupRequest, onResponse }] },
      (error: Error | null, result) => {
        if (error === null) resolve(result)
        else reject(error)
      },
    )
    run.on('response', (_client, _status, _bytes, responseTime) => {
      milliseconds.push(responseTime)
    })
  })
  clearInterval(reporting)
  return { milliseconds, seconds: duration, wrongReplies: wrongReplies + errors + timeouts, wrong }
}
