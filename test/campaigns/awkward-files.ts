import type { FileFormat, ImportOptions } from '../../shared/contract/schemas/import.ts'
import { makeOptions, plainSettings } from '../helpers/make-plan.ts'
import type { MadeImport } from './made-import.ts'
import type { MadeField } from './made-list.ts'

/**
 * Files at the limits of the specification, which random files rarely reach. Each is one import on a list of its own.
 */
export interface AwkwardFile {
  name: string
  fields: MadeField[]
  made: MadeImport
}

const textField: MadeField = { name: 'Name', field_type: 'text_multiline', ...plainSettings }

const plainOptions = makeOptions({
  overwrite: true,
  column_mapping: ['email', 'Name'],
  subscriber_defaults: { status: 'active', confirmed: false, format: 'both' },
})

/** `content` has a character a byte. */
export function awkward(
  name: string,
  content: string,
  options: Partial<ImportOptions> = {},
  format: Partial<FileFormat> = {},
): AwkwardFile {
  return {
    name,
    fields: [textField],
    made: {
      options: { ...plainOptions, file_format: { ...plainOptions.file_format, ...format }, ...options },
      bytes: Buffer.from(content, 'latin1'),
      isInline: false,
    },
  }
}

const kib = 1024
const mib = 1024 * kib

export function awkwardFiles(): AwkwardFile[] {
  return [
    ...[-40, 40].map((more) =>
      awkward(
        `an enclosure of 256 KiB and ${more} bytes`,
        `a@x.co,1\nb@x.co,"${'x'.repeat(256 * kib + more)}"\nc@x.co,3\n`,
      ),
    ),
    ...[990, 998, 999, 1000, 1001, 1010].map((lines) =>
      awkward(
        `an enclosure with ${lines} line ends`,
        `a@x.co,1\nb@x.co,"${'\n'.repeat(lines)}"\nc@x.co,"3"\n`,
      ),
    ),
    ...[-40, 40].map((more) =>
      awkward(
        `a record of 1 MiB and ${more} bytes, then its identity again`,
        `a@x.co,1\nb@x.co,${'x'.repeat(mib - 7 + more)}\nB@x.co,3\nc@x.co,4\n`,
      ),
    ),
    awkward('a record of 3 MiB without a line end', `a@x.co,1\r\nb@x.co,${'x'.repeat(3 * mib)}`),
    awkward(
      'a record of enclosures that are too long together',
      `a@x.co,${`"${'y\n'.repeat(450)}${'x'.repeat(200 * kib)}",`.repeat(6)}\nb@x.co,2\n`,
    ),
    awkward(
      'enclosures that never end, one after the other',
      `a@x.co,1\n${'b@x.co,"open\nc@x.co,x\n'.repeat(3)}${'row,"\n'.repeat(401)}z@x.co,9\n`,
    ),
    awkward('an enclosure that is ended by the next one', `a@x.co,"1\nb@x.co,"2"\nc@x.co,3\n`),
    awkward('a second cell that never ends, after one of two lines', `"a@x.co\n","1\nb@x.co,2\n`),
    awkward('doubled enclosures alone', `""""""@x.co,""\n"","""\n"""",x\nb@x.co,""""\nc@x.co,"""`),
    awkward('records of separators and enclosures', `,\n""\n"",""\n,,,\n,,,x\na@x.co\n`),
    awkward(
      'a million blank lines',
      `${' \n\t\r\n\r'.repeat(60_000)}a@x.co,1\n${' '.repeat(300 * kib)}\nb@x.co,2`,
    ),
    awkward(
      'a very wide record',
      `a@x.co,1${','.repeat(40_000)}\nb@x.co,1${','.repeat(40_000)}x\nc@x.co,2\n`,
    ),
    ...[500, 501].map((bad) => awkward(`${bad} of the first 1,000 records are no UTF-8`, manyInvalid(bad))),
    awkward('3 of 5 records are no UTF-8', 'a@x.co,\xff\nb@x.co,\xfe\nc@x.co,\xfd\nd@x.co,1\ne@x.co,2\n'),
    awkward('2 of 4 records are no UTF-8', 'a@x.co,\xff\nb\xff@x.co,\xfe\nd@x.co,1\nA@x.co,2\n'),
    ...[
      { nulls: 99, bytes: 300 },
      { nulls: 100, bytes: 9_999 },
      { nulls: 100, bytes: 10_000 },
      { nulls: 700, bytes: 80_000 },
      { nulls: 655, bytes: 80_000 },
      { nulls: 656, bytes: 80_000 },
    ].map(({ nulls, bytes }) =>
      awkward(
        `${nulls} NUL of ${bytes} bytes`,
        `a@x.co,1\nb@x.co,2${'\0'.repeat(nulls)}\n`.padEnd(bytes - 1, 'z@x.co,x\n').slice(0, bytes - 1) +
          '\n',
      ),
    ),
    awkward('UTF-16 in little endian', '\xff\xfea\0@\0'),
    awkward('UTF-16 in big endian as ISO-8859-1', '\xfe\xffab@x.co\n', {
      file_format: { ...plainOptions.file_format, character_set: 'iso-8859-1' },
    }),
    awkward('nothing at all', ''),
    awkward('a byte order mark alone', '\xef\xbb\xbf', { deactivate_subscribers_not_in_import: true }),
    awkward('a byte order mark under ISO-8859-1', '\xef\xbb\xbf"a@x.co",\xe9\x80\n\xef\xbb\xbf"b@x.co",1\n', {
      file_format: { ...plainOptions.file_format, character_set: 'iso-8859-1' },
    }),
    ...[' a@x.co,\0', 'x"y,"z', '"open,1', '"two\nlines",2', '\xff,3'].map((header) =>
      awkward(`the header ${JSON.stringify(header)}`, `${header}\na@x.co,1\nbad,2\n`, {
        file_format: { ...plainOptions.file_format, csv_has_headers: true },
      }),
    ),
    awkward('a header of 2 MiB', `email,${'x'.repeat(2 * mib)}\na@x.co,1\nb@x.co,2\n`, {
      file_format: { ...plainOptions.file_format, csv_has_headers: true },
    }),
    ...[0, 1, 2, 3].map((shift) => awkward(`pieces that end anywhere, shifted by ${shift}`, pieces(shift))),
    awkward('many repeated identities', manyRepeated()),
  ]
}

function manyInvalid(bad: number): string {
  const records = Array.from(
    { length: 1_300 },
    (_, i) => `r${i}@x.co,${i < bad || i >= 1_000 ? '\xff' : 'x'}`,
  )
  return `${records.join('\n')}\n`
}

/** Line ends, doubled enclosures and letters of several bytes at every distance from the ends of 64 KiB. */
function pieces(shift: number): string {
  const cell = Buffer.from('"é""😀\r\n日"').toString('latin1')
  const records = Array.from({ length: 5_000 }, (_, i) => `r${i}@x.co,${cell}\r\n`)
  return ' '.repeat(shift) + records.join('')
}

/** A file of several chunks, in which each identity stands in some of four spellings. */
function manyRepeated(): string {
  const spellings = ['Row', 'row', 'ROW', 'rOw']
  const records = Array.from({ length: 15_000 }, (_, i) => {
    const number = (i * 7_919) % 5_003
    return `${spellings[i % 4]}${number}@x.co,${i % 97 === 0 ? '\xff' : i}`
  })
  return `${records.join('\n')}\n`
}
