import type { FileFormat } from '../../shared/contract/schemas/import.ts'
import { madeCell } from './made-cell.ts'
import type { MadeList } from './made-list.ts'
import type { Random } from './random.ts'

/** Files as the campaign makes them: rows of cells, written by a careless writer, then perhaps damaged. */
export function madeFile(
  mapping: (string | null)[],
  list: MadeList,
  format: FileFormat,
  random: Random,
): Uint8Array {
  random.carelessness = random.oneOf([0.02, 0.1, 0.1, 0.3, 1])
  const text = madeText(mapping, list, format, random)
  const bytes = Buffer.from(
    text,
    format.character_set === 'iso-8859-1' && random.chance(0.9) ? 'latin1' : 'utf8',
  )
  return damaged(bytes, format, random)
}

function madeText(mapping: (string | null)[], list: MadeList, format: FileFormat, random: Random): string {
  const mainEnd = random.oneOf(['\n', '\n', '\r\n', '\r'])
  const mixed = random.chance(0.1)
  const end = () => (mixed ? random.oneOf(['\n', '\r\n', '\r', '\n\n', '\n  \n', '\n\t\n']) : mainEnd)
  const quoting = random.oneOf([0, 0.1, 0.5, 1])
  const rows = random.chance(0.03) ? 0 : random.chance(0.1) ? random.between(60, 200) : random.between(1, 45)
  const lines: string[] = []
  if (format.csv_has_headers)
    lines.push(
      writtenRow(
        mapping.map((name) => name ?? 'other'),
        format,
        quoting,
        random,
      ),
    )
  for (let i = 0; i < rows; i += 1)
    lines.push(
      writtenRow(
        mapping.map((column) => madeCell(column, list, format.date_format, random)),
        format,
        quoting,
        random,
      ),
    )
  const begin = random.chance(0.1) ? '\ufeff' : ''
  return (
    begin +
    lines
      .map((line) => line + end())
      .join('')
      .slice(0, random.chance(0.2) ? -1 : undefined)
  )
}

function writtenRow(cells: string[], format: FileFormat, quoting: number, random: Random): string {
  const count = !random.slip(0.1) ? cells.length : random.between(1, cells.length)
  const surplus = random.slip(0.06) ? random.oneOf([[''], ['', ' '], ['surplus'], ['""'], ['', 'x']]) : []
  return [...cells.slice(0, count), ...surplus]
    .map((cell) => writtenCell(cell, format, quoting, random))
    .join(format.csv_field_separator)
}

function writtenCell(cell: string, format: FileFormat, quoting: number, random: Random): string {
  const quote = format.csv_field_enclosure
  const needsQuotes =
    /[\r\n]/.test(cell) || cell.includes(format.csv_field_separator) || cell.startsWith(quote)
  // A careless writer forgets now and then.
  if (needsQuotes ? random.slip(0.06) : !random.chance(quoting)) return cell
  const enclosed = quote + cell.replaceAll(quote, !random.slip(0.05) ? quote + quote : quote) + quote
  if (!random.slip(0.1)) return enclosed
  return random.oneOf([
    ` ${enclosed}`,
    `${enclosed} `,
    `${enclosed}\t`,
    `${enclosed}x`,
    `${enclosed} x${quote}`,
    `${enclosed}\u00a0`,
    `${enclosed}${quote}y`,
  ])
}

type Damage = (bytes: Buffer, at: number, format: FileFormat, random: Random) => Buffer

const put = (bytes: Buffer, at: number, piece: Uint8Array | string): Buffer =>
  Buffer.concat([
    bytes.subarray(0, at),
    typeof piece === 'string' ? Buffer.from(piece, 'latin1') : piece,
    bytes.subarray(at),
  ])

const damages: Damage[] = [
  (bytes, at, format) => put(bytes, at, format.csv_field_enclosure),
  (bytes, at, format) => put(bytes, at, format.csv_field_separator),
  (bytes, at, format) => put(bytes, at, `${format.csv_field_separator}${format.csv_field_enclosure}`),
  (bytes, at, format) => put(bytes, at, `\n${format.csv_field_enclosure}`),
  (bytes, at) => put(bytes, at, '\0'),
  (bytes, at, _format, random) =>
    put(
      bytes,
      at,
      random.oneOf([
        '\xff',
        '\xc3',
        '\xe2\x82',
        '\xed\xa0\x80',
        '\xc0\x80',
        '\xf4\x90\x80\x80',
        '\x80',
        '\xf0\x9f\x98',
      ]),
    ),
  (bytes, at, _format, random) =>
    put(bytes, at, random.oneOf(['\n', '\r', '\r\n', '\r\r\n', '\n \n', ' \t\n', '\n\r'])),
  (bytes, at) => Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1)]),
  (bytes, at) => Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 9)]),
  (bytes, at) => put(bytes, at, '\xef\xbb\xbf'),
  (bytes, at) => bytes.subarray(0, at),
  (bytes) => put(bytes, 0, ' \n\t\n\n'),
]

const rareDamages: Damage[] = [
  (bytes, at) => put(bytes, at, 'x'.repeat(1024 * 1024 + 5000)),
  (bytes, at, format) => put(bytes, at, `\n${format.csv_field_enclosure}${'long '.repeat(60_000)}`),
  (bytes, at, format) => put(bytes, at, `\n${format.csv_field_enclosure}${'long '.repeat(40_000)}`),
  (bytes, at, format) => put(bytes, at, `\n${format.csv_field_enclosure}${'l\n'.repeat(1003)}`),
  (bytes, at, format) => put(bytes, at, `\n${format.csv_field_enclosure}${'l\r\n'.repeat(900)}`),
  (bytes, at) => put(bytes, at, '\0'.repeat(120)),
  (bytes, at) => put(bytes, at, '\0'.repeat(80)),
  (bytes) => put(bytes, 0, '\xff\xfe'),
  (bytes) => put(bytes, 0, '\xfe\xff'),
  (bytes) => Buffer.from(bytes.toString('latin1').replaceAll('e', '\xe9'), 'latin1'),
]

function damaged(bytes: Buffer, format: FileFormat, random: Random): Uint8Array {
  let after = bytes
  const times = random.chance(0.35) ? random.between(1, 4) : 0
  for (let i = 0; i < times; i += 1)
    after = random.oneOf(damages)(after, random.between(0, after.length), format, random)
  if (random.chance(0.02))
    after = random.oneOf(rareDamages)(after, random.between(0, after.length), format, random)
  return after
}
