import { createServer } from 'node:net'
import type { Test } from 'tap'
import { listeningPort } from './listening-port.ts'

/**
 * A server at 127.0.0.2, a private address that is not allowed; `knocks` lists its clients. Where only 127.0.0.1 is
 * loopback no client can reach it, and the port is any.
 */
export async function forbiddenServer(t: Test): Promise<{ port: number; knocks: string[] }> {
  const knocks: string[] = []
  const server = createServer((socket) => {
    knocks.push(`${socket.remoteAddress} at ${socket.localAddress}`)
    socket.destroy()
  })
  t.teardown(() => server.close())
  const port = await new Promise<number>((resolve) => {
    server.once('error', () => {
      resolve(9)
    })
    server.listen(0, '127.0.0.2', () => {
      resolve(listeningPort(server))
    })
  })
  return { port, knocks }
}
