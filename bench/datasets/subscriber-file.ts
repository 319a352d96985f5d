import { createWriteStream } from 'node:fs'
import path from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { noCounts, type ImportCounts } from '../../shared/contract/schemas/import.ts'
import type { Bench } from '../scenario.ts'

/**
 * A made-up subscriber file: the same bytes for the same seed, and the counts that an import of it into an empty list
 * must give. By default 1 % of the rows repeat an earlier row's email, half of them the whole row, half with the email
 * in capitals and other values. 0.5 % have a bad email, 0.5 % a bad date. A tenth have an enclosed cell, some with line
 * breaks, and many names aren't ASCII.
 */

export interface SubscriberFileOptions {
  rows: number
  seed: number
  /** Defects in a thousand rows; by default 5, 5 and 10. */
  defects?: { badEmails: number; badDates: number; duplicates: number } | false
  /** Another number gives other values for the same emails. */
  revision?: number
  /** Further columns of short texts, by default none. */
  texts?: number
}

export const columns = [
  ...['email', 'first_name', 'last_name', 'address', 'birthday', 'plan', 'points', 'subscribe_time'],
] as const

const words = (text: string): string[] => text.split(' ')
const plans = words('Free Basic Team Enterprise')

/** The custom fields that the columns need, as bodies for the API. */
export const customFields = [
  { name: 'first_name', field_type: 'text' },
  { name: 'last_name', field_type: 'text' },
  { name: 'address', field_type: 'text_multiline' },
  { name: 'birthday', field_type: 'date' },
  { name: 'plan', field_type: 'select_single_dropdown', options: plans },
  { name: 'points', field_type: 'number' },
] as const

interface CustomField {
  name: string
  field_type: string
}

/** A collection's documents: their number, and the sum of their points. */
export interface Documents {
  count: number
  points: number
}

const firstNames = words(
  'Anna Björn Chloé David Éva François Grace Håkon Inés José Kateřina Lars Mária Noé Olga Paweł Quentin Renée Søren Tomáš Ursula Vera William Zoë',
)
const lastNames = words(
  'Andersson Brown Černý Dubois Eriksen Fernández García Høgh Ivanova Jensen Kowalski Lefèvre Müller Nováková O’Brien Papadopoulos Quist Rossi Schröder Takács Ünal Virtanen Weiß Yılmaz',
)
const streets = 'Main Street,Rue de la Paix,Hauptstraße,Storgata,Calle Mayor,Via Roma,Nowy Świat'.split(',')
const cities = 'London,Paris,København,München,Oslo,Łódź,São Paulo,Roma,Zürich'.split(',')
const domains = words('example.com example.org mail.example.net post.example.co.uk sub.domain.example')

/** A hash of 32 bits: the row's random number for one purpose. */
function mix(seed: number, row: number, purpose: number): number {
  let h =
    Math.imul(row + 1, 0x9e3779b1) ^
    Math.imul(seed + 0x7f4a7c15, 0x85ebca6b) ^
    Math.imul(purpose + 1, 0xc2b2ae35)
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}

export interface Rows {
  first: number
  count: number
}

export class SubscriberFile {
  readonly rows: number
  /** They make the same file in another thread. */
  readonly options: SubscriberFileOptions
  readonly columns: readonly string[]
  readonly customFields: readonly CustomField[]
  readonly #seed: number
  /** For everything but the emails. */
  readonly #valueSeed: number

  constructor(options: SubscriberFileOptions) {
    this.options = options
    this.rows = options.rows
    const texts = Array.from({ length: options.texts ?? 0 }, (_, i) => `text_${i + 1}`)
    this.columns = [...columns, ...texts]
    this.customFields = [...customFields, ...texts.map((name) => ({ name, field_type: 'text' }))]
    this.#seed = options.seed
    this.#valueSeed = options.seed + (options.revision ?? 0) * 7_919
  }

  kindOf(row: number): 'good' | 'duplicate' | 'bad_email' | 'bad_date' {
    const kind = this.#drawKind(row)
    return kind === 'duplicate' && this.#original(row) === null ? 'good' : kind
  }

  #drawKind(row: number) {
    const { defects = { badEmails: 5, badDates: 5, duplicates: 10 } } = this.options
    if (defects === false) return 'good'
    const { badEmails, badDates, duplicates } = defects
    const draw = mix(this.#seed, row, 0) % 1000
    if (draw < badEmails) return 'bad_email'
    if (draw < badEmails + badDates) return 'bad_date'
    return draw < badEmails + badDates + duplicates ? 'duplicate' : 'good'
  }

  /** The row that has this row's email first: an earlier one for a duplicate. */
  firstRow(row: number): number {
    return this.#drawKind(row) === 'duplicate' ? (this.#original(row) ?? row) : row
  }

