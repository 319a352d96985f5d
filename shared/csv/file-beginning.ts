import { isUtf8 } from 'node:buffer'
import { ImportError } from '../contract/errors.ts'
import type {
  CharacterSet,
  ContentFormat,
  DetectedCharacterSet,
  Escape,
  FileFormat,
  SourceBeginning,
  ImportOptions,
  Separator,
} from '../contract/schemas/import.ts'
import { binaryMegabyte } from '../values/byte-sizes.ts'
import { withoutCutCharacter } from '../values/utf8.ts'
import { characterSetName, isTranscoded, recordDecoder } from './character-set.ts'
import { detectDialect } from './dialect.ts'
import { findNonTable } from './no-table.ts'
import type { Sample } from './sampled-records.ts'
import { transcoder, type TranscodedSet } from './transcoder.ts'

/**
 * The beginning of a file says what its bytes are: character set, separator, and where its records begin. All sources
 * of imports, and inspections, read it here, so that the same bytes come to the same by every door. The import stores the
 * result, and later steps, other engines and logs read it there: a split by another version that detected it anew could
 * decide otherwise after chunks of the first one were logged.
 */

/** Bytes of a file that are read as its beginning, at most. */
export const beginningBytes = binaryMegabyte

export interface RequestedFormat {
  characterSet: FileFormat['character_set']
  /** Null when the request has none, so that a line such as `sep=;` decides. */
  separator: FileFormat['csv_field_separator'] | null
  enclosure: FileFormat['csv_field_enclosure']
  /** Undefined: it is detected. */
  escape?: Escape | null | undefined
  /** Lines before the table; by default none. */
  skipLines?: number
}

export const requestedFormat = ({
  file_format: format,
  default_separator: isDefault,
}: Pick<ImportOptions, 'file_format' | 'default_separator'>): RequestedFormat => ({
  characterSet: format.character_set,
  separator: isDefault === true ? null : format.csv_field_separator,
  enclosure: format.csv_field_enclosure,
  escape: format.csv_field_escape,
  skipLines: format.csv_skip_lines,
})

export interface Beginning {
  /** What the import stores of it. */
  stored: Omit<SourceBeginning, 'source_bytes'>
  /** The source is staged as UTF-8, without its byte order mark: from which set. Null when it is staged as it is. */
  transcodedFrom: TranscodedSet | null
  /** Bytes of the byte order mark. */
  markBytes: number
  warnings: string[]
  /** The beginning as it is staged, from the first record on. */
  records: Sample
}

/**
 * Reads the first `beginningBytes` of a file, or all of a shorter one. Throws ImportError `content_refused`, with what
 * to do, for what is no table, and for bytes that aren't text in the requested character set.
 */
export function readBeginning(sample: Sample, requested: RequestedFormat): Beginning {
  const nonTable = findNonTable(sample.bytes)
  if (nonTable !== null) refuse(nonTable, { isNoTable: true })
  const mark = findMark(sample.bytes)
  const chosen = chooseCharacterSet(sample, mark, requested.characterSet)
  const { characterSet, transcodedFrom } = chosen
  const markBytes = mark?.bytes.length ?? 0
  const afterMark = sample.bytes.subarray(markBytes)
  const staged =
    transcodedFrom === null ? afterMark : convertBeginning(afterMark, transcodedFrom, sample.isWhole)
  if (transcodedFrom === null || !isUtf16(transcodedFrom)) refuseNuls(sample.bytes, null)
  else refuseNuls(staged, characterSet)

  const line = separatorLine({ bytes: staged, isWhole: sample.isWhole })
  const lineBytes = line?.length ?? 0
  const { skipLines = 0 } = requested
  const skipped = firstLines(staged.subarray(lineBytes), skipLines)
  const records = { bytes: staged.subarray(lineBytes + skipped.length), isWhole: sample.isWhole }
  const separator =
    requested.separator !== null && requested.separator !== 'auto'
      ? requested.separator
      : (line?.separator ?? detectSeparator(records, characterSet, requested))
  const warnings = [...chosen.warnings]
  if (line !== null && line.separator !== separator)
    warnings.push(
      `the first line sets the separator ${separatorNames[line.separator]}, and csv_field_separator is ${separatorNames[separator]}: records are split at ${separatorNames[separator]}`,
    )
  return {
    stored: {
      character_set: characterSet,
      csv_field_separator: separator,
      start: (transcodedFrom === null ? markBytes : 0) + lineBytes + skipped.length,
      skipped_lines: (line === null ? 0 : 1) + skipLines,
      ...(skipped.length === 0
        ? {}
        : { skipped_text: recordDecoder(characterSet).decode(skipped, 0, skipped.length) }),
    },
    ...{ transcodedFrom, markBytes, warnings, records },
  }
}

const refuse = (message: string, options: { isNoTable?: boolean } = {}): never => {
  throw new ImportError('content_refused', message, options)
}

