import fc from 'fast-check'
import t from 'tap'
import { FileWarnings } from '../../../shared/csv/file-warnings.ts'
import { IdentityReader } from '../../../shared/csv/identity-reader.ts'
import { dialectBytes, RecordScanner } from '../../../shared/csv/record-scanner.ts'
import type { ContentFormat, ImportPlan } from '../../../shared/contract/schemas/import.ts'
import { makePlan, utf8Format } from '../../helpers/make-plan.ts'

/**
 * "A lost or stray enclosure costs its own line, not its neighbours" (decisions 2.4): one enclosure of a good file is
 * damaged, at each place in turn. No other line's address may vanish without the warning that keeps everybody from being
 * deactivated.
 */
const columns: ImportPlan['columns'] = [{ kind: 'built_in', name: 'email' }, null, null]

interface Person {
  email: string
  name: string
  size: string
}

/** The addresses that are read, and whether the import warns of swallowed records. */
function read(text: string, format: ContentFormat): { addresses: Set<string>; isWarned: boolean } {
  const plan = makePlan({ columns })
  const identities = new IdentityReader(plan, format)
  const warnings = new FileWarnings(plan, format)
  const addresses = new Set<string>()
  let number = 0
  const scanner = new RecordScanner({
    dialect: dialectBytes(format),
    wantedColumn: 0,
    onRecord(record) {
      warnings.notice(record, (number += 1))
      const length = identities.read(record)
      if (length !== -1) addresses.add(identities.identityBytes.toString('utf8', 0, length))
    },
  })
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length;) {
    const copied = bytes.copy(scanner.space(), 0, at)
    scanner.advance(copied)
    at += copied
  }
  scanner.end()
  return { addresses, isWarned: warnings.sentences.some((sentence) => /swallowed others/.test(sentence)) }
}

/** A file as careful writers make it, its lines, and the places of its enclosures. */
function written(people: Person[], enclosure: string, style: 'all' | 'needed', escape: string | null) {
  const cell = (text: string): string => {
    const isNeeded = /[,\n]/.test(text) || text.startsWith(enclosure)
    if (style === 'needed' && !isNeeded) return text
    const inside = escape === null ? text : text.replaceAll(escape, escape + escape)
    return enclosure + inside.replaceAll(enclosure, (escape ?? enclosure) + enclosure) + enclosure
  }
  const lines = people.map(({ email, name, size }) => [email, name, size].map(cell).join(','))
  const text = `${lines.join('\n')}\n`
  const places = Array.from(text).flatMap((character, at) => (character === enclosure ? [at] : []))
  return { lines, text, places }
}

const damages: Record<string, (text: string, at: number, enclosure: string) => string> = {
  deleted: (text, at) => text.slice(0, at) + text.slice(at + 1),
  doubled: (text, at, enclosure) => text.slice(0, at) + enclosure + text.slice(at),
  'with a backslash before it': (text, at) => `${text.slice(0, at)}\\${text.slice(at)}`,
}
const insertion = (text: string, at: number, enclosure: string) =>
  text.slice(0, at) + enclosure + text.slice(at)

// Long by hand: ROLLCALL_FUZZ_RUNS=20000
const runs = Number(process.env['ROLLCALL_FUZZ_RUNS'] ?? 300)

const word = fc.constantFrom(
  'Bob',
  'Lee, Ann',
  'Lee, Jr',
  '5"',
  "6'",
  '12" pipe',
  "O'Neil",
  '',
  'a\nb',
  'C:\\',
)
const file = fc.record({
  words: fc.array(fc.tuple(word, word), { minLength: 2, maxLength: 6 }),
  enclosure: fc.constantFrom('"' as const, "'" as const),
  style: fc.constantFrom('all' as const, 'needed' as const),
  escape: fc.constantFrom(null, '\\' as const),
})

t.test('a damaged enclosure costs no other line its address without a warning', async (t) => {
  let damaged = 0
  let warned = 0
  fc.assert(
    fc.property(file, ({ words, enclosure, style, escape }) => {
      const people = words.map(([name, size], i) => ({ email: `person${i}@example.com`, name, size }))
      const format = { ...utf8Format, csv_field_enclosure: enclosure, csv_field_escape: escape }
      const { lines, text, places } = written(people, enclosure, style, escape)
      const emails = people.map(({ email }) => email)
      const checkEach = (how: string, at: number, changed: string) => {
        const ends = lines.map((_, i) => lines.slice(0, i + 1).join('\n').length)
        const own = ends.findIndex((end) => at <= end)
        const { addresses, isWarned } = read(changed, format)
        const lost = emails.filter((email, i) => i !== own && !addresses.has(email))
        damaged += 1
        if (isWarned) warned += 1
        if (lost.length > 0 && !isWarned)
          throw new Error(
            `${JSON.stringify(changed)}: the enclosure at ${at}, ${how}, costs ${lost.join(', ')}`,
          )
      }
      for (const at of places)
        for (const [how, damage] of Object.entries(damages)) checkEach(how, at, damage(text, at, enclosure))
      for (let at = 0; at < text.length; at += 1) checkEach('inserted', at, insertion(text, at, enclosure))
    }),
    { numRuns: runs },
  )
  t.comment(`${damaged} damaged files, ${warned} with the warning`)
  t.ok(warned > 0)
})

t.test('a good file has all its addresses and no warning', async (t) => {
  fc.assert(
    fc.property(file, ({ words, enclosure, style, escape }) => {
      const people = words.map(([name, size], i) => ({ email: `person${i}@example.com`, name, size }))
      const format = { ...utf8Format, csv_field_enclosure: enclosure, csv_field_escape: escape }
      const { addresses, isWarned } = read(written(people, enclosure, style, escape).text, format)
      return !isWarned && people.every(({ email }) => addresses.has(email))
    }),
    { numRuns: runs },
  )
  t.pass()
})
