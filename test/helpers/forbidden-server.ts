import { createServer, type AddressInfo } from 'node:net'
import type { Test } from 'tap'

/**
 * A server at 127.0.0.2, an address that is private and not allowed; `knocks` says who came. Where only 127.0.0.1 is
 * loopback nobody can be reached there anyway, and the port is any.
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
      resolve((server.address() as AddressInfo).port)
    })
  })
  return { port, knocks }
}