/** The mark of UTF-32 is looked for first, because in one byte order it begins with that of UTF-16. */
const marks = [
  { set: 'utf-32', bytes: Buffer.of(0xff, 0xfe, 0, 0) },
  { set: 'utf-32', bytes: Buffer.of(0, 0, 0xfe, 0xff) },
  { set: 'utf-8', bytes: Buffer.of(0xef, 0xbb, 0xbf) },
  { set: 'utf-16le', bytes: Buffer.of(0xff, 0xfe) },
  { set: 'utf-16be', bytes: Buffer.of(0xfe, 0xff) },
] as const
type Mark = (typeof marks)[number]

const findMark = (bytes: Buffer): Mark | undefined =>
  marks.find((mark) => bytes.subarray(0, mark.bytes.length).equals(mark.bytes))

interface ChosenCharacterSet {
  characterSet: CharacterSet
  transcodedFrom: TranscodedSet | null
  warnings: string[]
}

function chooseCharacterSet(
  sample: Sample,
  mark: Mark | undefined,
  requested: RequestedFormat['characterSet'],
): ChosenCharacterSet {
  if (mark?.set === 'utf-32')
    return refuse('the file begins with a UTF-32 byte order mark: save it as UTF-8 and import it again', {
      isNoTable: true,
    })
  if (requested === 'auto') return asIs(mark?.set ?? detectCharacterSet(sample))
  if (mark?.set === 'utf-8') {
    if (!isTranscoded(requested)) return asIs(requested)
    const warning = `the file begins with a UTF-8 byte order mark, so it is read as UTF-8 and not as ${characterSetName(requested)}`
    return { ...asIs('utf-8'), warnings: [warning] }
  }
  if (mark === undefined) return requested === 'utf-16' ? refuseWithoutMark(sample.bytes) : asIs(requested)
  if (requested === 'utf-16') return { characterSet: requested, transcodedFrom: mark.set, warnings: [] }
  if (requested === mark.set) return asIs(requested)
  const name = characterSetName(mark.set)
  return refuse(
    `the file begins with a ${name} byte order mark: import it with "character_set": "${name}", or save it as UTF-8`,
  )
}

/** The choice for any set but `utf-16`, which doesn't say the order of its bytes. */
const asIs = (set: CharacterSet): ChosenCharacterSet => ({
  characterSet: set,
  transcodedFrom: isTranscoded(set) ? (set as TranscodedSet) : null,
  warnings: [],
})

function refuseWithoutMark(bytes: Buffer): never {
  const guess = guessUtf16(bytes)
  const names = guess === null ? '"UTF-16LE" or "UTF-16BE"' : JSON.stringify(characterSetName(guess))
  return refuse(
    `the file has no byte order mark, so "UTF-16" doesn't say the order of its bytes: import it with "character_set": ${names}`,
  )
}

/** Detects the character set of a file's beginning: by its byte order mark, or else by whether it is UTF-8. */
export function detectCharacterSet({ bytes, isWhole }: Sample): DetectedCharacterSet {
  const mark = findMark(bytes)
  if (mark !== undefined && mark.set !== 'utf-32') return mark.set
  const whole = isWhole ? bytes : withoutCutCharacter(bytes)
  return isUtf8(whole) || isMostlyUtf8(whole) ? 'utf-8' : 'windows-1252'
}

/** Whether at least nine of ten characters beyond ASCII are valid: some damaged cells don't make another set. */
function isMostlyUtf8(bytes: Buffer): boolean {
  const text = bytes.toString('utf8')
  const beyondAscii = text.match(/[^\0-\x7f]/gu)?.length ?? 0
  let invalid = text.match(/\ufffd/g)?.length ?? 0
  // U+FFFD may also be a character of the file.
  for (let at = bytes.indexOf('\ufffd'); at !== -1; at = bytes.indexOf('\ufffd', at + 3)) invalid -= 1
  return (beyondAscii - invalid) * 10 >= beyondAscii * 9
}

const isUtf16 = (set: CharacterSet): boolean => set.startsWith('utf-16')

const nulCheckedBytes = 64 * 1024
const minNuls = 100

/**
 * Refuses bytes of which more than a hundredth are NUL, because errors of single rows wouldn't explain the cause.
 * `decodedFrom`: the UTF-16 set that the bytes were decoded from; null for the bytes of the file.
 */
