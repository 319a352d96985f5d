import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import t from 'tap'
import { makeZip } from '../helpers/make-zip.ts'
import { countsOf, createList, importEnd, startService, type Json } from '../helpers/service.ts'
import { storedUploads } from '../helpers/stored-uploads.ts'

/**
 * What an inspection says is what an import does: each file is inspected, its reply is sent to a creation as it stands,
 * and both are compared. So are an inspection and an import that are asked for `auto`.
 */
const service = await startService(t, ['control-plane', 'engine'])
const list = await createList(service, [
  { name: 'First name', field_type: 'text' },
  { name: 'Birthday', field_type: 'date' },
])

const served = new Map<string, Buffer>()
const web = createServer((request, response) => response.end(served.get(request.url ?? '')))
await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve))
t.teardown(() => web.close())
const webUrl = `http://127.0.0.1:${(web.address() as AddressInfo).port}`

const latin1 = (text: string) => Buffer.from(text, 'latin1')
const utf16 = (text: string) => Buffer.from(text, 'utf16le')
const bytes = (...parts: (string | number[])[]) =>
  Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : Buffer.from(part))))

interface AwkwardFile {
  content: string | Buffer
  /** `file_format` of the inspection; all is detected where it is left out. */
  format?: Record<string, unknown>
  /** What the inspection must say. */
  says: Record<string, unknown>
  /** The results of its records, in their order. */
  results?: string[]
}

const table = ['E-Mail;Vorname', 'jorg@example.com;Jörg', 'ann@example.com;Änn', ''].join('\r\n')
const added = ['added', 'added']

