import { connect, createServer, type Socket } from 'node:net'
import type { AddressInfo } from 'node:net'
import { parentPort, workerData } from 'node:worker_threads'

/**
 * A worker thread with a proxy before the server at port `workerData`. Its first message is its port. It does what the
 * messages say: `reset` ends the connections so that the next write to them fails at once; `stall` reads no more of
 * any connection and answers nothing.
 */
const open = new Set<{ client: Socket; behind: Socket }>()
let stalls = false

const server = createServer((client) => {
  const behind = connect(workerData as number, '127.0.0.1')
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

parentPort!.on('message', (message: 'reset' | 'stall') => {
  if (message === 'stall') stalls = true
  for (const { client, behind } of open) {
    if (message === 'reset') client.resetAndDestroy()
    else {
      client.unpipe(behind)
      client.pause()
    }
  }
  parentPort!.postMessage('done')
})
server.listen(0, '127.0.0.1', () => {
  parentPort!.postMessage((server.address() as AddressInfo).port)
})
