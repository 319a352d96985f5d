import type { Socket } from 'node:net'
import { TLSSocket, type SecureContext } from 'node:tls'

/** Milliseconds for the other side to end a connection that we have ended. */
const partingMs = 2_000

/** An IPv4 address that came over an IPv6 socket is that IPv4 address. Empty when the socket is gone already. */
export const plainAddress = (address: string | undefined): string => (address ?? '').replace(/^::ffff:/i, '')

/**
 * Ends a connection so that the other side gets all that was written: what still comes is read and thrown away, as
 * bytes that nobody read would make the system send a reset, which takes the last reply from the client.
 */
export function closeGently(socket: Socket): void {
  if (socket.destroyed) return
  const timer = setTimeout(() => socket.destroy(), partingMs)
  socket.once('close', () => {
    clearTimeout(timer)
  })
  socket.removeAllListeners('data')
  socket.resume()
  socket.end()
}

/** The server's side of TLS over a connection, before the handshake; `handshake` waits for that. */
export function wrapInTls(socket: Socket, secureContext: SecureContext): TLSSocket {
  const secure = new TLSSocket(socket, { isServer: true, secureContext })
  secure.on('error', () => undefined)
  return secure
}

/** Resolves to whether the handshake succeeded; aborted or after `timeoutMs` the connection is destroyed. */
export function handshake(socket: TLSSocket, options: { signal?: AbortSignal; timeoutMs: number }) {
  return new Promise<boolean>((resolve) => {
    const giveUp = () => socket.destroy()
    const timer = setTimeout(giveUp, options.timeoutMs)
    const end = (isSecure: boolean) => {
      clearTimeout(timer)
      options.signal?.removeEventListener('abort', giveUp)
      resolve(isSecure)
    }
    socket.once('secure', () => {
      end(true)
    })
    socket.once('close', () => {
      end(false)
    })
    options.signal?.addEventListener('abort', giveUp)
    if (options.signal?.aborted === true) giveUp()
  })
}
