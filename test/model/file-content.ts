import type {
  CharacterSet,
  DetectedCharacterSet,
  ImportOptions,
  Separator,
} from '../../shared/contract/schemas/import.ts'
import { rawOf, type SplitSet } from './character-set.ts'
import { decodeByStandard, type ModelledSet } from './encoding-standard.ts'

/** What the beginning of a file says (beyond 1): character set, byte order mark, and a line such as `sep=;`. */
export interface FileContent {
  /** What is split, from the first record on: a character a byte. */
  raw: string
  set: SplitSet
  separator: Separator
  /** The line that sets the separator, and those of `csv_skip_lines`. */
  skippedLines: number
  /** The latter, with their line ends. */
  skippedText: string
  /** The first line decided the separator. */
  isSeparatorFromLine: boolean
  detectedSet: DetectedCharacterSet | null
  detectedSeparator: Separator | null
  warnings: ExpectedWarning[]
}

/** A warning that the import has, or hasn't. */
export interface ExpectedWarning {
  pattern: RegExp
  isExpected: boolean
}

/** What the message of a failed import says, and doesn't say. */
export interface Refusal {
  says: RegExp[]
  saysNot?: RegExp[]
}

interface ContentRequest {
  bytes: Uint8Array
  isInline: boolean
  options: ImportOptions
  /** "What `inspect` proposes", where `auto` asks for that. */
  proposedSeparator?: Separator | undefined
}

type Mark = 'utf-8' | 'utf-16le' | 'utf-16be' | 'utf-32'

const marks: readonly (readonly [Mark, string])[] = [
  ['utf-32', '\xff\xfe\0\0'],
  ['utf-32', '\0\0\xfe\xff'],
  ['utf-8', '\xef\xbb\xbf'],
  ['utf-16le', '\xff\xfe'],
  ['utf-16be', '\xfe\xff'],
]

export function readContent(request: ContentRequest): FileContent | Refusal {
  const { isInline, options } = request
  const file = rawOf(request.bytes)
  const [mark, markBytes] = marks.find(([, beginning]) => file.startsWith(beginning)) ?? [null, '']
  // "Inline content is text: `character_set` has no effect there (`auto` detects `utf-8`)."
  const asked = options.file_format.character_set
  const requested = isInline && asked !== 'auto' ? 'utf-8' : asked
  if (mark === 'utf-32') return { says: [/UTF-32/, /save it as UTF-8/] }
  const set = requested === 'auto' ? (mark ?? detect(file)) : chosenSet(requested, mark)
  if (typeof set !== 'string') return set
  const isUtf16 = set === 'utf-16le' || set === 'utf-16be'
  if (!isUtf16 && isMostlyNul(file)) return { says: [/NUL/] }
  const raw = transcoded(file.slice(markBytes.length), set)
  if (isUtf16 && isMostlyNul(raw)) return { says: [/NUL/] }
  const found = separated(raw, request)
  // Lines before the table "may have 64 KiB" (docs/files.md).
  if (found.skippedText.length > 64 * 1024) return { says: [/csv_skip_lines .* 64 KiB/] }
  const isReadAsUtf8 = mark === 'utf-8' && requested !== 'auto' && !isSplitAsItIs(requested)
  return {
    ...found,
    set: isSplitAsItIs(set) ? set : 'utf-8',
    detectedSet: asked === 'auto' ? (set as DetectedCharacterSet) : null,
    warnings: [...found.warnings, { pattern: /UTF-8 byte order mark/, isExpected: isReadAsUtf8 }],
  }
}

/** Sets of one byte a character, and UTF-8; the others are transcoded. */
export const isSplitAsItIs = (set: CharacterSet): set is SplitSet =>
  set === 'utf-8' || set.startsWith('iso-8859-') || set.startsWith('windows-')

/** "One of UTF-16 is stripped under the set that it belongs to; under others, and `UTF-16` without a mark: `failed`." */
function chosenSet(
  requested: CharacterSet,
  mark: Exclude<Mark, 'utf-32'> | null,
): Exclude<CharacterSet, 'utf-16'> | Refusal {
  if (mark === 'utf-8') return isSplitAsItIs(requested) ? requested : 'utf-8'
  if (requested === 'utf-16') return mark ?? { says: [/UTF-16(LE|BE)/] }
  if (mark === null || mark === requested) return requested
  return { says: [new RegExp(`"${mark}"`, 'i')] }
}

