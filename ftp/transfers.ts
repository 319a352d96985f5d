import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setImmediate as yieldToEventLoop, setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../shared/runtime/clock.ts'
import { FtpError } from './ftp-error.ts'
import type { TransferKind, TransferResult } from './metrics.ts'
import type { FtpSession } from './session.ts'
import type { Upload } from './uploads/upload.ts'

/**
 * What goes over the data connection, in either direction. Each ends when its work is done, when its data connection
 * is gone or silent, at ABOR, and when the session is at its end.
 */

/** What was sent before ABOR may arrive after it, as it comes another way. */
const lingerMs = 100
/** How long the control connection must outlive the data: a client that was killed closes both at once. */
export const closeGraceMs = 100

/** Runs a transfer; `signal` says that it is to end. */
async function transfer(
  session: FtpSession,
  kind: TransferKind,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  if (session.context.isTlsRequired && !session.isDataPrivate)
    throw new FtpError(521, 'data go over TLS only here, send PROT P first')
  const { metrics } = session.context
  const startedAt = clock.monotonicMs()
  let result: TransferResult = 'done'
  metrics.transferBegun(kind)
  try {
    await work(session.interruption.begin())
  } catch (error) {
    result = session.transferred === null ? 'refused' : 'broken_off'
    throw (error as Error).name === 'AbortError' ? brokenOff() : error
  } finally {
    metrics.transferEnded(kind, result, (clock.monotonicMs() - startedAt) / 1000)
    session.interruption.end()
    session.transferred = null
    session.data?.close()
    session.data = null
  }
}

/** Takes an upload in and publishes it if it came whole. It throws when it didn't, and has ended in any case. */
export function receiveUpload(session: FtpSession, begin: () => Promise<Upload>): Promise<void> {
  return transfer(session, 'in', async (ofSession) => {
    const upload = await begin()
    const signal = AbortSignal.any([ofSession, upload.lost])
    try {
      const plain = await openData(session, signal)
      await upload.open(signal)
      const socket = await beginData(session, { plain, signal, text: 'send the data' })
      await upload.receive(received(session, socket, signal))
      // An end of data says nothing about their completeness; a client that is still there a moment later does.
      await Promise.all([watch(signal), upload.prepare()])
      signal.throwIfAborted()
      await upload.publish(signal)
    } finally {
      await upload.end()
    }
  })
}

/** `isFile`: the bytes are counted as those of files. */
export function send(
  session: FtpSession,
  open: (signal: AbortSignal) => Promise<Readable>,
  { isFile }: { isFile: boolean },
): Promise<void> {
  return transfer(session, isFile ? 'out' : 'list', async (signal) => {
    const content = await open(signal)
    try {
      const plain = await openData(session, signal)
      const socket = await beginData(session, { plain, signal, text: 'here it comes' })
      content.on('data', (piece: Buffer) => {
        session.transferred! += piece.length
        if (isFile) session.context.metrics.bytes('out', piece.length)
      })
      await pipeline(content, socket, { signal }).catch((error: unknown) => {
        throw brokenOff(error)
      })
    } finally {
      content.destroy()
    }
  })
}

/** When the process is late, the timer goes off before anybody has looked at the sockets: they come next, twice for TLS. */
async function watch(signal: AbortSignal): Promise<void> {
  await sleep(closeGraceMs, undefined, { signal })
  await yieldToEventLoop()
  await yieldToEventLoop()
}

async function openData(session: FtpSession, signal: AbortSignal): Promise<Socket> {
  if (session.data === null) throw new FtpError(425, 'send PASV, EPSV, PORT or EPRT first')
  return session.data.open({ signal, timeoutMs: session.context.timeouts.dataConnectionMs })
}

/** Says 150, which many clients wait for before they begin the handshake, and secures the connection if that is asked. */
async function beginData(
  session: FtpSession,
  { plain, signal, text }: { plain: Socket; signal: AbortSignal; text: string },
): Promise<Socket> {
  const { timeouts } = session.context
  session.transferred = 0
  await session.reply(150, text)
  const context = session.isDataPrivate ? session.control.secureContext : null
  const { mustResumeTls: mustResume } = session.context
  const options = { signal, timeoutMs: timeouts.dataConnectionMs, mustResume }
  const socket = context === null ? plain : await session.data!.secure(context, options)
  socket.setTimeout(timeouts.stallMs, () => socket.destroy(brokenOff(new Error('no byte came for a while'))))
  return socket
}

async function* received(session: FtpSession, socket: Socket, signal: AbortSignal): AsyncGenerator<Buffer> {
  const breakOff = () => setTimeout(() => socket.destroy(brokenOff()), lingerMs).unref()
  if (signal.aborted) breakOff()
  signal.addEventListener('abort', breakOff, { once: true })
  try {
    for await (const piece of socket as AsyncIterable<Buffer>) {
      session.transferred! += piece.length
      session.context.metrics.bytes('in', piece.length)
      yield piece
    }
  } catch (error) {
    throw brokenOff(error)
  } finally {
    signal.removeEventListener('abort', breakOff)
  }
}

const brokenOff = (cause?: unknown) => new FtpError(426, 'the transfer was broken off', { cause })
