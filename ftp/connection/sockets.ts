import type { Socket } from 'node:net'
import { TLSSocket, type SecureContext } from 'node:tls'

/** How long the other side may take to close a connection that we have ended. */
const closeTimeoutMs = 2_000

/** IPv4 addresses without the prefix that an IPv6 socket puts before them; empty when the socket is closed. */
export const plainAddress = (address: string | undefined): string => (address ?? '').replace(/^::ffff:/i, '')

/**
 * Ends a connection so that the other side receives all that was written. Incoming bytes are read and discarded:
 * closing with unread bytes sends a reset, and the client would lose the last reply.
 */
export function closeGently(socket: Socket): void {
  if (socket.destroyed) return
  const timer = setTimeout(() => socket.destroy(), closeTimeoutMs)
  socket.once('close', () => {
    clearTimeout(timer)
  })
  socket.removeAllListeners('data')
  socket.resume()
  socket.end()
}

/** The first bytes that arrive, which stay to be read. Null where the connection ends, or none arrive in time. */
export async function peek(socket: Socket, timeoutMs: number): Promise<Buffer | null> {
  const timer = setTimeout(() => socket.destroy(), timeoutMs)
  socket.pause()
  const bytes = await new Promise<Buffer | null>((resolve) => {
    socket.once('readable', () => {
      resolve(socket.read() as Buffer | null)
    })
    socket.once('close', () => {
      resolve(null)
    })
  })
  clearTimeout(timer)
  if (bytes === null) socket.destroy()
  else socket.unshift(bytes)
  return bytes
}

/** The server's side of TLS, before the handshake; `completeHandshake` waits for that. */
export function wrapInTls(socket: Socket, secureContext: SecureContext): TLSSocket {
  const secure = new TLSSocket(socket, { isServer: true, secureContext })
  secure.on('error', () => undefined)
  return secure
}

/** Resolves to whether the handshake succeeded. After `timeoutMs`, or when aborted, the connection is destroyed. */
export function completeHandshake(
  socket: TLSSocket,
  options: { signal?: AbortSignal; timeoutMs: number },
): Promise<boolean> {
  return new Promise((resolve) => {
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
