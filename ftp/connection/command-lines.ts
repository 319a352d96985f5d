import { isUtf8 } from 'node:buffer'

/** From the bytes of a control connection to commands: lines are put together over packets, and bounded. */

export interface Command {
  /** In capitals. */
  directive: string
  arg: string | null
}

/** Bytes; a line longer than this is no command. */
const longestLine = 1_024
const lineFeed = 0x0a

/** Puts lines together over packets; what waits for its end is never longer than a line may be. */
export class CommandLines {
  #rest: Buffer = Buffer.alloc(0)

  /** The lines that the bytes complete, without their ends; null when one is too long. */
  take(bytes: Buffer): Buffer[] | null {
    const { lines, unended } = splitLines(
      this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]),
    )
    this.#rest = unended
    if (isAbortWithoutEnd(unended)) {
      lines.push(unended)
      this.#rest = Buffer.alloc(0)
    }
    if (this.#rest.length > longestLine || lines.some((line) => line.length > longestLine)) {
      this.#rest = Buffer.alloc(0)
      return null
    }
    return lines.map(withoutTelnet).filter((line) => line.length > 0)
  }

  clear(): void {
    this.#rest = Buffer.alloc(0)
  }
}

/**
 * In place of ftp-srv's, which drops quotes and single-letter words from names. The sentence says why it is no command;
 * of bytes that are no UTF-8 two names would become one.
 */
export function parseCommand(line: Buffer): Command | string {
  if (!isUtf8(line)) return 'the command is not UTF-8'
  if (line.includes(0)) return 'the command holds a NUL'
  const text = line.toString()
  const blank = text.indexOf(' ')
  const directive = (blank === -1 ? text : text.slice(0, blank)).trim().toUpperCase()
  const arg = blank === -1 ? '' : text.slice(blank + 1)
  return { directive, arg: arg === '' ? null : arg }
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
