import { createWriteStream } from 'node:fs'
import path from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ImportCounts } from '../../shared/schemas/import.ts'
import { noCounts } from '../../shared/schemas/import.ts'
import type { BenchContext } from '../scenario.ts'

/**
 * A made-up subscriber file: the same bytes for the same seed, as many rows as asked for, and the counts that an
 * import of it into an empty list must give. About 1 % of the rows are duplicates of an earlier row (spelled in
 * another case), 0.5 % have a bad email, 0.5 % a bad date; about a tenth have an enclosed cell, some of those with
 * line breaks in it, and many names aren't ASCII.
 */

export interface SubscriberFileOptions {
  rows: number
  seed: number
  /** False leaves the defects out. */
  defects?: boolean
}

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
  readonly #seed: number
  readonly #defects: boolean

  constructor(options: SubscriberFileOptions) {
    this.rows = options.rows
    this.#seed = options.seed
    this.#defects = options.defects ?? true
  }

  kindOf(row: number): RowKind {
    if (!this.#defects) return 'good'
    const draw = mix(this.#seed, row, 0) % 1000
    if (draw < 5) return 'bad_email'
    if (draw < 10) return 'bad_date'
    if (draw < 20 && this.#originalOf(row) !== null) return 'duplicate'
    return 'good'
  }

  /** The earlier row whose email a duplicate repeats; null when the draw fell on a row without one of its own. */
  #originalOf(row: number): number | null {
    if (row === 0) return null
    const original = mix(this.#seed, row, 1) % row
    const draw = mix(this.#seed, original, 0) % 1000
    return draw < 5 || (draw >= 10 && draw < 20) ? null : original
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

  /** The file's text in pieces of about 256 kB, header first. */
  *text(): Generator<string> {
    let piece = `${columns.join(',')}\n`
    for (let row = 0; row < this.rows; row += 1) {
      piece += this.line(row)
      if (piece.length < 256 * 1024) continue
      yield piece
      piece = ''
    }
    yield piece
  }

  *bytes(): Generator<Buffer> {
    for (const piece of this.text()) yield Buffer.from(piece)
  }

  line(row: number): string {
    const pick = <T>(list: readonly T[], purpose: number): T =>
      list[mix(this.#seed, row, purpose) % list.length]!
    const kind = this.kindOf(row)
    const email =
      kind === 'duplicate' ? this.emailOf(this.#originalOf(row)!).toUpperCase() : this.emailOf(row)
    const number = mix(this.#seed, row, 4)
    const cells = [
      kind === 'bad_email' ? email.replace('@', ' at ') : email,
      pick(firstNames, 2),
      pick(lastNames, 3),
      this.#address(row, number),
      kind === 'bad_date'
        ? '02/30/1980'
        : `${(number % 12) + 1}/${((number >>> 4) % 28) + 1}/${1940 + ((number >>> 9) % 65)}`,
      pick(plans, 5),
      String(mix(this.#seed, row, 6) % 100_000),
      `20${String(10 + (number % 15))}-${two((number % 12) + 1)}-${two(((number >>> 3) % 28) + 1)} ${two(number % 24)}:${two((number >>> 5) % 60)}`,
    ]
    return `${cells.join(',')}\n`
  }

  emailOf(row: number): string {
    const name = mix(this.#seed, row, 7).toString(36)
    return `${name}.${row.toString(36)}@${domains[mix(this.#seed, row, 8) % domains.length]!}`
  }

  #address(row: number, number: number): string {
    const street = `${(number % 199) + 1} ${streets[mix(this.#seed, row, 9) % streets.length]!}`
    const city = cities[mix(this.#seed, row, 10) % cities.length]!
    switch (mix(this.#seed, row, 11) % 20) {
      case 0:
        return `"${street}\n${city}"`
      case 1:
        return `"${street}, ""${city}"""`
      default:
        return `${street} ${city}`
    }
  }
}

const two = (value: number): string => String(value).padStart(2, '0')

/** The file of a benchmark, in its scratch folder. */
export async function writeSubscriberFile(
  context: Pick<BenchContext, 'rows' | 'seed' | 'folder' | 'say'>,
): Promise<{ dataset: SubscriberFile; file: string }> {
  const dataset = new SubscriberFile({ rows: context.rows, seed: context.seed })
  const file = path.join(context.folder, 'rows.csv')
  context.say('making the file ...')
  await pipeline(Readable.from(dataset.bytes()), createWriteStream(file))
  return { dataset, file }
}