/** Files that can be imported as they are inspected. */
const goodFiles: Record<string, AwkwardFile> = {
  'UTF-8 with a mark': {
    content: `\ufeff${table}`,
    says: { character_set: 'utf-8', csv_field_separator: ';', column_mapping: ['email', 'First name'] },
    results: added,
  },
  'windows-1252, as Excel saves it': {
    content: bytes('E-Mail;Vorname\r\nann@example.com;', [0x80, 0xc4], 'nn\r\n'),
    says: { character_set: 'windows-1252', columns: [Object, { samples: ['€Änn'] }], warnings: [] },
    results: ['added'],
  },
  'UTF-16LE with tabs, as Excel saves Unicode text': {
    content: Buffer.concat([Buffer.from([0xff, 0xfe]), utf16(table.replaceAll(';', '\t'))]),
    says: { character_set: 'utf-16le', csv_field_separator: '\t', csv_has_headers: true },
    results: added,
  },
  'UTF-16BE': {
    content: Buffer.concat([Buffer.from([0xfe, 0xff]), utf16(table).swap16()]),
    says: { character_set: 'utf-16be', csv_field_separator: ';' },
    results: added,
  },
  'a line that names the separator': {
    content: `sep=;\r\n${table}`,
    says: { csv_field_separator: ';', csv_has_headers: true, columns: [{ header: 'E-Mail' }, Object] },
    results: added,
  },
  'a line that names another separator than the request': {
    content: `sep=,\r\n${table}`,
    format: { csv_field_separator: ';' },
    says: { csv_field_separator: ';', column_mapping: ['email', 'First name'] },
    results: added,
  },
  bars: {
    content: table.replaceAll(';', '|'),
    says: { csv_field_separator: '|', column_mapping: ['email', 'First name'], import_error: null },
    results: added,
  },
  'no header': {
    content: 'Ann;ann@example.com\nBob;bob@example.com\nNo one;\n',
    says: { csv_has_headers: false, column_mapping: [null, 'email'] },
    results: ['added', 'added', 'failed'],
  },
  'one damaged cell in UTF-8': {
    content: Buffer.concat([
      Buffer.from(table + 'åse@example.com;Åse\nørn@example.com;Ørn\n'.repeat(6)),
      latin1('eve@example.com;Zoë\n'),
    ]),
    format: { csv_has_headers: true },
    says: { character_set: 'utf-8' },
  },
  'cells with line ends, separators and stray enclosures': {
    content:
      'email,"First name"\r\nann@example.com,"Ann\r\nof, ""there"""\nbob@example.com,12" disc\rjoe@example.com,"x"y\n"open@example.com,x\n',
    says: { csv_field_separator: ',', csv_field_enclosure: '"', column_mapping: ['email', 'First name'] },
    results: ['added', 'added', 'added', 'failed'],
  },
  'single quotes': {
    content: "'email';'First name'\n'ann@example.com';'O''Hara; jr.'\n",
    says: { csv_field_separator: ';', csv_field_enclosure: "'" },
    results: ['added'],
  },
  'days first, addresses with more than the address': {
    content:
      'Contact,Birthday,First_Name\nann@example.com,31/12/1990,Ann\nmailto:bob@example.com,01/02/1990,Bob\nEve <eve@example.com>,02/03/1990,Eve\nANN@example.com,,\n',
    says: {
      date_format: 'dmy',
      column_mapping: ['email', 'Birthday', 'First name'],
      records: [
        { result: 'added' },
        { result: 'failed' },
        { result: 'failed' },
        { result: 'skipped_duplicate' },
      ],
    },
  },
  'Shift_JIS, which is asked for': {
    // メール,名前 and 山田
    content: bytes(
      ...[[0x83, 0x81, 0x81, 0x5b, 0x83, 0x8b], ',', [0x96, 0xbc, 0x91, 0x4f], '\n'],
      ...['taro@example.com,', [0x8e, 0x52, 0x93, 0x63], '\n'],
    ),
    format: { character_set: 'Shift_JIS' },
    says: {
      character_set: 'shift_jis',
      column_mapping: ['email', 'First name'],
      columns: [{ header: 'メール' }, { header: '名前', samples: ['山田'] }],
    },
    results: ['added'],
  },
  'UTF-8 with a mark where Shift_JIS is asked for': {
    content: `\ufeffemail,First name\nann@example.com,名前\n`,
    format: { character_set: 'Shift_JIS' },
    says: { columns: [Object, { samples: ['名前'] }] },
    results: ['added'],
  },
  'bytes of windows-1252 where ISO-8859-1 is asked for': {
    content: bytes('email,First name\nann@example.com,', [0x80], '5\n'),
    format: { character_set: 'ISO-8859-1' },
    says: { character_set: 'iso-8859-1', warnings: [/windows-1252/] },
    results: ['added'],
  },
  'a first record where a header is asked for': {
    content: 'ann@example.com,Ann\nbob@example.com,Bob\n',
    format: { csv_has_headers: true },
    says: { csv_has_headers: true, column_mapping: ['email', null] },
    results: ['added'],
  },
  'a header where none is asked for, and a long cell': {
    content: `email,First name\nann@example.com,"${'\n'.repeat(25)}"\n`,
    format: { csv_has_headers: false },
    says: { csv_has_headers: false, column_mapping: ['email', null] },
    results: ['failed', 'added'],
  },
}

type Door = 'json' | 'upload_directory' | 'url'
const doors: Door[] = ['json', 'upload_directory', 'url']
let files = 0

/** The file as a source; null for inline content that is no text. */
async function sourceFor(door: Door, content: string | Buffer): Promise<Json> {
  if (door === 'json') return typeof content === 'string' ? { type: 'json', content } : null
  files += 1
  const filename = `awkward-${files}.csv`
  if (door === 'upload_directory') {
    await storedUploads(service, list.organization_id).put(filename, content)
  } else served.set(`/${filename}`, Buffer.from(content))
  return { type: door, ...(door === 'url' ? { url: `${webUrl}/${filename}` } : { filename }) }
}

const post = (end: string, subscriber_import: Json) =>
  service.call('POST', `/mailing_lists/${list.id}/subscriber_imports${end}`, { subscriber_import })

