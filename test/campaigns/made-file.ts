import {
  characterSets,
  separators,
  type ContentFormat,
  type ImportOptions,
  type Separator,
} from '../../shared/contract/schemas/import.ts'
import { codesOf, encodeByStandard } from '../model/encoding-standard.ts'
import { madeCell } from './made-cell.ts'
import type { MadeList } from './made-list.ts'
import type { Random } from './random.ts'

/** The set in which a file is written, which needn't be the one that the request names. */
type WrittenSet = Exclude<ContentFormat['character_set'], 'utf-16'>
type WrittenFormat = ContentFormat & { character_set: WrittenSet }

/** Files as the campaign makes them: rows of cells, written by a careless writer, then perhaps damaged. */
export function madeFile(
  options: Pick<ImportOptions, 'column_mapping' | 'file_format' | 'default_separator'>,
  list: MadeList,
  random: Random,
): Uint8Array {
  random.carelessness = random.oneOf([0.02, 0.1, 0.1, 0.3, 1])
  const format = writtenFormat(options, random)
  const text =
    beginning(options, format, random) +
    madeNotes(options, random) +
    madeText(options.column_mapping, list, format, random)
  if (format.character_set !== 'utf-16le' && format.character_set !== 'utf-16be')
    return damaged(encoded(text, format.character_set), format, random)
  // What damages UTF-8 makes other characters of it.
  return damagedUtf16(
    encoded(damaged(Buffer.from(text), format, random).toString('utf8'), format.character_set),
    random,
  )
}

function writtenFormat(
  {
    file_format: format,
    default_separator: isDefault,
  }: Pick<ImportOptions, 'file_format' | 'default_separator'>,
  random: Random,
): WrittenFormat {
  const { character_set: set, csv_field_separator: separator } = format
  const isOther = separator === 'auto' || (isDefault === true && random.chance(0.5)) || random.slip(0.1)
  return {
    ...format,
    csv_field_escape: format.csv_field_escape ?? null,
    character_set: writtenSet(set, random),
    csv_field_separator: isOther ? random.oneOf(separators) : separator,
  }
}

function writtenSet(requested: ImportOptions['file_format']['character_set'], random: Random): WrittenSet {
  const set = random.slip(0.2) ? random.oneOf(characterSets) : requested
  if (set === 'auto')
    return random.oneOf([
      'utf-8',
      'utf-8',
      'windows-1252',
      'windows-1252',
      'utf-16le',
      'utf-16be',
      'iso-8859-2',
    ])
  return set === 'utf-16' ? random.oneOf(['utf-16le', 'utf-16be']) : set
}

/** A byte order mark and a line that sets the separator, each of them now and then. */
function beginning(
  {
    file_format: format,
    default_separator: isDefault,
  }: Pick<ImportOptions, 'file_format' | 'default_separator'>,
  { character_set: set, csv_field_separator: separator }: WrittenFormat,
  random: Random,
): string {
  const needsMark =
    set.startsWith('utf-16') && (format.character_set === 'utf-16' || format.character_set === 'auto')
  const hasMark = set.startsWith('utf-') && random.chance(needsMark ? 0.95 : 0.15)
  const hasLine = random.chance(isDefault === true && separator !== ',' ? 0.8 : 0.15)
  return (
    (hasMark ? '\ufeff' : '') + (hasLine ? separatorLine(random.chance(0.85) ? separator : ';', random) : '')
  )
}

/** As many lines as `csv_skip_lines` says, and now and then another number. */
function madeNotes({ file_format: format }: Pick<ImportOptions, 'file_format'>, random: Random): string {
  const lines = random.slip(0.1) ? random.between(0, 4) : (format.csv_skip_lines ?? 0)
  const note = () => random.oneOf(['', 'Notes:', '"a note', "it's, a note", 'Report;of May', '12" x'])
  return Array.from({ length: lines }, () => note() + random.oneOf(['\n', '\n', '\r\n'])).join('')
}

function separatorLine(separator: Separator, random: Random): string {
  const spelled = separator === '\t' && random.chance(0.5) ? '\\t' : separator
  const set = `${random.oneOf(['sep=', 'sep=', 'SEP=', 'Sep='])}${spelled}`
  const line = random.oneOf([
    set,
    set,
    set,
    `"${set}"`,
    `'${set}'`,
    `${set};;`,
    `${set} , `,
    `"${set}",,,`,
    `"${set};"`,
  ])
  return (
    (random.slip(0.1) ? random.oneOf([` ${line}`, `${line}x`, `"${set}`, `sep=`, 'sep=:']) : line) +
    random.oneOf(['\n', '\r\n', '\r'])
  )
}

