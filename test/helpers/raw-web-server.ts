import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer, type SecureContextOptions } from 'node:tls'
import type { Test } from 'tap'
import { listeningPort } from './listening-port.ts'

/** A web server that writes what a test says, byte for byte: no library would send some of it. */
interface RawWebServer {
  port: number
  /** Heads of the requests as they came, by path. */
  requests: Map<string, string[]>
}

export type RawAnswer = (socket: Socket, request: { path: string; nth: number; head: string }) => unknown

export async function startRawWebServer(
  t: Test,
  answers: Record<string, RawAnswer>,
  options: { host?: string; tls?: SecureContextOptions } = {},
): Promise<RawWebServer> {
  const requests = new Map<string, string[]>()
  const open = new Set<Socket>()
  const accept = (socket: Socket) => {
    open.add(socket)
    socket.on('error', () => undefined)
    socket.once('close', () => open.delete(socket))
    let head = ''
    const onData = (piece: Buffer) => {
      head += piece.toString('latin1')
      if (!head.includes('\r\n\r\n')) return
      socket.off('data', onData).resume()
      const [, path = ''] = head.split(' ')
      const [pathname = ''] = path.split('?')
      const seen = requests.get(path) ?? []
      requests.set(path, [...seen, head])
      const answer = answers[pathname]
      if (answer === undefined) socket.end('HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n')
      else answer(socket, { path, nth: seen.length + 1, head })
    }
    socket.on('data', onData)
  }
  const server: Server =
    options.tls === undefined
      ? createServer(accept)
      : createTlsServer(options.tls, accept).on('tlsClientError', () => undefined)
  await new Promise<void>((resolve) => server.listen(0, options.host ?? '127.0.0.1', resolve))
  t.teardown(() => {
    server.close()
    for (const socket of open) socket.destroy()
  })
  return { port: listeningPort(server), requests }
}

/** A whole answer. */
export const answer =
  (status: number, headers: Record<string, string | number>, body: string | Buffer = ''): RawAnswer =>
  (socket) => {
    socket.write(head(status, headers))
    socket.end(body)
  }

export const head = (status: number, headers: Record<string, string | number> = {}): string =>
  [
    `HTTP/1.1 ${status} So`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    '',
    '',
  ].join('\r\n')

export const redirect = (location: string): RawAnswer => answer(302, { location, 'content-length': 0 })

/** Writes again and again as fast as the other side reads, until it goes away. */
export function flood(socket: Socket, piece: Buffer | string): void {
  const write = () => {
    while (!socket.destroyed) if (!socket.write(piece)) return void socket.once('drain', write)
  }
  write()
}

/** Writes a piece at each interval until the other side closes. */
export function drip(socket: Socket, piece: string, everyMs: number): void {
  const timer = setInterval(() => socket.write(piece), everyMs)
  socket.once('close', () => {
    clearInterval(timer)
  })
}
