import t, { type Test } from 'tap'
import { columns, customFields, SubscriberFile } from '../../bench/datasets/subscriber-file.ts'
import { programs } from '../../control-plane/cli/processes.ts'
import { recordsIn, type ImportCounts } from '../../shared/contract/schemas/import.ts'
import { createList, importEnd, startService, until, type Json, type Service } from '../helpers/service.ts'
import { storedUploads } from '../helpers/stored-uploads.ts'
import { watchMemory } from '../helpers/watch-memory.ts'

/**
 * Files that are large, or of a shape that is hard to partition. Chunks stay small, counts are right, and memory
 * stays flat. Only the long form shows the memory: ROLLCALL_LARGE_ROWS=10000000, and ROLLCALL_ODD_ROWS=1000000 for
 * the odd shapes.
 */
const largeRows = Number(process.env['ROLLCALL_LARGE_ROWS'] ?? 20_000)
const oddRows = Number(process.env['ROLLCALL_ODD_ROWS'] ?? 8_000)
const timeout = 60_000 + largeRows + oddRows * 5

/** Four times the target of a chunk, by the constants in engine/stages/split/split.ts. */
const maxChunkBytes = (fileBytes: number): number =>
  4 * Math.min(1_500_000, Math.max(128_000, Math.ceil(fileBytes / 24)))

t.test('large and odd files are imported with flat memory', { timeout }, async (t) => {
  const service = await startService(t, ['control-plane'])
  // It starts like `npm run engine` and `npm start`, as its memory is measured.
  await service.start('engine', { ...programs.engine.environment, ENGINE_WORKERS: '2' })

  t.test(`an import of ${largeRows} rows has right counts`, { timeout }, async (t) => {
    const file = new SubscriberFile({ rows: largeRows, seed: 31 })
    const { view, peakMemoryMB, seconds } = await importFile(t, service, {
      bytes: file.bytes(),
      columns: [...columns],
      fields: [...customFields],
    })
    t.match(view, { state: 'finished', stats: { subscribers: file.expectedCounts() } })
    t.comment(`${Math.round(largeRows / seconds)} rows/s, ${Math.round(peakMemoryMB)} MB`)
    t.ok(peakMemoryMB < 480, `at most ${Math.round(peakMemoryMB)} MB`)
  })

  t.test('records of 100 kB and more are imported', { timeout }, async (t) => {
    const long = 'x'.repeat(60_000)
    const count = Math.max(80, Math.floor(oddRows / 100))
    const { view, peakMemoryMB } = await importFile(t, service, {
      bytes: (function* () {
        yield Buffer.from('email,a,b\n')
        for (let i = 0; i < count; i += 1) yield Buffer.from(`s${i}@example.com,${long},${long}\n`)
      })(),
      columns: ['email', 'a', 'b'],
      fields: [
        { name: 'a', field_type: 'text_multiline' },
        { name: 'b', field_type: 'text_multiline' },
      ],
    })
    t.match(view, { state: 'finished', stats: { subscribers: { added: count } } })
    t.comment(`${count} records of 120 kB: ${Math.round(peakMemoryMB)} MB`)
    t.ok(peakMemoryMB < 600, `at most ${Math.round(peakMemoryMB)} MB`)
  })

  // Long enough that a file of few rows has to be split, too.
  const domain = `${'subdomain.'.repeat(8)}example.com`
  const email = (i: number): string => `s${String(i).padStart(9, '0')}@${domain}\n`
  const shapes: Record<string, { line: (i: number) => string; counts: Partial<ImportCounts> }> = {
    'one address, again and again': {
      line: () => `one@${domain}\n`,
      counts: { added: 1, skipped_duplicate: oddRows - 1 },
    },
    'two addresses in turn': {
      line: (i) => (i % 2 === 0 ? `one@${domain}\n` : `TWO@${domain}\n`),
      counts: { added: 2, skipped_duplicate: oddRows - 2 },
    },
    sorted: { line: email, counts: { added: oddRows } },
    reversed: { line: (i) => email(oddRows - i), counts: { added: oddRows } },
    'without a valid row': { line: (i) => `nobody ${i} at ${domain}\n`, counts: { failed: oddRows } },
    'sorted at first, one address then': {
      line: (i) => (i < oddRows / 2 ? email(i) : `zz@${domain}\n`),
      counts: { added: Math.ceil(oddRows / 2) + 1, skipped_duplicate: Math.floor(oddRows / 2) - 1 },
    },
  }
  for (const [name, { line, counts }] of Object.entries(shapes)) {
    t.test(`an import of ${oddRows} odd rows has right counts: ${name}`, { timeout }, async (t) => {
      const { view, peakMemoryMB, seconds } = await importFile(t, service, {
        bytes: lines(line),
        columns: ['email'],
        fields: [],
      })
      t.match(view, { state: 'finished', stats: { subscribers: counts } })
      t.comment(`${name}: ${Math.round(oddRows / seconds)} rows/s, ${Math.round(peakMemoryMB)} MB`)
      t.ok(peakMemoryMB < 480, `at most ${Math.round(peakMemoryMB)} MB`)
    })
  }
})

function* lines(line: (i: number) => string): Generator<Buffer> {
  const atOnce = 10_000
  for (let first = 0; first < oddRows; first += atOnce) {
    const length = Math.min(atOnce, oddRows - first)
    yield Buffer.from(Array.from({ length }, (_, i) => line(first + i)).join(''))
  }
}

async function importFile(
  t: Test,
  service: Service,
  file: { bytes: Iterable<Buffer>; columns: string[]; fields: unknown[] },
): Promise<{ view: Json; peakMemoryMB: number; seconds: number }> {
  const list = await createList(service, file.fields)
  const content = Buffer.concat([...file.bytes])
  await storedUploads(service).put('file.csv', content)
  const memory = watchMemory(service.processes.engine!.ready.metrics['engine']!)
  const startedAt = performance.now()
  const { id } = await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: file.columns,
      file_format: { csv_has_headers: file.columns.length > 1 },
      file_source: { type: 'upload_directory', filename: 'file.csv' },
    },
  })
  await until(
    'chunks',
    () => service.get(`/subscriber_imports/${id}`),
    (view) => view.stats.number_of_records !== null,
    300_000,
  )
  await checkChunks(t, service, id, content.length)
  const view = await importEnd(service, id, timeout)
  const seconds = (performance.now() - startedAt) / 1000
  const peakMemoryMB = await memory.stop()
  t.equal(view.stats.records_imported, view.stats.number_of_records)
  t.equal(recordsIn(view.stats.subscribers), view.stats.number_of_records)
  return { view, peakMemoryMB, seconds }
}

/** No chunk is much larger than it should be, unless it is of one identity and read piece by piece. */
async function checkChunks(t: Test, service: Service, id: number, fileBytes: number): Promise<void> {
  const chunks = await service.collections.chunks.find({ import_id: id }).toArray()
  const bytesOf = (pieces: number[]): number =>
    pieces.reduce((sum, value, i) => (i % 2 === 1 ? sum + value : sum), 0)
  const large = chunks.filter(
    (chunk) => chunk.kind !== 'single_identity' && bytesOf(chunk.pieces) > maxChunkBytes(fileBytes),
  )
  t.same(
    large.map((chunk) => [chunk._id, chunk.kind, bytesOf(chunk.pieces)]),
    [],
    `${chunks.length} chunks, none too large`,
  )
}