function refuseNuls(all: Buffer, decodedFrom: CharacterSet | null): void {
  const bytes = all.subarray(0, nulCheckedBytes)
  let nuls = 0
  for (let at = bytes.indexOf(0); at !== -1; at = bytes.indexOf(0, at + 1)) nuls += 1
  if (nuls < minNuls || nuls <= bytes.length / 100) return
  const share = `${nuls} of the first ${bytes.length} ${decodedFrom === null ? 'bytes' : 'bytes of its text'} are NUL`
  const guess = decodedFrom === null ? guessUtf16(bytes) : null
  if (guess !== null)
    refuse(
      `${share}, so the file seems to be UTF-16: import it with "character_set": "${characterSetName(guess)}", or save it as UTF-8`,
    )
  const what = decodedFrom === null ? 'CSV text' : `CSV text in ${characterSetName(decodedFrom)}`
  refuse(
    `${share}, so the file isn't ${what}; it may be ${decodedFrom === null ? 'UTF-16, ' : ''}a spreadsheet or an archive: save it as CSV in UTF-8`,
    { isNoTable: decodedFrom === null },
  )
}

/**
 * The UTF-16 set of text without a byte order mark, by its NUL bytes: those of ASCII characters are all at odd offsets,
 * or all at even ones. Null for other bytes.
 */
export function guessUtf16(all: Buffer): 'utf-16le' | 'utf-16be' | null {
  const bytes = all.subarray(0, nulCheckedBytes)
  const nuls = [0, 0]
  for (let at = 0; at < bytes.length; at += 1) if (bytes[at] === 0) nuls[at & 1]! += 1
  const [even = 0, odd = 0] = nuls
  if (Math.max(even, odd) < Math.max(4, bytes.length / 100)) return null
  if (odd > even * 4) return 'utf-16le'
  return even > odd * 4 ? 'utf-16be' : null
}

function convertBeginning(bytes: Buffer, set: TranscodedSet, isWhole: boolean): Buffer {
  const conversion = transcoder(set)
  const converted = conversion.write(bytes)
  return isWhole ? Buffer.concat([converted, conversion.end()]) : converted
}

/** `sep=;` as spreadsheets read it: enclosed or not, with anything that separates after it. */
const separatorLinePattern = /^(["']?)sep=(\\t|[,;|\t])[,;|\t ]*\1[,;|\t ]*(?:\r\n|\n|\r|$)/i
const maxSeparatorLine = 4_096

/** The first line if it sets the separator, with its length and line end in bytes. */
function separatorLine({ bytes, isWhole }: Sample): { separator: Separator; length: number } | null {
  const text = bytes.toString('latin1', 0, maxSeparatorLine)
  const found = separatorLinePattern.exec(text)
  if (found === null) return null
  const line = found[0]
  const separator = found[2]!
  const endsWithFile = isWhole && text.length === bytes.length
  if (!/[\r\n]/.test(line) && !endsWithFile) return null
  return { separator: (separator.startsWith('\\') ? '\t' : separator) as Separator, length: line.length }
}

/** They are stored with the import, for its failed log. */
const maxSkippedBytes = 64 * 1024

/** The first `lines` physical lines with their line ends. Throws ImportError `content_refused` for very long ones. */
function firstLines(bytes: Buffer, lines: number): Buffer {
  let at = 0
  for (let line = 0; line < lines && at < bytes.length; line += 1) {
    while (at < bytes.length && bytes[at] !== LF && bytes[at] !== CR) at += 1
    at += bytes[at] === CR && bytes[at + 1] === LF ? 2 : 1
    if (at > maxSkippedBytes)
      refuse(
        `csv_skip_lines is ${lines}, and the first ${line + 1} lines have more than 64 KiB: lines before a table are notes or titles`,
      )
  }
  return bytes.subarray(0, at)
}

const LF = 0x0a
const CR = 0x0d

const separatorNames: Record<Separator, string> = { ',': '","', ';': '";"', '\t': 'tab', '|': '"|"' }

/** Detection reads the first 128 KiB of the text alone, so bytes beyond these have no say. */
const decodedForDetection = 256 * 1024

function detectSeparator(
  { bytes, isWhole }: Sample,
  characterSet: CharacterSet,
  { separator, enclosure, escape }: RequestedFormat,
): Separator {
  if (separator === null) return ','
  const first = bytes.subarray(0, decodedForDetection)
  const text = Buffer.from(recordDecoder(characterSet).decode(first, 0, first.length))
  return detectDialect({ bytes: text, isWhole }, { separator: undefined, enclosure, escape }).separator
}

/** The character set of these first records is checked before a row is written. */
export const checkedRecords = 1_000

/** The error of an import when more than half of its first records are invalid in its character set; null otherwise. */
export function encodingError(
  invalid: number,
  records: number,
  { character_set: set, isDetected }: Pick<ContentFormat, 'character_set' | 'isDetected'>,
): ImportError | null {
  if (invalid * 2 <= records) return null
  const others = ['auto', 'windows-1252'].filter(
    (name) => name !== set && !(name === 'auto' && isDetected === true),
  )
  const advice =
    others.length === 0
      ? 'save it as UTF-8'
      : `import it with "character_set": ${others.map((name) => JSON.stringify(name)).join(' or ')}`
  return new ImportError(
    'content_refused',
    `${invalid} of the first ${records} records are invalid ${characterSetName(set)}: ${advice}`,
  )
}
