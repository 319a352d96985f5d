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

export function referenceRecords(text: string, separator: string, enclosure: string): ReferenceRecord[] {
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
    const record = readRecord(text, at, separator, enclosure)
    records.push({ line, text: text.slice(at, record.end), cells: record.cells })
    line += breaksIn(text.slice(at, record.end)) + 1
    at = afterLineEnd(text, record.end)
  }
  return records
}

function readRecord(
  text: string,
  start: number,
  separator: string,
  enclosure: string,
): { end: number; cells: string[] | null } {
  const cells: string[] = []
  let at = start
  for (;;) {
    let end: number
    if (text[at] === enclosure) {
      const close = closingOf(text, at, enclosure)
      if (close === -1) return { end: endOfLine(text, at), cells: null }
      end = close + 1
      while (end < text.length && isBlank(text.charAt(end), separator)) end += 1
      if (end === text.length || text[end] === separator || isLineEnd(text.charAt(end))) {
        cells.push(text.slice(at + 1, close).replaceAll(enclosure + enclosure, enclosure))
      } else {
        end = endOfCell(text, close + 1, separator)
        cells.push(text.slice(at, end))
      }
    } else {
      end = endOfCell(text, at, separator)
      cells.push(text.slice(at, end))
    }
    if (text[end] !== separator) return { end, cells }
    at = end + 1
  }
}

function closingOf(text: string, open: number, enclosure: string): number {
  for (let at = open + 1; at < text.length && at - open <= 256 * 1024; at += 1) {
    if (text[at] !== enclosure) continue
    if (text[at + 1] !== enclosure) return breaksIn(text.slice(open, at)) >= 1000 ? -1 : at
    at += 1
  }
  return -1
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
