import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setImmediate as yieldToEventLoop, setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../shared/runtime/clock.ts'
import { gatheredPieces } from '../shared/runtime/gathered-pieces.ts'
import type { TransferKind, TransferResult } from '../shared/storage/uploads/transfer-metrics.ts'
import type { Upload } from '../shared/storage/uploads/upload.ts'
import { FtpError } from './ftp-error.ts'
import type { FtpSession } from './session.ts'

/**
 * Transfers over the data connection, in both directions. A transfer ends when its work is done, when its data
 * connection closes or stalls, when an upload loses its lease, at ABOR, and with its session.
 */

/** How long an aborted upload still reads: data sent before ABOR may arrive after it, on the other connection. */
const lingerMs = 100
/** How long the control connection must outlive the data: a client that was killed closes both at once. */
export const closeGraceMs = 100

/** Runs a transfer; `signal` is aborted when it must end. */
async function transfer(
  session: FtpSession,
  kind: TransferKind,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  if (session.context.isTlsRequired && !session.isDataPrivate)
    throw new FtpError(521, 'this server requires TLS for data connections; send PROT P first')
  const { protocol } = session
  const { transfers } = session.context
  const startedAt = clock.monotonicMs()
  let result: TransferResult = 'done'
  transfers.begun(protocol, kind)
  try {
    await work(session.interruption.begin())
  } catch (error) {
    result = session.transferredBytes === null ? 'refused' : 'broken_off'
    throw error instanceof Error && error.name === 'AbortError' ? transferAborted() : error
  } finally {
    transfers.ended(protocol, kind, result, (clock.monotonicMs() - startedAt) / 1000)
    session.interruption.end()
    session.transferredBytes = null
    session.replaceData(null)
  }
}

/** Receives an upload and publishes it. Throws when it is incomplete; the upload has ended in any case. */
export function receiveUpload(session: FtpSession, begin: () => Promise<Upload>): Promise<void> {
  return transfer(session, 'in', async (transferSignal) => {
    const upload = await begin()
    const signal = AbortSignal.any([transferSignal, upload.lost])
    try {
      const connection = await openData(session, signal)
      await upload.open(signal)
      const socket = await connection.begin('ready to receive the file')
      await upload.receive(receivedPieces(session, socket, signal))
      // The end of the data doesn't prove that they are complete; a client that is still connected shortly later does.
      await Promise.all([outliveData(signal), upload.prepare()])
      signal.throwIfAborted()
      await upload.publish(signal)
    } finally {
      await upload.end()
    }
  })
}

/** `isFile` tells files from listings, for the reply and the metrics. */
export function send(
  session: FtpSession,
  open: (signal: AbortSignal) => Promise<Readable>,
  { isFile }: { isFile: boolean },
): Promise<void> {
  return transfer(session, isFile ? 'out' : 'list', async (signal) => {
    const content = await open(signal)
    try {
      const connection = await openData(session, signal)
      const socket = await connection.begin(isFile ? 'sending the file' : 'sending the listing')
      content.on('data', (piece: Buffer) => {
        session.countTransferred(piece.length)
        if (isFile) session.context.transfers.bytes(session.protocol, 'out', piece.length)
      })
      await pipeline(content, socket, { signal }).catch((error: unknown) => {
        throw transferAborted(error)
      })
    } finally {
      content.destroy()
    }
  })
}

/**
 * Waits until the control connection has outlived the data. In a busy process the timer fires before the sockets are
 * read, so the event loop then polls them once more, and twice for TLS.
 */
async function outliveData(signal: AbortSignal): Promise<void> {
  await sleep(closeGraceMs, undefined, { signal })
  await yieldToEventLoop()
  await yieldToEventLoop()
}

/** The open data connection, and `begin`, which replies 150 and then starts TLS if the session asked for it. */
async function openData(
  session: FtpSession,
  signal: AbortSignal,
): Promise<{ begin: (text: string) => Promise<Socket> }> {
  const { data, context, control } = session
  if (data === null) throw new FtpError(425, 'no data connection; send PASV, EPSV, PORT or EPRT first')
  const { timeouts, mustResumeTls } = context
  const timeoutMs = timeouts.dataConnectionMs
  const plain = await data.open({ signal, timeoutMs })
  return {
    async begin(text) {
      session.transferredBytes = 0
      // Before the handshake: many clients begin it only after this reply.
      await session.reply(150, text)
      const tls = session.isDataPrivate ? control.tls : null
      const socket =
        tls === null ? plain : await data.startTls(tls, { signal, timeoutMs, mustResume: mustResumeTls })
      socket.setTimeout(timeouts.stallMs, () =>
        socket.destroy(transferAborted(new Error(`no byte for ${timeouts.stallMs / 1000} s`))),
      )
      return socket
    },
  }
}

async function* receivedPieces(
  session: FtpSession,
  socket: Socket,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const abortSocket = () => setTimeout(() => socket.destroy(transferAborted()), lingerMs).unref()
  if (signal.aborted) abortSocket()
  signal.addEventListener('abort', abortSocket, { once: true })
  try {
    for await (const piece of gatheredPieces(socket)) {
      session.countTransferred(piece.length)
      session.context.transfers.bytes(session.protocol, 'in', piece.length)
      yield piece
    }
  } catch (error) {
    throw transferAborted(error)
  } finally {
    signal.removeEventListener('abort', abortSocket)
    socket.destroy()
  }
}

const transferAborted = (cause?: unknown) =>
  new FtpError(426, 'the transfer was aborted; resume a file with REST', { cause })