  /** An earlier row with a valid email that isn't a duplicate itself; null where four draws found none. */
  #original(row: number): number | null {
    if (row === 0) return null
    const drawn = [1, 12, 13, 14].map((purpose) => mix(this.#seed, row, purpose) % row)
    return drawn.find((original) => ['good', 'bad_date'].includes(this.#drawKind(original))) ?? null
  }

  /** A duplicate may repeat the whole earlier row. The others have its email in capitals. */
  #repeatedRow(row: number): number {
    const first = this.firstRow(row)
    return first !== row && mix(this.#seed, row, 15) % 2 === 0 ? first : row
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

  /** What an import of the file into an empty list stores. */
  expectedDocuments(): Documents {
    const documents = { count: 0, points: 0 }
    for (let row = 0; row < this.rows; row += 1) {
      if (this.kindOf(row) !== 'good') continue
      documents.count += 1
      documents.points += this.#pointsOf(row)
    }
    return documents
  }

  /** The text of some rows, header first, in pieces of about 256 kB. */
  *text(
    header: readonly string[] = this.columns,
    ranges: Rows[] = [{ first: 0, count: this.rows }],
  ): Generator<string> {
    let piece = `${header.join(',')}\n`
    for (const { first, count } of ranges)
      for (let row = first; row < first + count; row += 1) {
        piece += `${this.cells(row).map(enclose).join(',')}\n`
        if (piece.length < 256 * 1024) continue
        yield piece
        piece = ''
      }
    yield piece
  }

  *bytes(header?: readonly string[], ranges?: Rows[]): Generator<Buffer> {
    for (const piece of this.text(header, ranges)) yield Buffer.from(piece)
  }

  /** In the order of the columns. */
  cells(of: number): string[] {
    const row = this.#repeatedRow(of)
    const random = (purpose: number) => mix(this.#valueSeed, row, purpose)
    const kind = this.kindOf(row)
    const email = this.emailOf(this.firstRow(row))
    const number = random(4)
    const day = `${two((number % 12) + 1)}-${two(((number >>> 3) % 28) + 1)}`
    return [
      kind === 'duplicate' ? email.toUpperCase() : kind === 'bad_email' ? email.replace('@', ' at ') : email,
      pick(firstNames, random(2)),
      pick(lastNames, random(3)),
      this.#address(row, number),
      kind === 'bad_date' ? '02/30/1980' : formatDate(number),
      pick(plans, random(5)),
      String(this.#pointsOf(row)),
      `${2010 + (number % 15)}-${day} ${two(number % 24)}:${two((number >>> 5) % 60)}`,
      ...this.columns
        .slice(columns.length)
        .map((_, i) => `${pick(cities, random(20 + i))} ${random(i) % 10_000}`),
    ]
  }

  /** The row's number in the column `points`: the sum of all shows whether the right values are stored. */
  #pointsOf(row: number): number {
    return mix(this.#valueSeed, row, 6) % 100_000
  }

  emailOf(row: number): string {
    const name = mix(this.#seed, row, 7).toString(36)
    return `${name}.${row.toString(36)}@${pick(domains, mix(this.#seed, row, 8))}`
  }

  #address(row: number, number: number): string {
    const street = `${(number % 199) + 1} ${pick(streets, mix(this.#valueSeed, row, 9))}`
    const city = pick(cities, mix(this.#valueSeed, row, 10))
    const form = mix(this.#valueSeed, row, 11) % 20
    if (form === 0) return `${street}\n${city}`
    return form === 1 ? `${street}, "${city}"` : `${street} ${city}`
  }
}

const pick = <T>(list: readonly T[], number: number): T => list[number % list.length]!

const formatDate = (number: number): string =>
  `${(number % 12) + 1}/${((number >>> 4) % 28) + 1}/${1940 + ((number >>> 9) % 65)}`

const two = (value: number): string => String(value).padStart(2, '0')

const enclose = (cell: string): string => (/[",\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)

/** mongoimport wants a type in each column's header. The other contenders skip the header, so all read one file. */
const typedHeader = ({ columns }: SubscriberFile): string[] =>
  columns.map((name) => {
    if (name === 'subscribe_time') return `${name}.date_go(2006-01-02 15:04)`
    if (name === 'birthday') return `${name}.date_go(1/2/2006)`
    return `${name}.${name === 'points' ? 'int32' : 'string'}()`
  })

export interface WrittenFile {
  dataset: SubscriberFile
  file: string
}

/** Writes a file into the scratch folder. */
export async function writeSubscriberFile(
  { rows, seed, folder, say }: Pick<Bench, 'rows' | 'seed' | 'folder' | 'say'>,
  { name = 'rows.csv', ...options }: Partial<SubscriberFileOptions> & { name?: string } = {},
): Promise<WrittenFile> {
  const dataset = new SubscriberFile({ rows, seed, ...options })
  const file = path.join(folder, name)
  say('making the file ...')
  await writeRows(dataset, file)
  return { dataset, file }
}

/** Writes the header and some rows, by default all. */
export const writeRows = (dataset: SubscriberFile, file: string, ranges?: Rows[]): Promise<void> =>
  pipeline(Readable.from(dataset.bytes(typedHeader(dataset), ranges)), createWriteStream(file))

/** A file that fills a list, and one with other values for the same emails; both without defects. */
export async function writeFileTwice(
  bench: Parameters<typeof writeSubscriberFile>[0],
): Promise<WrittenFile & { before: WrittenFile }> {
  const before = await writeSubscriberFile(bench, { name: 'before.csv', defects: false })
  return { before, ...(await writeSubscriberFile(bench, { defects: false, revision: 1 })) }
}
