import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setImmediate as yieldToEventLoop, setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../shared/runtime/clock.ts'
import { gatheredPieces } from '../shared/runtime/gathered-pieces.ts'
import { failureReason, logFileAct, secondsSince } from '../shared/storage/uploads/file-acts.ts'
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

/** The file of a transfer, for its line of the log. */
export interface TransferredFile {
  filename: string
  /** Of the whole file, once it is known. */
  size?: number
  isResumed: boolean
  /** Set once an upload is visible, whatever breaks off after that. */
  isPublished?: true
}

/** Runs a transfer; `signal` is aborted when it must end. `file` is null for a listing. */
async function transfer(
  session: FtpSession,
  kind: TransferKind,
  file: TransferredFile | null,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const { protocol } = session
  const { transfers } = session.context
  const startedAt = clock.monotonicMs()
  let result: TransferResult = 'done'
  let reason: string | undefined
  transfers.begun(protocol, kind)
  try {
    if (session.context.isTlsRequired && !session.isDataPrivate)
      throw new FtpError(521, 'this server requires TLS for data connections; send PROT P first')
    await work(session.interruption.begin())
  } catch (error) {
    result = session.transferredBytes === null ? 'refused' : 'broken_off'
    reason = brokenBecause(session, error)
    throw error instanceof Error && error.name === 'AbortError' ? transferAborted() : error
  } finally {
    transfers.ended(protocol, kind, result, (clock.monotonicMs() - startedAt) / 1000)
    if (file !== null)
      logFileAct(session.clientLog, {
        event: kind === 'in' ? 'upload' : 'download',
        protocol: 'ftp',
        filename: file.filename,
        bytes: session.transferredBytes ?? 0,
        size: file.size,
        seconds: secondsSince(startedAt),
        resumed: file.isResumed,
        result: file.isPublished === true ? 'complete' : logResults[result],
        ...(reason === undefined ? {} : { reason }),
      })
    session.interruption.end()
    session.transferredBytes = null
    session.replaceData(null)
  }
}

const logResults = { done: 'complete', broken_off: 'unfinished', refused: 'refused' } as const

function brokenBecause({ interruption, endedBy }: FtpSession, error: unknown): string {
  if (interruption.sessionEnded.aborted) return `the session ended: ${endedBy.replaceAll('_', ' ')}`
  if (isAborted(error)) return abortReason(error.cause)
  return failureReason(error, [FtpError])
}

const isAborted = (error: unknown): error is Error =>
  error instanceof Error && (error.name === 'AbortError' || error.message === abortedText)

/** A stalled or broken data connection is the cause of the abort; the client's own abort has none. */
function abortReason(cause: unknown): string {
  if (isAborted(cause)) return abortReason(cause.cause)
  return cause instanceof Error
    ? `the data connection broke off: ${cause.message}`
    : 'the client aborted the transfer'
}

/** Receives an upload and publishes it. Throws when it is incomplete; the upload has ended in any case. */
export function receiveUpload(
  session: FtpSession,
  filename: string,
  begin: () => Promise<Upload>,
): Promise<void> {
  const file: TransferredFile = { filename, isResumed: false }
  return transfer(session, 'in', file, async (transferSignal) => {
    const upload = await begin()
    file.isResumed = upload.isResumed
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
      Object.assign(file, { size: upload.size, isPublished: true })
    } catch (error) {
      throw upload.lost.aborted ? takenOver(error) : error
    } finally {
      await upload.end()
    }
  })
}

/** Sends a file, or a listing, for which `file` is null. */
export function send(
  session: FtpSession,
  open: (signal: AbortSignal) => Promise<Readable>,
  file: TransferredFile | null,
): Promise<void> {
  const isFile = file !== null
  return transfer(session, isFile ? 'out' : 'list', file, async (signal) => {
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

const takenOver = (cause: unknown) =>
  new FtpError(426, 'another session has taken over this upload', { cause })

const abortedText = 'the transfer was aborted; resume a file with REST'

const transferAborted = (cause?: unknown) => new FtpError(426, abortedText, { cause })