const mebibyte = 1024 * 1024

/** "UTF-8, if the first 1 MiB is valid or at least nine of ten of its non-ASCII sequences are; else windows-1252." */
function detect(file: string): 'utf-8' | 'windows-1252' {
  const beginning = file.slice(0, mebibyte)
  // "An incomplete character at its end allowed where the file goes on."
  const cut = file.length > mebibyte ? /[\xc2-\xf4][\x80-\xbf]{0,2}$/.exec(beginning)?.[0] : undefined
  const isCutCharacter = cut !== undefined && cut.length < (cut >= '\xf0' ? 4 : cut >= '\xe0' ? 3 : 2)
  const whole = isCutCharacter ? beginning.slice(0, -cut.length) : beginning
  // U+FFFD that is in the file is a sequence like any other.
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(
    Buffer.from(whole.replaceAll('\xef\xbf\xbd', '\xef\xbf\xbc'), 'latin1'),
  )
  const sequences = text.match(/[^\0-\x7f]/gu)?.length ?? 0
  const invalid = text.match(/\ufffd/g)?.length ?? 0
  return invalid * 10 <= sequences ? 'utf-8' : 'windows-1252'
}

/** "More than 1 % NUL (and at least 100) in the first 64 KiB: `failed` early." */
function isMostlyNul(raw: string): boolean {
  const beginning = raw.slice(0, 64 * 1024)
  const nulls = beginning.split('\0').length - 1
  return nulls >= 100 && nulls > beginning.length / 100
}

/** "Transcoded to UTF-8 once." A byte that UTF-8 never has stands for undecodable ones. */
function transcoded(raw: string, set: Exclude<CharacterSet, 'utf-16'>): string {
  if (isSplitAsItIs(set)) return raw
  return decodeByStandard(Buffer.from(raw, 'latin1'), set as ModelledSet)
    .map((character) => (character === null ? '\xff' : rawOf(Buffer.from(character))))
    .join('')
}

type Separated = Pick<
  FileContent,
  | 'raw'
  | 'separator'
  | 'skippedLines'
  | 'skippedText'
  | 'isSeparatorFromLine'
  | 'detectedSeparator'
  | 'warnings'
>

function separated(raw: string, { options, proposedSeparator }: ContentRequest): Separated {
  const line = separatorLine(raw)
  const named = options.file_format.csv_field_separator
  const isNamed = named !== 'auto' && options.default_separator !== true
  const decided =
    named === 'auto' ? (line?.separator ?? proposedSeparator ?? ',') : (line?.separator ?? named)
  const separator = isNamed ? named : decided
  const isSeparatorFromLine = line !== null && !isNamed
  const skip = options.file_format.csv_skip_lines ?? 0
  const rest = raw.slice(line?.length ?? 0)
  const skippedText = new RegExp(`^(?:[^\\r\\n]*(?:\\r\\n|\\r|\\n|$)){${skip}}`).exec(rest)![0]
  return {
    raw: rest.slice(skippedText.length),
    skippedText,
    separator,
    skippedLines: (line === null ? 0 : 1) + skip,
    isSeparatorFromLine,
    detectedSeparator: isSeparatorFromLine || named === 'auto' ? separator : null,
    warnings: [
      {
        pattern: /the first line sets the separator/,
        isExpected: line !== null && line.separator !== separator,
      },
    ],
  }
}

/** `sep=;`: "tab as itself or `\t`; enclosed or not; further separators and blanks after it ignored". */
function separatorLine(raw: string): { separator: Separator; length: number } | null {
  const [line = ''] = raw.split(/[\r\n]/, 1)
  const [, enclosure = '', spelled = '', rest = ''] = /^(["']?)sep=(\\t|[,;\t|])(.*)$/i.exec(line) ?? []
  const after = enclosure === '' ? [rest] : rest.split(enclosure)
  if (spelled === '' || after.length !== 1 + enclosure.length || !/^[,;\t| ]*$/.test(after.join('')))
    return null
  const end = raw.startsWith('\r\n', line.length) ? 2 : 1
  return { separator: (spelled.startsWith('\\') ? '\t' : spelled) as Separator, length: line.length + end }
}
