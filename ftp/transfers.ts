import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { clock } from '../shared/clock.ts'
import { FtpError } from './ftp-error.ts'
import type { Session } from './ftp-srv-internals.ts'
import { interruptionOf } from './interruption.ts'
import type { Upload } from './upload.ts'

/**
 * What goes over the data connection, in either direction. Each ends when its work is done, when its data connection
 * is gone or silent, at ABOR, and when the control connection is gone.
 */

export type CountBytes = (direction: 'in' | 'out', bytes: number) => void

const dataConnectionMs = 10_000
const lookMs = 20
/** Without a byte for so long the data connection is dead. */
const silenceMs = 5 * 60_000
/** What was sent before ABOR may arrive after it, as it comes another way. */
const lingerMs = 100
/** How long the control connection must outlive the data: a client that was killed closes both at once. */
const afterglowMs = 100

/** Runs a transfer; `signal` says that it is to end. The control connection may be silent as long as it lasts. */
async function transfer(session: Session, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const interruption = interruptionOf(session)
  const { commandSocket } = session
  const idleMs = commandSocket.timeout ?? 0
  commandSocket.setTimeout(0)
  try {
    await work(interruption.begin())
  } finally {
    interruption.end()
    session.connector.end()
    commandSocket.setTimeout(idleMs)
  }
}

/** Takes an upload in and publishes it if it came whole. It throws when it didn't, and has ended in any case. */
export function receiveUpload(
  session: Session,
  begin: () => Promise<Upload>,
  count: CountBytes,
): Promise<void> {
  return transfer(session, async (ofSession) => {
    const upload = await begin()
    const signal = AbortSignal.any([ofSession, upload.lost])
    try {
      const socket = await dataConnection(session, signal)
      await upload.open()
      await session.reply(150, 'send the data')
      await upload.receive(received(socket, signal, count))
      // An end of data says nothing about their completeness; a client that is still there a moment later does.
      await sleep(afterglowMs, undefined, { signal }).catch(() => undefined)
      refuseIfAborted(signal)
      await upload.sync()
      refuseIfAborted(signal)
      await upload.publish()
    } finally {
      await upload.end()
    }
  })
}

export function send(session: Session, open: () => Promise<Readable>, count: CountBytes): Promise<void> {
  return transfer(session, async (signal) => {
    const content = await open()
    try {
      const socket = await dataConnection(session, signal)
      await session.reply(150, 'here it comes')
      socket.setTimeout(silenceMs, () => socket.destroy())
      content.on('data', (piece: Buffer) => count('out', piece.length))
      await pipeline(content, socket, { signal }).catch((error: unknown) => {
        throw brokenOff(error)
      })
    } finally {
      content.destroy()
    }
  })
}

/** ftp-srv has a wait of its own, which goes on looking for ever when nobody comes. */
async function dataConnection(session: Session, signal: AbortSignal): Promise<Socket> {
  const { connector } = session
  const until = clock.monotonicMs() + dataConnectionMs
  while (connector.type !== false && clock.monotonicMs() < until) {
    if (connector.dataSocket?.connected === true) return connector.dataSocket
    await sleep(lookMs, undefined, { signal }).catch(() => undefined)
    refuseIfAborted(signal)
  }
  throw new FtpError(425, 'no data connection was opened')
}

async function* received(socket: Socket, signal: AbortSignal, count: CountBytes): AsyncGenerator<Buffer> {
  const breakOff = () => setTimeout(() => socket.destroy(brokenOff()), lingerMs).unref()
  if (signal.aborted) breakOff()
  signal.addEventListener('abort', breakOff, { once: true })
  socket.setTimeout(silenceMs, () => socket.destroy())
  try {
    for await (const piece of socket as AsyncIterable<Buffer>) {
      count('in', piece.length)
      yield piece
    }
  } catch (error) {
    throw brokenOff(error)
  } finally {
    signal.removeEventListener('abort', breakOff)
  }
}

function refuseIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw brokenOff()
}

const brokenOff = (cause?: unknown) => new FtpError(426, 'the transfer was broken off', { cause })