function encoded(text: string, set: WrittenSet): Buffer {
  if (set === 'utf-8') return Buffer.from(text)
  if (set === 'iso-8859-1') return Buffer.from(text, 'latin1')
  if (set === 'utf-16le') return Buffer.from(text, 'utf16le')
  return set === 'utf-16be' ? Buffer.from(text, 'utf16le').swap16() : encodeByStandard(text, set)
}

function damagedUtf16(bytes: Buffer, random: Random): Buffer {
  const at = 2 * random.between(0, Math.floor(bytes.length / 2))
  if (random.slip(0.3)) return put(bytes, at, random.oneOf(['\x00\xd8', '\xd8\x00', '\x12\xdc', '\xdc\x12']))
  if (random.slip(0.2)) return put(bytes, bytes.length, random.oneOf(['a', '\xd8', '\x3d\xd8a', '\xd8\x3da']))
  return random.slip(0.05) ? put(bytes, at, 'x') : bytes
}

/** Some characters of the set. */
function letters(set: WrittenSet, random: Random): string {
  if (set.startsWith('utf-') || set === 'iso-8859-1')
    return random.oneOf(['é', 'ß', '日本', '😀', 'Ω', '\ufffd', '\u0085'])
  const characters = [...codesOf(set as Parameters<typeof codesOf>[0]).keys()].slice(0x80)
  return Array.from({ length: random.between(1, 3) }, () => random.oneOf(characters)).join('')
}

function madeText(mapping: (string | null)[], list: MadeList, format: WrittenFormat, random: Random): string {
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
        mapping.map((column) => letteredCell(column, list, format, random)),
        format,
        quoting,
        random,
      ),
    )
  return lines
    .map((line) => line + end())
    .join('')
    .slice(0, random.chance(0.2) ? -1 : undefined)
}

/** Free text has letters of the set, now and then. */
function letteredCell(column: string | null, list: MadeList, format: WrittenFormat, random: Random): string {
  const cell = madeCell(column, list, format.date_format, random)
  const type = list.fields.find(({ name }) => name === column)?.field_type
  const isFree = column === null || (type?.startsWith('text') === true && column !== list.primaryKey)
  return isFree && random.chance(0.3) ? cell + letters(format.character_set, random) : cell
}

function writtenRow(cells: string[], format: WrittenFormat, quoting: number, random: Random): string {
  const count = !random.slip(0.1) ? cells.length : random.between(1, cells.length)
  const surplus = random.slip(0.06) ? random.oneOf([[''], ['', ' '], ['surplus'], ['""'], ['', 'x']]) : []
  return [...cells.slice(0, count), ...surplus]
    .map((cell) => writtenCell(cell, format, quoting, random))
    .join(format.csv_field_separator)
}

function writtenCell(cell: string, format: WrittenFormat, quoting: number, random: Random): string {
  const quote = format.csv_field_enclosure
  const needsQuotes =
    /[\r\n]/.test(cell) || cell.includes(format.csv_field_separator) || cell.startsWith(quote)
  // A careless writer forgets now and then.
  if (needsQuotes ? random.slip(0.06) : !random.chance(quoting)) return random.slip(0.02) ? '\\N' : cell
  const isEscaped = format.csv_field_escape === '\\' ? random.chance(0.8) : random.slip(0.05)
  const escape = isEscaped ? '\\' : quote
  const text = isEscaped && random.chance(0.9) ? cell.replaceAll('\\', '\\\\') : cell
  const enclosed = quote + text.replaceAll(quote, !random.slip(0.05) ? escape + quote : quote) + quote
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

type Damage = (bytes: Buffer, at: number, format: WrittenFormat, random: Random) => Buffer

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
        ...['\xff', '\xc3', '\xe2\x82', '\xed\xa0\x80', '\xc0\x80'],
        ...['\xf4\x90\x80\x80', '\x80', '\xf0\x9f\x98'],
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

function damaged(bytes: Buffer, format: WrittenFormat, random: Random): Buffer {
  let after = bytes
  const times = random.chance(0.35) ? random.between(1, 4) : 0
  for (let i = 0; i < times; i += 1)
    after = random.oneOf(damages)(after, random.between(0, after.length), format, random)
  if (random.chance(0.02))
    after = random.oneOf(rareDamages)(after, random.between(0, after.length), format, random)
  return after
}
