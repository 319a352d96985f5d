import { isUtf8 } from 'node:buffer'
import type { Command, Session } from './ftp-srv-internals.ts'
import { interruptionOf } from './interruption.ts'

/** A command line longer than this is no command. */
const longestLine = 1_024
const lineFeed = 0x0a

/**
 * Reads a session's control connection in place of ftp-srv, which takes every packet for whole lines: lines are put
 * together, bounded, and handled one after the other. The socket is never paused, so that its end and ABOR are seen
 * during a transfer.
 */
export function readControlLines(session: Session, onError: (error: unknown) => void): void {
  const socket = session.commandSocket
  const interruption = interruptionOf(session)
  let rest: Buffer = Buffer.alloc(0)
  let queue: Promise<unknown> = Promise.resolve()

  socket.removeAllListeners('data')
  socket.pause = () => socket
  for (const event of ['end', 'close']) socket.once(event, () => interruption.hangUp())
  socket.on('data', (data: Buffer) => {
    const { lines, unended } = splitLines(Buffer.concat([rest, data]))
    rest = unended
    if (isAbortWithoutEnd(rest)) {
      lines.push(rest)
      rest = Buffer.alloc(0)
    }
    if ([rest, ...lines].some((line) => line.length > longestLine)) {
      rest = Buffer.alloc(0)
      void session.close(500, 'the command line is too long')
      return
    }
    for (const bytes of lines) {
      const line = withoutTelnet(bytes)
      if (line.length === 0) continue
      const command = parseCommand(line)
      const isAbort = command?.directive === 'ABOR'
      if (isAbort) interruption.abort()
      queue = queue
        .then(() => handle(session, command, onError))
        .then(() => {
          if (isAbort) interruption.abortIsAnswered()
        })
    }
  })
}

function splitLines(bytes: Buffer): { lines: Buffer[]; unended: Buffer } {
  const lines: Buffer[] = []
  let begin = 0
  for (let end = bytes.indexOf(lineFeed); end !== -1; end = bytes.indexOf(lineFeed, begin)) {
    lines.push(bytes.subarray(begin, bytes[end - 1] === 0x0d && end > begin ? end - 1 : end))
    begin = end + 1
  }
  return { lines, unended: bytes.subarray(begin) }
}

/**
 * Clients put Telnet's "interrupt process" and "data mark" before ABOR: FF F4 FF F2. One of them is sent as urgent
 * data and may be missing. No command begins with these bytes, but a character in a file name may.
 */
function withoutTelnet(line: Buffer): Buffer {
  let begin = 0
  while ([0xff, 0xf4, 0xf2].includes(line[begin]!)) begin += 1
  return line.subarray(begin)
}

/** Python's client sends all of "ABOR" as urgent data, of which the last byte, the line feed, doesn't arrive here. */
const isAbortWithoutEnd = (rest: Buffer): boolean => /^ABOR\r$/i.test(withoutTelnet(rest).toString('latin1'))

/**
 * In place of ftp-srv's, which drops quotes and single-letter words from names. Null when it isn't UTF-8: two names
 * would become one.
 */
function parseCommand(line: Buffer): Command | null {
  if (!isUtf8(line)) return null
  const raw = line.toString()
  const blank = raw.indexOf(' ')
  const directive = (blank === -1 ? raw : raw.slice(0, blank)).trim().toUpperCase()
  const arg = blank === -1 ? '' : raw.slice(blank + 1)
  return { directive, arg: arg === '' ? null : arg, flags: [], raw }
}

async function handle(
  session: Session,
  command: Command | null,
  onError: (error: unknown) => void,
): Promise<void> {
  if (session.commandSocket.destroyed) return
  try {
    if (command === null) await session.reply(501, 'the command is not UTF-8')
    else await session.commands.handle(command)
  } catch (error) {
    onError(error)
    await session.reply(501, 'the command has a wrong or missing parameter')
  }
}
