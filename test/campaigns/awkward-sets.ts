import type { FileFormat, ImportOptions } from '../../shared/contract/schemas/import.ts'
import { awkward, type AwkwardFile } from './awkward-files.ts'

/** Files at the limits of what is said about character sets, byte order marks and lines such as `sep=;`. */

type CharacterSet = FileFormat['character_set']

/** `content` has a character a byte. */
const inSet = (
  name: string,
  set: CharacterSet,
  content: string,
  format: Partial<FileFormat> = {},
  options: Partial<ImportOptions> = {},
): AwkwardFile => awkward(`${name} as ${set}`, content, options, { character_set: set, ...format })

const raw = (bytes: Buffer): string => bytes.toString('latin1')
const utf8 = (text: string): string => raw(Buffer.from(text))
const littleEndian = (text: string): string => raw(Buffer.from(text, 'utf16le'))
const bigEndian = (text: string): string => raw(Buffer.from(text, 'utf16le').swap16())

const table = 'a@x.co,é\nbad,日\nb@x.co,😀\n'
const mebibyte = 1024 * 1024

const marked: readonly (readonly [mark: string, content: string])[] = [
  ['no', utf8(table)],
  ['UTF-8', utf8(`\ufeff${table}`)],
  ['UTF-16LE', littleEndian(`\ufeff${table}`)],
  ['UTF-16BE', bigEndian(`\ufeff${table}`)],
  ['UTF-32LE', `\xff\xfe\0\0${littleEndian(table)}`],
  ['UTF-32BE', `\0\0\xfe\xff${bigEndian(table)}`],
]
const markedSets: readonly CharacterSet[] = [
  ...(['utf-8', 'auto', 'iso-8859-15', 'utf-16', 'utf-16le', 'utf-16be', 'gbk'] as const),
]

export const awkwardSets = (): AwkwardFile[] => [
  ...marked.flatMap(([mark, content]) =>
    markedSets.map((set) => inSet(`a file with ${mark} byte order mark`, set, content)),
  ),
  ...detections(),
  ...longFiles(),
  ...invalidOnes(),
  ...separatorLines(),
  inSet('a UTF-8 mark behind one of UTF-16', 'utf-16', littleEndian(`\ufeff\ufeff${table}`)),
  inSet('100 NUL in UTF-16', 'utf-16le', littleEndian(`a@x.co,1\nb@x.co,${'\0'.repeat(100)}\n`)),
  inSet('99 NUL in UTF-16', 'utf-16le', littleEndian(`a@x.co,1\nb@x.co,${'\0'.repeat(99)}\n`)),
  inSet('UTF-16 without a mark', 'auto', littleEndian(`a@x.co,1\n`.repeat(40))),
  ...(['iso-8859-1', 'iso-8859-2', 'iso-8859-15', 'windows-1252'] as const).map((set) =>
    inSet('quotation marks of Windows', set, 'a@x.co,\x93x\x94\nbad,\x80\n'),
  ),
  inSet('separators and line ends in the second byte', 'shift_jis', 'a@x.co|\x83\x7c\nbad|\x95\x5c"\n', {
    csv_field_separator: '|',
  }),
  inSet('ASCII behind lead bytes', 'big5', 'a@x.co,\xa4\nb@x.co,"\xa4"\nc@x.co,\x81,\nd@x.co,\xa4\x40\n'),
]