/** Makes a dry run and returns its end. */
async function importOf(subscriber_import: Json): Promise<Json> {
  const { status, body } = await post('', { ...subscriber_import, dry_run: true })
  if (status !== 200 && status !== 201) throw new Error(JSON.stringify(body))
  return importEnd(service, body.data.id)
}

/** Each way in which the import differs from what its inspection said. */
async function differences(inspection: Json, view: Json): Promise<Json[]> {
  const { records, warnings, import_error } = inspection
  const found: Json[] = []
  const compare = (what: string, said: Json, came: Json) => {
    if (JSON.stringify(said) !== JSON.stringify(came)) found.push({ what, said, came })
  }
  compare('error', import_error, view.error_message)
  compare('state', import_error === null ? 'finished' : 'failed', view.state)
  const unsaid = view.warnings.filter((warning: string) => !warnings.includes(warning))
  compare('warnings', [], unsaid)
  if (import_error !== null) return found
  const counts: Record<string, number> = {}
  for (const { result } of records) counts[result] = (counts[result] ?? 0) + 1
  compare('counts', Object.entries(counts).sort(), Object.entries(countsOf(view)).sort())
  const log = await service.call('GET', `/subscriber_imports/${view.id}/logs/failed`)
  for (const { error } of records)
    if (error !== null && !log.text.replaceAll('""', '"').includes(error)) compare('reason', error, log.text)
  return found
}

/** Inspects and imports the file by each door, all at once. */
async function byEachDoor(
  content: string | Buffer,
  test: (file_source: Json, door: Door) => Promise<unknown>,
): Promise<void> {
  await Promise.all(
    doors.map(async (door) => {
      const file_source = await sourceFor(door, content)
      if (file_source !== null) await test(file_source, door)
    }),
  )
}

for (const [name, { content, format = {}, says, results }] of Object.entries(goodFiles)) {
  t.test(`inspected and imported: ${name}`, (t) =>
    byEachDoor(content, async (file_source, door) => {
      const { body } = await post('/inspect', { file_source, file_format: format })
      t.equal(body.success, true, body.error_message)
      t.match(body.data, door === 'json' ? { ...says, character_set: String } : says, door)
      if (results !== undefined)
        t.same(
          body.data.records.map(({ result }: Json) => result),
          results,
          door,
        )
      const { column_mapping } = body.data
      // The reply has more keys than a format, which a creation ignores.
      const view = await importOf({ file_source, column_mapping, file_format: body.data })
      t.same(await differences(body.data, view), [], door)
      const { character_set, csv_field_separator, csv_field_enclosure, csv_has_headers } = body.data
      t.match(view.file_format, { character_set, csv_field_separator, csv_field_enclosure, csv_has_headers })
    }),
  )
}

const auto = { character_set: 'auto', csv_field_separator: 'auto' }

for (const [name, { content }] of Object.entries(goodFiles)) {
  t.test(`inspected and imported with auto: ${name}`, (t) =>
    byEachDoor(content, async (file_source, door) => {
      const { body } = await post('/inspect', { file_source, file_format: auto })
      t.equal(body.success, true, body.error_message)
      const { column_mapping, csv_has_headers, csv_field_enclosure, date_format } = body.data
      const view = await importOf({
        file_source,
        column_mapping,
        file_format: { ...auto, csv_has_headers, csv_field_enclosure, date_format },
      })
      t.same(await differences(body.data, view), [], door)
      t.equal(view.detected_character_set, body.data.character_set, door)
      t.equal(view.detected_csv_field_separator, body.data.csv_field_separator, door)
      t.match(view.file_format, auto, 'what was asked for stays')
    }),
  )
}

