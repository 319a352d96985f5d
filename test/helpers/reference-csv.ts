/**
 * A second implementation of the rules about records and cells, as plain as possible, without a thought for speed. It
 * shares no code with the engine, and the tests compare the two. Characters stand for bytes.
 */
interface ReferenceRecord {
  line: number
  /** The record's bytes, its line end excluded. */
  text: string
  /** Null for an unterminated record. */
  cells: string[] | null
}

interface ReferenceDialect {
  separator: string
  enclosure: string
  escape: string | null
}

export function referenceRecords(text: string, dialect: ReferenceDialect): ReferenceRecord[] {
  const { separator } = dialect
  const records: ReferenceRecord[] = []
  let at = 0
  let line = 1
  while (at < text.length) {
    const lineEnd = endOfLine(text, at)
    if (isBlankLine(text.slice(at, lineEnd), separator)) {
      at = afterLineEnd(text, lineEnd)
      line += 1
      continue
    }
    const record = readRecord(text, at, dialect)
    records.push({ line, text: text.slice(at, record.end), cells: record.cells })
    line += breaksIn(text.slice(at, record.end)) + 1
    at = afterLineEnd(text, record.end)
  }
  return records
}

function readRecord(
  text: string,
  start: number,
  { separator, enclosure, escape }: ReferenceDialect,
): { end: number; cells: string[] | null } {
  const cells: string[] = []
  let at = start
  for (;;) {
    let end: number
    const open = afterBlanks(text, at, separator)
    if (text[open] === enclosure) {
      const close = closingOf(text, open, enclosure, escape)
      if (close === -1) return { end: endOfLine(text, open), cells: null }
      end = afterBlanks(text, close + 1, separator)
      if (end === text.length || text[end] === separator || isLineEnd(text.charAt(end))) {
        cells.push(unescaped(text.slice(open + 1, close), enclosure, escape))
      } else if (breaksIn(text.slice(open, close)) > 0) {
        return { end: endOfLine(text, open), cells: null }
      } else {
        end = endOfCell(text, close + 1, separator)
        cells.push(text.slice(at, end))
      }
    } else {
      end = endOfCell(text, at, separator)
      const cell = text.slice(at, end)
      cells.push(escape !== null && cell.trim() === '\\N' ? '' : cell)
    }
    if (text[end] !== separator) return { end, cells }
    at = end + 1
  }
}

function afterBlanks(text: string, from: number, separator: string): number {
  let at = from
  while (at < text.length && isBlank(text.charAt(at), separator)) at += 1
  return at
}

function closingOf(text: string, open: number, enclosure: string, escape: string | null): number {
  let at = open + 1
  while (at < text.length && at - open <= 256 * 1024) {
    const next = text.charAt(at + 1)
    if (text[at] === escape && (next === enclosure || next === escape)) at += 2
    else if (text[at] === enclosure && next === enclosure) at += 2
    else if (text[at] === enclosure) return breaksIn(text.slice(open, at)) >= 1000 ? -1 : at
    else at += 1
  }
  return -1
}

function unescaped(text: string, enclosure: string, escape: string | null): string {
  let result = ''
  for (let at = 0; at < text.length; at += 1) {
    const pair = text.slice(at, at + 2)
    if (
      pair === enclosure + enclosure ||
      (escape !== null && [escape + enclosure, escape + escape].includes(pair))
    )
      at += 1
    result += text.charAt(at)
  }
  return result
}

function endOfCell(text: string, from: number, separator: string): number {
  let at = from
  while (at < text.length && text[at] !== separator && !isLineEnd(text.charAt(at))) at += 1
  return at
}

function endOfLine(text: string, from: number): number {
  let at = from
  while (at < text.length && !isLineEnd(text.charAt(at))) at += 1
  return at
}

function afterLineEnd(text: string, at: number): number {
  return text.slice(at, at + 2) === '\r\n' ? at + 2 : Math.min(at + 1, text.length)
}

const isLineEnd = (character: string): boolean => character === '\n' || character === '\r'
const isBlank = (character: string, separator: string): boolean =>
  (character === ' ' || character === '\t') && character !== separator
const isBlankLine = (text: string, separator: string): boolean =>
  Array.from(text).every((character) => isBlank(character, separator))
const breaksIn = (text: string): number => text.match(/\r\n|\r|\n/g)?.length ?? 0
