import { createWriteStream } from 'node:fs'
import path from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ImportCounts } from '../../shared/contract/schemas/import.ts'
import { noCounts } from '../../shared/contract/schemas/import.ts'
import type { BenchContext } from '../scenario.ts'

/**
 * A made-up subscriber file: the same bytes for the same seed, as many rows as asked for, and the counts that an
 * import of it into an empty list must give. About 1 % of the rows are duplicates of an earlier row (half of them
 * that row once more, the others with its address in capitals and values of their own), 0.5 % have a bad email, 0.5 % a bad date; about a tenth have an enclosed cell, some of those with
 * line breaks in it, and many names aren't ASCII.
 */

export interface SubscriberFileOptions {
  rows: number
  seed: number
  /** In a thousand rows; false leaves them out. */
  defects?: Defects | false
  /** Another number, other values for the same emails. */
  revision?: number
  /** Columns beside the eight: texts, numbers, dates and booleans in turn. */
  extraColumns?: number
}

export interface Defects {
  badEmails: number
  badDates: number
  duplicates: number
}

const usualDefects: Defects = { badEmails: 5, badDates: 5, duplicates: 10 }
const noDefects: Defects = { badEmails: 0, badDates: 0, duplicates: 0 }

export const columns = [
  'email',
  'first_name',
  'last_name',
  'address',
  'birthday',
  'plan',
  'points',
  'subscribe_time',
] as const

/** The custom fields that the columns need, as bodies for the API. */
export const customFields = [
  { name: 'first_name', field_type: 'text' },
  { name: 'last_name', field_type: 'text' },
  { name: 'address', field_type: 'text_multiline' },
  { name: 'birthday', field_type: 'date' },
  { name: 'plan', field_type: 'select_single_dropdown', options: ['Free', 'Basic', 'Team', 'Enterprise'] },
  { name: 'points', field_type: 'number' },
] as const

export type CustomField = {
  name: string
  field_type: 'text' | 'text_multiline' | 'date' | 'select_single_dropdown' | 'number' | 'boolean'
  options?: readonly string[]
}

const extraTypes = ['text', 'number', 'date', 'boolean'] as const

/** What stands in a collection: how many, and the sum of a number that each of them holds. */
export interface Documents {
  count: number
  points: number
}

export type RowKind = 'good' | 'duplicate' | 'bad_email' | 'bad_date'

const firstNames = [
  'Anna',
  'Björn',
  'Chloé',
  'David',
  'Éva',
  'François',
  'Grace',
  'Håkon',
  'Inés',
  'José',
  'Kateřina',
  'Lars',
  'Mária',
  'Noé',
  'Olga',
  'Paweł',
  'Quentin',
  'Renée',
  'Søren',
  'Tomáš',
  'Ursula',
  'Vera',
  'William',
  'Zoë',
]
const lastNames = [
  'Andersson',
  'Brown',
  'Černý',
  'Dubois',
  'Eriksen',
  'Fernández',
  'García',
  'Høgh',
  'Ivanova',
  'Jensen',
  'Kowalski',
  'Lefèvre',
  'Müller',
  'Nováková',
  'O’Brien',
  'Papadopoulos',
  'Quist',
  'Rossi',
  'Schröder',
  'Takács',
  'Ünal',
  'Virtanen',
  'Weiß',
  'Yılmaz',
]
const streets = [
  'Main Street',
  'Rue de la Paix',
  'Hauptstraße',
  'Storgata',
  'Calle Mayor',
  'Via Roma',
  'Nowy Świat',
]
const cities = ['London', 'Paris', 'København', 'München', 'Oslo', 'Łódź', 'São Paulo', 'Roma', 'Zürich']
const plans = customFields[4].options
const domains = ['example.com', 'example.org', 'mail.example.net', 'post.example.co.uk', 'sub.domain.example']

/** A well-mixed 32-bit number for a row, by its purpose. */
function mix(seed: number, row: number, purpose: number): number {
  let h =
    Math.imul(row + 1, 0x9e3779b1) ^
    Math.imul(seed + 0x7f4a7c15, 0x85ebca6b) ^
    Math.imul(purpose + 1, 0xc2b2ae35)
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}

