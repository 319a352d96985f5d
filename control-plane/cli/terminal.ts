import { openSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { ReadStream } from 'node:tty'
import { stripVTControlCharacters, styleText } from 'node:util'

/** The streams that commands use, put together in main.ts. */
export interface Terminal {
  input: NodeJS.ReadStream
  out: NodeJS.WriteStream
  err: NodeJS.WriteStream
  /** Whether colours may be used on a stream that is a terminal. */
  hasColours: boolean
}

export type Style = Parameters<typeof styleText>[0]
type Styled = (style: Style, text: string) => string

/** Returns a function that styles a text, if the stream is a terminal and colours may be used. */
export const styledFor = (
  { hasColours }: Pick<Terminal, 'hasColours'>,
  stream: NodeJS.WriteStream,
): Styled =>
  hasColours && stream.isTTY
    ? (style, text) => styleText(style, text, { validateStream: false })
    : (_, text) => text

export const terminalWidth = (stream: NodeJS.WriteStream): number =>
  stream.isTTY ? stream.columns || 80 : Infinity

const minColumnWidth = 6

/**
 * Formats rows under a header, with columns as wide as their cells. On a terminal that is too narrow the widest columns
 * are cut. Numbers are aligned right.
 */
export function table(
  header: string[],
  rows: (string | number | null)[][],
  options: { width: number; style: Styled },
): string {
  const texts = rows.map((row) => row.map((cell) => oneLine(cell)))
  const isNumber = header.map((_, i) => rows.length > 0 && rows.every((row) => typeof row[i] === 'number'))
  const widths = header.map((title, i) =>
    Math.max(displayWidth(title), ...texts.map((row) => displayWidth(row[i] ?? ''))),
  )
  const gaps = 2 * (header.length - 1)
  while (widths.reduce((sum, width) => sum + width, gaps) > options.width) {
    const widest = Math.max(...widths)
    if (widest <= minColumnWidth) break
    widths[widths.indexOf(widest)] = widest - 1
  }
  const line = (cells: string[]): string =>
    widths
      .map((width, i) => padded(cutTo(cells[i] ?? '', width), width, isNumber[i] === true))
      .join('  ')
      .trimEnd()
  return [options.style('bold', line(header)), ...texts.map(line)].map((text) => `${text}\n`).join('')
}

/** Escapes control characters, so that a text from elsewhere can't control the terminal. */
export const printable = (text: string): string =>
  text.replaceAll(
    /[\u0000-\u001f\u007f-\u009f]/g,
    (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
  )

/** Decodes a text from elsewhere, and escapes its control characters except line ends and tabs. */
export async function* printableLines(
  bytes: AsyncIterable<Uint8Array>,
  charset: string,
): AsyncGenerator<string> {
  // For TextDecoder ISO-8859-1 is windows-1252; Buffer reads the real one, in which each byte is a character.
  const decoder = charset === 'iso-8859-1' ? null : new TextDecoder(charset)
  const escaped = (text: string) => text.replaceAll(/[^\t\n]+/g, printable)
  for await (const piece of bytes)
    yield escaped(decoder?.decode(piece, { stream: true }) ?? Buffer.from(piece).toString('latin1'))
  yield escaped(decoder?.decode() ?? '')
}

const oneLine = (cell: string | number | null | undefined): string =>
  cell === null || cell === undefined
    ? ''
    : (typeof cell === 'number' ? String(cell) : cell).replaceAll(/[\u0000-\u001f\u007f-\u009f]+/g, ' ')

const padded = (text: string, width: number, isNumber: boolean): string => {
  const blanks = ' '.repeat(Math.max(0, width - displayWidth(text)))
  return isNumber ? blanks + text : text + blanks
}

/** Columns that a text takes: two for the wide characters of East Asia and for emoji. */
export function displayWidth(text: string): number {
  let width = 0
  for (const character of stripVTControlCharacters(text)) {
    if (/\p{Mark}/u.test(character)) continue
    width +=
      /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u.test(
        character,
      )
        ? 2
        : 1
  }
  return width
}

export function cutTo(text: string, width: number): string {
  if (displayWidth(text) <= width) return text
  let cut = ''
  for (const character of text) {
    if (displayWidth(cut + character) > width - 1) break
    cut += character
  }
  return `${cut}…`
}

/** Opens the terminal's keyboard, for a question after standard input has ended; null when there is no terminal. */
export function keyboard(): NodeJS.ReadStream | null {
  try {
    return new ReadStream(openSync('/dev/tty', 'r+'))
  } catch {
    return null
  }
}

/** Asks a question on the terminal. Ctrl-C and Ctrl-D end the program as they do without a question. */
export function ask(
  { input, err }: Terminal,
  question: string,
  options: { isSecret?: boolean } = {},
): Promise<string> {
  return new Promise((resolve) => {
    const lines = createInterface({ input, output: err, terminal: true })
    let answer: string | null = null
    if (options.isSecret === true) {
      // Nothing that is typed is shown, whatever readline wants to redraw.
      Object.assign(lines, { _writeToOutput: () => undefined })
      err.write(question)
    }
    lines.on('SIGINT', () => {
      lines.close()
    })
    lines.on('close', () => {
      if (options.isSecret === true || answer === null) err.write('\n')
      if (answer === null) process.kill(process.pid, 'SIGINT')
      else resolve(answer)
    })
    lines.question(options.isSecret === true ? '' : question, (text) => {
      answer = text
      lines.close()
    })
  })
}
