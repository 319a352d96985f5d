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
 * are cut. Numbers are aligned right. A table that is continued has no header.
 */
export function table(
  header: string[],
  rows: (string | number | null)[][],
  options: { width: number; style: Styled; isContinued?: boolean },
): string {
  const texts = rows.map((row) => row.map((cell) => printable(String(cell ?? ''))))
  const isNumber = header.map(
    (_, i) =>
      rows.some((row) => typeof row[i] === 'number') &&
      rows.every((row) => typeof (row[i] ?? 0) === 'number'),
  )
  const widths = header.map((title, i) =>
    texts.reduce(
      (widest, row) => Math.min(options.width, Math.max(widest, displayWidth(row[i] ?? ''))),
      displayWidth(title),
    ),
  )
  const gaps = 2 * (header.length - 1)
  while (widths.reduce((sum, width) => sum + width, gaps) > options.width) {
    const widest = Math.max(...widths)
    if (widest <= minColumnWidth) break
    widths[widths.indexOf(widest)] = widest - 1
  }
  const line = (cells: string[]): string => {
    const shown = widths.map((width, i) => padded(cutTo(cells[i] ?? '', width), width, isNumber[i] === true))
    return cutTo(shown.join('  ').trimEnd(), options.width)
  }
  const heading = options.isContinued === true ? [] : [options.style('bold', line(header))]
  return [...heading, ...texts.map(line)].map((text) => `${text}\n`).join('')
}

/** Writes a table that fits the stream. Returns false when the stream can take no more for now. */
export const writeTable = (
  terminal: Terminal,
  stream: NodeJS.WriteStream,
  header: string[],
  rows: (string | number | null)[][],
  options: { isContinued?: boolean } = {},
): boolean =>
  stream.write(
    table(header, rows, { width: terminalWidth(stream), style: styledFor(terminal, stream), ...options }),
  )

/** Escapes control characters and those that turn the direction, so that a text can't control the terminal. */
export const printable = (text: string): string =>
  text.replaceAll(/[\p{Cc}\u2028-\u202e\u2066-\u2069]/gu, (character) => {
    if (character === '\t') return '\\t'
    const code = character.charCodeAt(0)
    return code > 0xff ? `\\u${code.toString(16)}` : `\\x${code.toString(16).padStart(2, '0')}`
  })

/** Decodes a text from elsewhere, escapes its control characters except line ends, and cuts its lines to `width`. */
export async function* printableLines(
  bytes: AsyncIterable<Uint8Array>,
  { charset, width }: { charset: string; width: number },
): AsyncGenerator<string> {
  // For TextDecoder ISO-8859-1 is windows-1252; Buffer reads the real one, in which each byte is a character.
  const decoder = charset === 'iso-8859-1' ? null : new TextDecoder(charset)
  let line = ''
  const completeLines = (text: string): string => {
    let complete = ''
    for (const [i, part] of text.split('\n').entries()) {
      if (i > 0) {
        complete += `${cutTo(line, width)}\n`
        line = ''
      }
      // A line may have a megabyte, of which no more than the terminal's width is kept.
      if (displayWidth(line) <= width) line += printable(part)
    }
    return complete
  }
  for await (const piece of bytes)
    yield completeLines(decoder?.decode(piece, { stream: true }) ?? Buffer.from(piece).toString('latin1'))
  yield completeLines(decoder?.decode() ?? '') + cutTo(line, width)
}

/**
 * Breaks the lines of a text between words, so that none is wider than `width`. A wider word is cut. Lines that are
 * continued keep their indentation, and those of a command end with a backslash, as a shell wants it.
 */
export function wrapTo(text: string, width: number, options: { isCommand?: boolean } = {}): string {
  return text
    .split('\n')
    .map((line) => wrapLine(line, width, options.isCommand === true))
    .join('\n')
}

function wrapLine(text: string, width: number, isCommand: boolean): string {
  if (displayWidth(text) <= width) return text
  const [indent = ''] = /^ */.exec(text) ?? []
  const ending = isCommand ? ' \\' : ''
  const lines: string[] = []
  // In a command, what is enclosed in quotes is one word.
  for (const word of text.trim().match(isCommand ? /(?:'[^']*'|\S)+/g : /\S+/g) ?? []) {
    const last = lines.at(-1)
    if (last !== undefined && displayWidth(`${last} ${word}${ending}`) <= width)
      lines.push(`${lines.pop()} ${word}`)
    else lines.push(indent + (isCommand && last !== undefined ? '  ' : '') + word)
  }
  return lines.map((line, i) => cutTo(line + (i < lines.length - 1 ? ending : ''), width)).join('\n')
}

/** Writes sentences, wrapped where the stream is a terminal. */
export function writeSentence(stream: NodeJS.WriteStream, text: string): void {
  stream.write(`${wrapTo(text, terminalWidth(stream))}\n`)
}

const padded = (text: string, width: number, isNumber: boolean): string => {
  const blanks = ' '.repeat(Math.max(0, width - displayWidth(text)))
  return isNumber ? blanks + text : text + blanks
}

const isWide =
  /[\u1100-\u115f\u2329\u232a\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{16fe0}-\u{1b2ff}\u{1f200}-\u{1f2ff}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u

/** Columns that a text takes: two for the wide characters of East Asia and for emoji. */
export function displayWidth(text: string): number {
  let width = 0
  for (const character of stripVTControlCharacters(text)) {
    if (/[\p{Mn}\p{Me}]/u.test(character)) continue
    width += isWide.test(character) ? 2 : 1
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
    const prompt = `${wrapTo(question.trimEnd(), terminalWidth(err) - 2)} `
    let answer: string | null = null
    if (options.isSecret === true) {
      // Nothing that is typed is shown, whatever readline wants to redraw.
      Object.assign(lines, { _writeToOutput: () => undefined })
      err.write(prompt)
    }
    lines.on('SIGINT', () => lines.close())
    lines.on('close', () => {
      if (options.isSecret === true || answer === null) err.write('\n')
      if (answer !== null) resolve(answer)
      // A signal to itself would come too late for a handler: nothing keeps the process until then.
      else if (!process.emit('SIGINT')) process.kill(process.pid, 'SIGINT')
    })
    lines.question(options.isSecret === true ? '' : prompt, (text) => {
      answer = text
      lines.close()
    })
  })
}

/** Quotes a text as one word for a POSIX shell. */
export const shellQuoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`