/** Around the limits of `auto`. */
function detections(): AwkwardFile[] {
  const filled = (bytes: number) =>
    `a@x.co,1\n${`${' '.repeat(4095)}\n`.repeat(255)}`.padEnd(bytes - 7) + 'b@x.co,'
  return [
    inSet('nothing', 'auto', ''),
    inSet('nine of ten valid', 'auto', `a@x.co,${utf8('é').repeat(9)}\nb@x.co,\xff\nc@x.co,1\nd@x.co,1\n`),
    inSet('eight of nine valid', 'auto', `a@x.co,${utf8('é').repeat(8)}\nb@x.co,\xff\nc@x.co,1\n`),
    inSet('U+FFFD in UTF-8', 'auto', `a@x.co,${utf8('\ufffd')}\nb@x.co,1\n`),
    inSet(
      'a character that ends behind the first MiB',
      'auto',
      `${filled(mebibyte - 1)}${utf8('€')}\nc@x.co,1\n`,
    ),
    inSet('a character that the end of the file cuts', 'auto', `a@x.co,1\nb@x.co,\xe2\x82`),
    inSet('invalid bytes behind the first MiB', 'auto', `${filled(mebibyte)}\nz@x.co,\xff\ny@x.co,1\n`),
    inSet('windows-1252 behind the first MiB', 'auto', `${filled(mebibyte)}\nbad,\xe9\ny@x.co,1\n`),
    inSet(
      'an undefined byte in what is windows-1252',
      'auto',
      'a@x.co,\xe9\nb@x.co,\x81\nc@x.co,\x80\nd@x.co,1\n',
    ),
  ]
}

/** Longer than the pieces in which files are read. */
function longFiles(): AwkwardFile[] {
  const rows = (cell: string) => Array.from({ length: 6_000 }, (_, i) => `r${i}@x.co,${cell}\n`).join('')
  const shifts = [0, 1]
  return shifts.flatMap((shift) => [
    inSet(`long, shifted by ${shift},`, 'utf-16le', littleEndian(' '.repeat(shift) + rows('"😀\r\n日"'))),
    inSet(`long, shifted by ${shift},`, 'utf-16', bigEndian(`\ufeff${' '.repeat(shift)}${rows('"é""😀"')}`)),
    inSet(`long, shifted by ${shift},`, 'shift_jis', ' '.repeat(shift) + rows('\x83\x5c\x95\x7c\x83')),
    inSet(`long, shifted by ${shift},`, 'gbk', ' '.repeat(shift) + rows('\x84\x31\xa4\x37\x81\x30\x81\x30')),
    inSet(`long, shifted by ${shift},`, 'windows-1251', ' '.repeat(shift) + rows('\xcf\xf0\x98')),
  ])
}

/** Half of the records, and more than half, are undecodable. */
function invalidOnes(): AwkwardFile[] {
  const undecodable: readonly (readonly [CharacterSet, string])[] = [
    ...[['windows-1250', '\x83'] as const, ['windows-1252', '\x81'] as const, ['euc-kr', '\xff'] as const],
    ...[['gbk', '\x84\x31\xa5\x30'] as const, ['auto', '\x81\xe9'] as const],
  ]
  return undecodable.flatMap(([set, bytes]) => [
    inSet('2 undecodable records of 4', set, `a@x.co,${bytes}\nb@x.co,${bytes}\nc@x.co,1\nd@x.co,2\n`),
    inSet(
      '3 undecodable records of 5',
      set,
      `a@x.co,${bytes}\nb@x.co,${bytes}\nc@x.co,${bytes}\nd@x.co,2\ne@x.co,1\n`,
    ),
  ])
}

function separatorLines(): AwkwardFile[] {
  const lines = [
    ...['sep=;\n', 'SEP=|\r\n', '"sep=;"\r', 'sep=\\t\n', 'sep=\t\n'],
    ...['sep=; ;;\n', '\nsep=;\n', ' sep=;\n', 'sep=;x\n', 'sep=;'],
  ]
  const asked: readonly (readonly [string, Partial<FileFormat>, Partial<ImportOptions>])[] = [
    ['no separator named', {}, { default_separator: true }],
    ['auto', { csv_field_separator: 'auto' }, {}],
    ['a separator named', { csv_field_separator: ';' }, {}],
  ]
  return lines.flatMap((line) =>
    asked.map(([name, format, options]) => {
      const separator = /[;|\t]/.exec(line)?.[0] ?? '\t'
      const content = `${line}a@x.co${separator}1\nbad${separator}2\n"open${separator}\n`
      return inSet(
        `${JSON.stringify(line)}, ${name},`,
        'utf-8',
        line.endsWith(';') ? line : content,
        format,
        options,
      )
    }),
  )
}