t.test('packed files are inspected as they are imported', async (t) => {
  const packed: Record<string, Buffer> = {
    gzip: gzipSync(table),
    zstd: zstdCompressSync(latin1(table)),
    'gzip in gzip': gzipSync(gzipSync(table)),
    'zip with a folder': makeZip([
      { name: 'list/', content: '' },
      { name: 'list/subscribers.csv', content: table },
      { name: '__MACOSX/list/._subscribers.csv', content: 'x' },
    ]),
  }
  for (const [name, content] of Object.entries(packed))
    await byEachDoor(content, async (file_source, door) => {
      const { body } = await post('/inspect', { file_source })
      t.match(
        body.data,
        {
          character_set: name === 'zstd' ? 'windows-1252' : 'utf-8',
          column_mapping: ['email', 'First name'],
          records: [{ values: { 'First name': 'Jörg' } }, Object],
        },
        `${name}, ${door}`,
      )
      const { column_mapping } = body.data
      const view = await importOf({ file_source, column_mapping, file_format: body.data })
      t.same(await differences(body.data, view), [], `${name}, ${door}`)
    })
})

/** Faults that a changed setting mends: the inspection shows what the import would say. */
const mendable: Record<string, AwkwardFile & { error: RegExp }> = {
  'UTF-16 without a mark': {
    content: utf16(`${table}${table}`.repeat(10)),
    format: { character_set: 'UTF-8' },
    says: { records: [] },
    error: /UTF-16LE/,
  },
  'a mark of UTF-16 under another set': {
    content: Buffer.concat([Buffer.from([0xff, 0xfe]), utf16(table)]),
    format: { character_set: 'windows-1252' },
    says: { records: [] },
    error: /UTF-16LE/,
  },
  'no mark where UTF-16 is asked for': {
    content: utf16(table),
    format: { character_set: 'UTF-16' },
    says: { records: [] },
    error: /UTF-16LE/,
  },
  'mostly invalid UTF-8': {
    content: latin1('email,First name\nann@example.com,Änn\nbob@example.com,Böb\n'),
    format: { character_set: 'UTF-8' },
    says: { records: [] },
    error: /windows-1252/,
  },
}

for (const [name, { content, format = {}, says, error }] of Object.entries(mendable)) {
  t.test(`shown, because a changed setting mends it: ${name}`, (t) =>
    byEachDoor(content, async (file_source, door) => {
      const request = { file_source, column_mapping: ['email'], file_format: format }
      const { body } = await post('/inspect', request)
      t.match(body.data, { ...says, import_error: error }, door)
      t.same(await differences(body.data, await importOf(request)), [], door)
    }),
  )
}

/** Files that no setting makes a table. */
const noTables: Record<string, [content: string | Buffer, sentence: RegExp]> = {
  'a PDF file': ['%PDF-1.7\n1 0 obj\n<<>>\nendobj\n', /PDF/],
  'an HTML page': ['<!DOCTYPE html>\n<html><body>email</body></html>\n', /HTML/],
  JSON: ['{"subscribers": [{"email": "ann@example.com"}]}\n', /JSON/],
  'an image': [bytes([0x89], 'PNG\r\n', [0x1a, 0x0a, 0, 0, 0, 13], 'IHDR', Array(20).fill(1)), /image/i],
  'a packed PDF file': [gzipSync('%PDF-1.7\n1 0 obj\n<<>>\nendobj\n'), /PDF/],
  'UTF-32': [
    Buffer.from(Uint32Array.from('\ufeffemail\na@b.co\n', (character) => character.charCodeAt(0)).buffer),
    /save it as UTF-8/i,
  ],
}

for (const [name, [content, sentence]] of Object.entries(noTables)) {
  t.test(`refused with the sentence of the import: ${name}`, (t) =>
    byEachDoor(content, async (file_source, door) => {
      const { body } = await post('/inspect', { file_source })
      t.match(body, { error_code: 'validation_failed', error_message: sentence }, door)
      const view = await importOf({ file_source, column_mapping: ['email'], file_format: auto })
      t.match(view, { state: 'failed', stats: { number_of_records: null } }, door)
      t.ok(body.error_message.includes(view.error_message), door)
    }),
  )
}