export class SubscriberFile {
  readonly rows: number
  /** What makes the same file in another thread. */
  readonly options: SubscriberFileOptions
  /** In the order of the columns. */
  readonly customFields: readonly CustomField[]
  readonly columns: readonly string[]
  readonly #seed: number
  /** Of everything but the emails. */
  readonly #valueSeed: number
  readonly #defects: Defects
  readonly #extraColumns: number

  constructor(options: SubscriberFileOptions) {
    const { rows, seed, defects = usualDefects, revision = 0, extraColumns = 0 } = options
    this.rows = rows
    this.options = options
    this.#seed = seed
    this.#valueSeed = seed + revision * 7_919
    this.#defects = defects === false ? noDefects : defects
    this.#extraColumns = extraColumns
    const extra = Array.from({ length: extraColumns }, (_, i) => ({
      name: `extra_${i + 1}`,
      field_type: extraTypes[i % extraTypes.length]!,
    }))
    this.customFields = [...customFields, ...extra]
    this.columns = [...columns, ...extra.map(({ name }) => name)]
  }

  kindOf(row: number): RowKind {
    const { badEmails, badDates, duplicates } = this.#defects
    const draw = mix(this.#seed, row, 0) % 1000
    if (draw < badEmails) return 'bad_email'
    if (draw < badEmails + badDates) return 'bad_date'
    if (draw < badEmails + badDates + duplicates && this.originalOf(row) !== null) return 'duplicate'
    return 'good'
  }

  /** The earlier row whose email a duplicate repeats; null where no draw fell on a row with an email of its own. */
  originalOf(row: number): number | null {
    if (row === 0) return null
    const { badEmails, badDates, duplicates } = this.#defects
    for (const purpose of [1, 12, 13, 14]) {
      const original = mix(this.#seed, row, purpose) % row
      const draw = mix(this.#seed, original, 0) % 1000
      const hasOwn =
        draw >= badEmails && (draw < badEmails + badDates || draw >= badEmails + badDates + duplicates)
      if (hasOwn) return original
    }
    return null
  }

  /** Whether a duplicate is the earlier row once more, to the letter; the others spell its email in capitals. */
  isRepetition(row: number): boolean {
    return this.kindOf(row) === 'duplicate' && mix(this.#seed, row, 15) % 2 === 0
  }

  /** What an import of the file into an empty list counts. */
  expectedCounts(): ImportCounts {
    const counts = noCounts()
    for (let row = 0; row < this.rows; row += 1) {
      const kind = this.kindOf(row)
      counts[kind === 'good' ? 'added' : kind === 'duplicate' ? 'skipped_duplicate' : 'failed'] += 1
    }
    return counts
  }

  /** What an import of the file leaves: the subscribers that it adds to an empty list, or gives its values to. */
  expectedDocuments(): Documents {
    const documents = { count: 0, points: 0 }
    for (let row = 0; row < this.rows; row += 1) {
      if (this.kindOf(row) !== 'good') continue
      documents.count += 1
      documents.points += this.pointsOf(row)
    }
    return documents
  }

  /** The file's text in pieces of about 256 kB, header first. */
  *text(header: readonly string[] = this.columns): Generator<string> {
    let piece = `${header.join(',')}\n`
    for (let row = 0; row < this.rows; row += 1) {
      piece += this.line(row)
      if (piece.length < 256 * 1024) continue
      yield piece
      piece = ''
    }
    yield piece
  }

  *bytes(header?: readonly string[]): Generator<Buffer> {
    for (const piece of this.text(header)) yield Buffer.from(piece)
  }

  line(row: number): string {
    const pick = <T>(list: readonly T[], purpose: number): T =>
      list[mix(this.#valueSeed, row, purpose) % list.length]!
    if (this.isRepetition(row)) return this.line(this.originalOf(row)!)
    const kind = this.kindOf(row)
    const email = kind === 'duplicate' ? this.emailOf(this.originalOf(row)!).toUpperCase() : this.emailOf(row)
    const number = mix(this.#valueSeed, row, 4)
    const cells = [
      kind === 'bad_email' ? email.replace('@', ' at ') : email,
      pick(firstNames, 2),
      pick(lastNames, 3),
      this.#address(row, number),
      kind === 'bad_date' ? '02/30/1980' : dateOf(number),
      pick(plans, 5),
      String(this.pointsOf(row)),
      `20${String(10 + (number % 15))}-${two((number % 12) + 1)}-${two(((number >>> 3) % 28) + 1)} ${two(number % 24)}:${two((number >>> 5) % 60)}`,
    ]
    for (let i = 0; i < this.#extraColumns; i += 1) cells.push(this.#extraCell(row, i))
    return `${cells.join(',')}\n`
  }

  #extraCell(row: number, column: number): string {
    const number = mix(this.#valueSeed, row, 100 + column)
    switch (extraTypes[column % extraTypes.length]!) {
      case 'text':
        return streets[number % streets.length]!
      case 'number':
        return String(number % 1_000_000)
      case 'date':
        return dateOf(number)
      case 'boolean':
        return number % 2 === 0 ? 'true' : 'false'
    }
  }

  /** Of the row's column of that name: its sum tells whether the values that are stored are the right ones. */
  pointsOf(row: number): number {
    const from = this.isRepetition(row) ? this.originalOf(row)! : row
    return mix(this.#valueSeed, from, 6) % 100_000
  }

  emailOf(row: number): string {
    const name = mix(this.#seed, row, 7).toString(36)
    return `${name}.${row.toString(36)}@${domains[mix(this.#seed, row, 8) % domains.length]!}`
  }

  #address(row: number, number: number): string {
    const street = `${(number % 199) + 1} ${streets[mix(this.#valueSeed, row, 9) % streets.length]!}`
    const city = cities[mix(this.#valueSeed, row, 10) % cities.length]!
    switch (mix(this.#valueSeed, row, 11) % 20) {
      case 0:
        return `"${street}\n${city}"`
      case 1:
        return `"${street}, ""${city}"""`
      default:
        return `${street} ${city}`
    }
  }
}

const dateOf = (number: number): string =>
  `${(number % 12) + 1}/${((number >>> 4) % 28) + 1}/${1940 + ((number >>> 9) % 65)}`

const two = (value: number): string => String(value).padStart(2, '0')

export interface WrittenFile {
  dataset: SubscriberFile
  file: string
}

/** The file of a benchmark, in its scratch folder. */
export async function writeSubscriberFile(
  context: Pick<BenchContext, 'rows' | 'seed' | 'folder' | 'say'>,
  options: Partial<SubscriberFileOptions> & { name?: string } = {},
): Promise<WrittenFile> {
  const { name = 'rows.csv', ...rest } = options
  const dataset = new SubscriberFile({ rows: context.rows, seed: context.seed, ...rest })
  const file = path.join(context.folder, name)
  context.say('making the file ...')
  await pipeline(Readable.from(dataset.bytes(typedHeader(dataset))), createWriteStream(file))
  return { dataset, file }
}

/**
 * The header line as mongoimport takes it, with a type for each column, so that all contenders read the same file. For
 * the others a header is a line that they skip.
 */
function typedHeader({ columns, customFields }: SubscriberFile): string[] {
  const types = new Map(customFields.map(({ name, field_type }) => [name, peerTypes[field_type]]))
  types.set('subscribe_time', 'date_go(2006-01-02 15:04)')
  return columns.map((name) => `${name}.${types.get(name) ?? 'string()'}`)
}

const peerTypes: Record<CustomField['field_type'], string> = {
  text: 'string()',
  text_multiline: 'string()',
  select_single_dropdown: 'string()',
  number: 'int32()',
  boolean: 'boolean()',
  date: 'date_go(1/2/2006)',
}

/** The file that fills a list, and one of the same addresses with other values. */
export async function writeFileTwice(
  context: Parameters<typeof writeSubscriberFile>[0],
): Promise<WrittenFile & { before: WrittenFile }> {
  const before = await writeSubscriberFile(context, { name: 'before.csv', defects: false })
  return { before, ...(await writeSubscriberFile(context, { defects: false, revision: 1 })) }
}
