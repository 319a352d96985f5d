import { connect, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { listeningPort } from './listening-port.ts'

/**
 * The URI of the server behind a proxy that delays each connection's commands by `delayMs()`. A request writes that
 * much later than it has read, so that others come in between more often.
 */
export async function openSlowLink(t: Test, uri: string, delayMs: () => number): Promise<URL> {
  const { hostname, port } = new URL(uri)
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const behind = connect(Number(port), hostname)
    for (const socket of [client, behind]) {
      sockets.add(socket)
      socket.setNoDelay(true)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        behind.destroy()
      })
    }
    behind.pipe(client)
    let last = Promise.resolve()
    client.on('data', (bytes) => {
      last = last.then(async () => {
        await sleep(delayMs())
        if (!behind.destroyed) behind.write(bytes)
      })
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
  const link = new URL(uri)
  link.host = `127.0.0.1:${listeningPort(server)}`
  link.search = '?directConnection=true'
  return link
}
