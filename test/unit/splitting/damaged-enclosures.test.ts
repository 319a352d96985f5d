import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { PartitionOutput } from '../../../engine/stages/split/range-writer.ts'
import { SourceScan } from '../../../engine/stages/split/source-scan.ts'
import { FileWarnings } from '../../../shared/csv/file-warnings.ts'
import { IdentityReader } from '../../../shared/csv/identity-reader.ts'
import { readRecordAt } from '../../../shared/csv/partition-file.ts'
import { dialectBytes, recordFlags, RecordScanner } from '../../../shared/csv/record-scanner.ts'
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

/** A scan of the bytes from `from` on, and the records that it has written. */
function startScan(text: string, format: ContentFormat, from: number) {
  const bytes = Buffer.from(text)
  const written: Buffer[] = []
  const scan = new SourceScan({
    ...{ plan: makePlan({ columns }), format, from, isSecondHalf: from > 0 },
    ...{ borders: [], bufferSize: 64 * 1024, targetBytes: 64 * 1024 },
    source: {
      size: bytes.length,
      read: async (target, position) => bytes.copy(target, 0, position),
      close: async () => undefined,
    },
    output: new PartitionOutput({
      append: async (buffers) => void written.push(...buffers.map((buffer) => Buffer.from(buffer))),
      close: async () => undefined,
    }),
  })
  const records = (before: { records: number; lines: number }) => {
    const all = Buffer.concat(written)
    const found = []
    for (let record = readRecordAt(all, 0); record !== null; record = readRecordAt(all, record.end))
      found.push({
        number: record.number + before.records,
        line: record.line + before.lines,
        flags: record.flags,
        identity: all.toString('utf8', record.identityStart, record.start),
        text: all.toString('utf8', record.start, record.end),
      })
    return found.sort((a, b) => a.number - b.number)
  }
  return { scan, records }
}

/** The file read as split.ts reads it where its second half begins at `cut`; null is no second half. */
async function readInHalves(text: string, format: ContentFormat, cut: number | null) {
  const never = () => false
  const size = Buffer.byteLength(text)
  const first = startScan(text, format, 0)
  const { sorter } = first.scan
  await first.scan.scanTo(cut ?? size, never)
  const isUsable = first.scan.isBetweenRecords && sorter.records > 0
  const second = cut !== null && isUsable ? startScan(text, format, cut) : null
  if (second === null) await first.scan.scanTo(size, never)
  const before = { records: sorter.records, lines: first.scan.lines }
  await first.scan.end()
  const found = first.records({ records: 0, lines: 0 })
  if (second !== null) {
    await second.scan.scanTo(size, never)
    await second.scan.end()
    found.push(...second.records(before))
    const { records, warnings } = second.scan.sorter
    sorter.addSecondHalf({ records, findings: warnings.findings }, before.lines)
  }
  const { header, records, warnings } = sorter
  return {
    isInTwo: second !== null,
    outcome: { found, header, records, warnings: warnings.sentences, findings: warnings.findings },
  }
}

t.test('a damaged file comes to the same whole and cut in two at any byte', async (t) => {
  const seen = { inTwo: 0, unterminated: 0, irregular: 0, warned: 0 }
  const moreDamages = {
    ...damages,
    'with blanks before it': (text: string, at: number) => `${text.slice(0, at)} \t${text.slice(at)}`,
    'with text behind it': (text: string, at: number) => `${text.slice(0, at + 1)}x${text.slice(at + 1)}`,
    inserted: insertion,
  }
  await fc.assert(
    fc.asyncProperty(
      file,
      fc.record({
        damage: fc.constantFrom(...Object.values(moreDamages)),
        place: fc.nat(),
        lineEnd: fc.constantFrom('\n', '\r\n', '\r'),
        csv_has_headers: fc.boolean(),
      }),
      async ({ words, enclosure, style, escape }, { damage, place, lineEnd, csv_has_headers }) => {
        const people = words.map(([name, size], i) => ({ email: `person${i}@example.com`, name, size }))
        const format = {
          ...utf8Format,
          ...{ csv_field_enclosure: enclosure, csv_field_escape: escape, csv_has_headers },
        }
        const { text: good, places } = written(people, enclosure, style, escape)
        const at =
          places.length === 0 || damage === insertion ? place % good.length : places[place % places.length]!
        const text = damage(good, at, enclosure).replaceAll('\n', lineEnd)
        const whole = await readInHalves(text, format, null)
        for (let cut = 1; cut < Buffer.byteLength(text); cut += 1) {
          const { isInTwo, outcome } = await readInHalves(text, format, cut)
          if (isInTwo) seen.inTwo += 1
          assert.deepEqual(outcome, whole.outcome, `${JSON.stringify(text)}, cut at ${cut}`)
        }
        const flags = whole.outcome.found.reduce((all, record) => all | record.flags, 0)
        if ((flags & recordFlags.unterminated) !== 0) seen.unterminated += 1
        if ((flags & recordFlags.irregular) !== 0) seen.irregular += 1
        if (whole.outcome.warnings.length > 0) seen.warned += 1
      },
    ),
    { numRuns: Math.ceil(runs / 4) },
  )
  t.comment(seen)
  t.ok(seen.inTwo > 0 && seen.irregular > 0 && seen.warned > 0)
})
