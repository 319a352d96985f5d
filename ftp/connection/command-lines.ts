import { isUtf8 } from 'node:buffer'

/** Turns the bytes of a control connection into lines and commands. */

export interface Command {
  /** In capitals. */
  directive: string
  arg: string | null
}

export const maxLineBytes = 1_024
const lineFeed = 0x0a
const carriageReturn = 0x0d

/** Makes lines of packets, which may end within a line. An unfinished line has the same bound as a finished one. */
export class CommandLines {
  #rest: Buffer = Buffer.alloc(0)

  /** The lines that these bytes complete, without their line ends; null when a line is too long. */
  append(bytes: Buffer): Buffer[] | null {
    const { lines, unfinished } = splitLines(
      this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]),
    )
    this.#rest = unfinished
    if (isAbortWithoutLineFeed(unfinished)) {
      lines.push(unfinished)
      this.#rest = Buffer.alloc(0)
    }
    if (this.#rest.length > maxLineBytes || lines.some((line) => line.length > maxLineBytes)) {
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
 * Parses a line to a command, or to a sentence that says why it is none. It replaces ftp-srv's parser, which drops
 * quotes and one-letter words from names. Only UTF-8 is accepted: decoding other bytes could turn two names into one.
 */
export function parseCommand(line: Buffer): Command | string {
  if (!isUtf8(line)) return 'the command is not valid UTF-8'
  if (line.includes(0)) return 'the command contains a NUL byte'
  const text = line.toString()
  const blank = text.indexOf(' ')
  const directive = (blank === -1 ? text : text.slice(0, blank)).trim().toUpperCase()
  const arg = blank === -1 ? '' : text.slice(blank + 1)
  return { directive, arg: arg === '' ? null : arg }
}

function splitLines(bytes: Buffer): { lines: Buffer[]; unfinished: Buffer } {
  const lines: Buffer[] = []
  let begin = 0
  for (let end = bytes.indexOf(lineFeed); end !== -1; end = bytes.indexOf(lineFeed, begin)) {
    lines.push(bytes.subarray(begin, bytes[end - 1] === carriageReturn && end > begin ? end - 1 : end))
    begin = end + 1
  }
  return { lines, unfinished: bytes.subarray(begin) }
}

/**
 * Removes Telnet's "interrupt process" and "data mark" (FF F4 FF F2), which clients send before ABOR. One of the bytes
 * travels as urgent data and may be missing. Only the beginning counts, as names may contain these bytes.
 */
function withoutTelnet(line: Buffer): Buffer {
  let begin = 0
  while ([0xff, 0xf4, 0xf2].includes(line[begin] ?? 0)) begin += 1
  return line.subarray(begin)
}

/** Python's client sends "ABOR" as urgent data, whose last byte, the line feed, doesn't arrive in the stream. */
const isAbortWithoutLineFeed = (rest: Buffer): boolean =>
  /^ABOR\r$/i.test(withoutTelnet(rest).toString('latin1'))
