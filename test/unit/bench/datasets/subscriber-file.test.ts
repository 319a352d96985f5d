import { parse } from 'csv-parse/sync'
import t from 'tap'
import { flatSample, sampleRows, wrongSample } from '../../../../bench/datasets/documents.ts'
import {
  columns,
  SubscriberFile,
  type SubscriberFileOptions,
} from '../../../../bench/datasets/subscriber-file.ts'

const rows = 10_000
const makeFile = (options: Partial<SubscriberFileOptions> = {}) =>
  new SubscriberFile({ rows, seed: 3, ...options })

const parseRecords = (file: SubscriberFile): string[][] => parse([...file.text()].join(''), { from_line: 2 })

t.test('a file has the duplicates and bad rows that were asked for, and its counts know them', async (t) => {
  const file = makeFile({ defects: { badEmails: 25, badDates: 25, duplicates: 200 } })
  const records = parseRecords(file)
  const seen = new Set<string>()
  let repeated = 0
  const found = { added: 0, failed: 0, skipped_duplicate: 0 }
  for (const [email, , , , birthday] of records as [string, string, string, string, string][]) {
    const key = email.toLowerCase()
    const isBad = !email.includes('@') || birthday === '02/30/1980'
    found[seen.has(key) ? 'skipped_duplicate' : isBad ? 'failed' : 'added'] += 1
    if (seen.has(key) && email === key) repeated += 1
    seen.add(key)
  }
  t.match(file.expectedCounts(), found)
  t.ok(Math.abs(found.skipped_duplicate / rows - 0.2) < 0.01, `${found.skipped_duplicate} duplicates`)
  t.ok(Math.abs(repeated / rows - 0.1) < 0.01, `${repeated} in small letters, as before`)
  t.ok(Math.abs(found.failed / rows - 0.05) < 0.005, `${found.failed} bad rows`)
})

t.test('what is stored of a file is known: how many, and the sum of their points', async (t) => {
  const file = makeFile()
  const good = parseRecords(file).filter((_, row) => file.kindOf(row) === 'good')
  const points = good.reduce((sum, cells) => sum + Number(cells[columns.indexOf('points')]), 0)
  t.same(file.expectedDocuments(), { count: good.length, points })
})

t.test('a revision has other values for the same emails', async (t) => {
  const first = parseRecords(makeFile({ defects: false }))
  const second = parseRecords(makeFile({ defects: false, revision: 1 }))
  t.same(
    first.map(([email]) => email),
    second.map(([email]) => email),
  )
  const changed = first.filter((cells, i) => cells[6] !== second[i]?.[6]).length
  t.ok(changed > rows * 0.99, `${changed} of ${rows} rows have other points`)
})

t.test('a sample is spread over the whole file, and shows what is stored otherwise', async (t) => {
  t.strictSame(sampleRows(1), [0])
  t.strictSame(sampleRows(3), [0, 1, 2])
  const rows = sampleRows(1_000_000)
  t.equal(rows[0], 0)
  t.equal(rows.at(-1), 999_999)
  t.equal(new Set(rows).size, rows.length)

  const absent = 'absent@example.com'
  const right = flatSample(new SubscriberFile({ rows: 5_000, seed: 3, defects: false })).set(absent, null)
  t.equal(wrongSample(right, right), null)
  const [email, fields] = [...right][0]!
  t.match(wrongSample(new Map(right).set(email, { ...fields, first_name: 'Nobody' }), right), /Nobody/)
  t.match(wrongSample(new Map(right).set(absent, {}), right), /not null/)
  t.match(wrongSample(new Map(), right), /as null/)
})
