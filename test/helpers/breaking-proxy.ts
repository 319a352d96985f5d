import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { parentPort, workerData } from 'node:worker_threads'
import { listeningPort } from './listening-port.ts'

/**
 * A worker thread with a proxy before the server at `port`. Its first message is its own port. It does what messages
 * say: `reset` ends the connections so that the next write to them fails at once; `stall` reads no more of any
 * connection and answers nothing. Each message is done when the number in `done` is one higher.
 */
const { port, done } = workerData as { port: number; done: Int32Array }
const open = new Set<{ client: Socket; behind: Socket }>()
let stalls = false

const server = createServer((client) => {
  const behind = connect(port, '127.0.0.1')
  const pair = { client, behind }
  open.add(pair)
  for (const socket of [client, behind]) {
    socket.on('error', () => undefined)
    socket.on('close', () => {
      open.delete(pair)
      client.destroy()
      behind.destroy()
    })
  }
  if (stalls) client.pause()
  else client.pipe(behind).pipe(client)
})

async function breakAll(how: 'reset' | 'stall'): Promise<void> {
  if (how === 'reset') {
    const clients = [...open].map(({ client }) => client)
    await Promise.all(clients.map((client) => once(client.resetAndDestroy(), 'close')))
  } else {
    stalls = true
    for (const { client, behind } of open) {
      client.unpipe(behind)
      client.pause()
    }
  }
  Atomics.add(done, 0, 1)
  Atomics.notify(done, 0)
}

parentPort!.on('message', (how: 'reset' | 'stall') => {
  void breakAll(how)
})
server.listen(0, '127.0.0.1', () => {
  parentPort!.postMessage(listeningPort(server))
})
