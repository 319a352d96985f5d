import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'

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

/**
 * The client's first TLS record, which stays to be read. A large one comes in several packets. Null where the connection
 * ends, or the record isn't whole in time.
 */
export async function peekTlsRecord(socket: Socket, timeoutMs: number): Promise<Buffer | null> {
  const timer = setTimeout(() => socket.destroy(), timeoutMs)
  let bytes = Buffer.alloc(0)
  let onReadable = (): void => undefined
  const isThere = await new Promise<boolean>((resolve) => {
    onReadable = () => {
      bytes = Buffer.concat([bytes, (socket.read() as Buffer | null) ?? Buffer.alloc(0)])
      if (isWholeRecord(bytes)) resolve(true)
    }
    socket.pause()
    socket.on('readable', onReadable)
    socket.once('close', () => {
      resolve(false)
    })
  })
  clearTimeout(timer)
  socket.off('readable', onReadable)
  if (!isThere) return null
  socket.unshift(bytes)
  return bytes
}

/** True also for bytes that begin no handshake: TLS refuses them. */
function isWholeRecord(bytes: Buffer): boolean {
  const handshakeType = 22
  if (bytes.length === 0) return false
  return bytes[0] !== handshakeType || (bytes.length >= 5 && bytes.length >= 5 + bytes.readUInt16BE(3))
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
