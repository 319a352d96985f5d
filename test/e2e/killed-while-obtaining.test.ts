import { readdir } from 'node:fs/promises'
import { createServer } from 'node:http'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { Engines } from '../helpers/engines.ts'
import { listeningPort } from '../helpers/listening-port.ts'
import { makeZip } from '../helpers/make-zip.ts'
import {
  basic,
  bootstrapKey,
  controlPlaneOrigin,
  countsOf,
  createList,
  importEnd,
  startService,
  until,
  type Json,
  type Service,
} from '../helpers/service.ts'

/**
 * Engines are killed while they bring a source into the staging: while they convert it to UTF-8, while they store a zip
 * and unpack it, and just before and after the import knows its staged source. The last engine brings the import to its
 * end, and nothing of the killed ones stays. Every second case runs on disk and the others in the database, or with
 * ROLLCALL_STAGINGS=both all of them in both.
 */

/**
 * A moment, as crash-at.ts describes it, and the staged files that the engine leaves by dying then. Those without bytes
 * are there on disk alone.
 */
interface Kill {
  at: string
  leaves: string[]
  empty?: string[]
}

/** The quota is reserved by 4 MiB. All files below are larger than one of these portions, and smaller than two. */
const portion = 'update ledgers "$inc":{"imports.$.source"'
const storesSource = 'update imports "staged":'

const converting: Kill = { at: `${portion} before 2`, leaves: ['source'] }
const spooling: Kill = { at: `${portion} before 2`, leaves: ['source-zip0'], empty: ['source'] }
const spoolingSecond: Kill = {
  at: `${portion} before 4`,
  leaves: ['source-zip0', 'source-zip1'],
  empty: ['source'],
}
const unpacking: Kill = { at: `${portion} before 4`, leaves: ['source', 'source-zip0'] }
const staged: Kill = { at: `${storesSource} before 1`, leaves: ['source'] }
const obtained: Kill = { at: `${storesSource} after 1`, leaves: ['source'] }

interface Table {
  file_format: Json
  bytes: Buffer
  detected: { detected_character_set: string | null; detected_csv_field_separator: string }
  warnings: RegExp[]
  /** The reason of the record with bytes that aren't in the set. */
  reason: string
  failedLog: string
}

const rows = 620
const [invalidRow, brokenRow] = [300, 500]
const email = (row: number): string => `user${String(row).padStart(3, '0')}@example.com`
const addedRows = Array.from({ length: rows }, (_, row) => row).filter(
  (row) => row !== invalidRow && row !== brokenRow,
)

/** 6.5 MB as UTF-8, and 4.4 MB in the other sets. Its lines are in two parts, with `invalid` between them. */
function tableBytes(separator: string, encode: (text: string) => Buffer, invalid: number[]): Buffer {
  const padding = 'ひらがな'.repeat(875)
  const line = (row: number) =>
    row === brokenRow
      ? `broken${separator}表${separator}x\n`
      : `${email(row)}${separator}表${row}${separator}${padding}\n`
  const lines = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, i) => line(from + i)).join('')
  return Buffer.concat([
    encode(`Email${separator}Name${separator}Padding\n`),
    encode(`${lines(0, invalidRow)}bad@b.co${separator}`),
    Buffer.from(invalid),
    encode(`${separator}x\n${lines(invalidRow + 1, rows)}`),
  ])
}

/** Hiragana has the bytes 82 9F to 82 F1. The second byte of 表 is a backslash. */
const shiftJis = (text: string): Buffer =>
  Buffer.from(
    text
      .replace(/[ぁ-ん]/g, (sign) => String.fromCharCode(0x82, 0x9f + sign.charCodeAt(0) - 0x3041))
      .replaceAll('表', '\x95\x5c'),
    'latin1',
  )
const utf16 = (text: string): Buffer => Buffer.from(text, 'utf16le')

const inUtf16: Table = {
  file_format: { character_set: 'auto', csv_field_separator: 'auto' },
  // Half a surrogate pair.
  bytes: Buffer.concat([utf16('\ufeff'), tableBytes('\t', utf16, [0x3d, 0xd8])]),
  detected: { detected_character_set: 'utf-16le', detected_csv_field_separator: '\t' },
  warnings: [/^from record 301 on /],
  reason: 'invalid UTF-16LE',
  failedLog: [
    '\ufeffEmail\tName\tPadding\terror',
    'bad@b.co\t\ufffd\tx\tinvalid UTF-16LE in the record at line 302',
    "broken\t表\tx\temail: 'broken' is not an email address\n",
  ].join('\n'),
}

const inShiftJis: Table = {
  file_format: { character_set: 'Shift_JIS' },
  // A lead byte, and an ASCII byte that doesn't fit it.
  bytes: Buffer.concat([shiftJis('sep=;\n'), tableBytes(';', shiftJis, [0x81, 0x21])]),
  detected: { detected_character_set: null, detected_csv_field_separator: ';' },
  warnings: [],
  reason: 'invalid Shift_JIS',
  failedLog: [
    '\ufeffsep=;\nEmail;Name;Padding;error',
    'bad@b.co;\ufffd!;x;invalid Shift_JIS in the record at line 303',
    "broken;表;x;email: 'broken' is not an email address\n",
  ].join('\n'),
}

/** Without compression a zip is as large as its file. */
const zipped = (content: Buffer): Buffer => makeZip([{ name: 'table.csv', content, method: 0 }])
const zippedInGzip = (content: Buffer): Buffer => gzipSync(zipped(content), { level: 1 })
const damaged = (content: Buffer): Buffer => makeZip([{ name: 'table.csv', content, checksum: 1 }])
const asIs = (bytes: Buffer): Buffer => bytes

interface Case {
  title: string
  door: 'upload' | 'url'
  table: Table
  pack?: (bytes: Buffer) => Buffer
  kills: Kill[]
  /** How the import ends, where it doesn't finish. */
  end?: 'failed' | 'cancelled'
}

const cases: Case[] = [
  { title: 'a UTF-16 upload', door: 'upload', table: inUtf16, kills: [converting, staged, obtained] },
  { title: 'Shift_JIS from a URL', door: 'url', table: inShiftJis, kills: [converting, obtained] },
  {
    ...{ title: 'a zip from a URL', door: 'url', table: inUtf16, pack: zipped },
    kills: [spooling, unpacking],
  },
  {
    ...{ title: 'an uploaded gzip with a zip in it', door: 'upload', table: inUtf16 },
    ...{ pack: zippedInGzip, kills: [spooling] },
  },
  {
    ...{ title: 'a zip in a zip from a URL', door: 'url', table: inShiftJis },
    ...{ pack: (bytes) => zipped(zipped(bytes)), kills: [spoolingSecond] },
  },
  {
    ...{ title: 'a damaged zip, which is unpacked where it was uploaded', door: 'upload', table: inShiftJis },
    ...{ pack: damaged, kills: [converting], end: 'failed' },
  },
  {
    ...{ title: 'an import that is cancelled without an engine', door: 'upload', table: inUtf16 },
    ...{ pack: zippedInGzip, kills: [unpacking], end: 'cancelled' },
  },
]

const inBoth = process.env['ROLLCALL_STAGINGS'] === 'both'
for (const [number, STAGING] of ['disk', 'gridfs'].entries())
  t.test(`engines are killed while they obtain a source: ${STAGING}`, { timeout: 300_000 }, async (t) => {
    // Enough for two zips, or one of them and the table, but not for both zips and the table.
    const service = await startService(t, ['control-plane'], { STAGING, UPLOAD_MAX_MB: '14' })
    const engines = new Engines(t, service)
    const sources = await openSources(t, service)
    for (const { title, door, table, pack = asIs, kills, end = 'finished' } of cases.filter(
      (_, i) => inBoth || i % 2 === number,
    ))
      await t.test(title, async (t) => {
        const list = await createList(service, [{ name: 'Name', field_type: 'text' }])
        const { id } = await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
          subscriber_import: {
            ...{ column_mapping: ['email', 'Name', null], file_format: table.file_format },
            file_source: await sources.bring(door, pack(table.bytes)),
          },
        })
        let before: string[] = []
        for (const { at, leaves, empty = [] } of kills) {
          const engine = await engines.start(at)
          await engines.untilEnded(engine)
          await engines.endLeaseOf(engine)
          const now = await stagedFiles(service)
          const left = now.filter((name) => !before.includes(name)).map(withoutTokens)
          const withEmpty = STAGING === 'disk' ? [...empty, ...leaves] : leaves
          t.same(left.sort(), withEmpty, `killed: ${at}`)
          before = now
        }
        // An upload is pinned, and a URL isn't asked again once the import knows its staged source.
        if (door === 'upload' || kills.at(-1) === obtained) await sources.remove()
        if (end === 'cancelled') await service.post(`/subscriber_imports/${id}/cancel`)
        const last = await engines.start()
        const view = await importEnd(service, id, 60_000)
        t.equal(view.state, end, view.error_message)
        if (end === 'finished') await checkImported(t, service, view, table)
        else await checkEmpty(t, service, view, end)
        await until(
          'the end of all work',
          () => service.collections.imports.countDocuments({ finalized: false }),
          (count) => count === 0,
        )
        t.same(await leftovers(service), nothing)
        await engines.kill([last])
      })
  })

async function checkImported(t: Test, service: Service, view: Json, table: Table): Promise<void> {
  const { id, mailing_list_id: listId } = view
  t.match(view, { ...table.detected, error_message: null })
  // A killed engine is no failed try.
  if (view.file_source.type === 'url') t.match(view.download, { attempt: 1, next_attempt_at: null })
  t.match(view.warnings, table.warnings)
  t.equal(view.warnings.length, table.warnings.length)
  t.equal(view.stats.number_of_records, rows)
  t.same(countsOf(view), { added: rows - 2, failed: 2 })
  t.same(view.failure_summary, [
    {
      ...{ column: null, header: null, field: null, reason: table.reason },
      ...{ rows: 1, first_record: invalidRow + 1, example: null },
    },
    {
      ...{ column: 1, header: 'Email', field: 'email', reason: 'not an email address' },
      ...{ rows: 1, first_record: brokenRow + 1, example: 'broken' },
    },
  ])
  const found = await service.collections.subscribers
    .find({ mailing_list_id: listId })
    .sort({ _id: 1 })
    .toArray()
  t.same(
    found.map(({ email, status, custom_fields: fields }) => [email, status, ...Object.values(fields)]),
    addedRows.map((row) => [email(row), 'active', `表${row}`]),
  )
  const log = async (kind: string) =>
    (await service.call('GET', `/subscriber_imports/${id}/logs/${kind}`)).text
  t.equal(await log('added'), addedRows.map((row) => `${email(row)}\n`).join(''))
  t.equal(await log('failed'), table.failedLog.slice(1))
}

async function checkEmpty(t: Test, service: Service, view: Json, end: string): Promise<void> {
  t.match(view, {
    stats: { number_of_records: null, records_imported: 0 },
    failure_summary: [],
    warnings: [],
  })
  if (end === 'failed') t.match(view.error_message, /checksum/)
  t.equal(await service.collections.subscribers.countDocuments({ mailing_list_id: view.mailing_list_id }), 0)
}

/** Brings files to the upload directory, or behind a URL. There is one at a time. */
async function openSources(t: Test, service: Service) {
  let served: Buffer | null = null
  const web = createServer((_request, response) => {
    response.writeHead(served === null ? 404 : 200).end(served)
  })
  await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve))
  t.teardown(() => web.close())
  const uploadUrl = `${controlPlaneOrigin(service)}/svc/api/v2/uploads/file.csv`
  const send = async (method: string, body?: Uint8Array<ArrayBuffer>) => {
    const headers = { authorization: basic(`api:${bootstrapKey}`) }
    const response = await fetch(uploadUrl, { method, headers, ...(body === undefined ? {} : { body }) })
    if (!response.ok) throw new Error(`${method} ${uploadUrl}: ${await response.text()}`)
  }
  let isUploaded = false
  return {
    async bring(door: Case['door'], bytes: Buffer): Promise<Json> {
      isUploaded = door === 'upload'
      if (isUploaded) await send('PUT', new Uint8Array(bytes))
      else served = bytes
      return isUploaded
        ? { type: 'upload_directory', filename: 'file.csv' }
        : { type: 'url', url: `http://127.0.0.1:${listeningPort(web)}/file.csv` }
    },
    async remove(): Promise<void> {
      if (isUploaded) await send('DELETE')
      else served = null
    },
  }
}

async function stagedFiles({ settings, dataFolder, collections }: Service): Promise<string[]> {
  if (settings['STAGING'] === 'gridfs')
    return (await collections.blobPieces.distinct('blob', { blob: /^staging/ })).map((blob) =>
      path.basename(blob),
    )
  const folder = path.join(dataFolder, 'staging')
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name)
}

const withoutTokens = (name: string): string =>
  name.replace(/^source-[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}/, 'source')

const nothing = {
  ...{ staged: [], pieces: 0, uploads: 0 },
  usage: { imports: [], bytes: 0, files: 0, keptBeyondLogs: 0 },
}

/** What is in the staging, the upload directory and the quota. */
async function leftovers(service: Service): Promise<typeof nothing> {
  const { imports: all, blobPieces, uploads, ledgers } = service.collections
  const usage = (await ledgers.findOne({ _id: 1 }))!
  const ended = await all.find({}, { projection: { 'totals.kept_bytes': 1 } }).toArray()
  const keptBytes = ended.reduce((sum, { totals }) => sum + (totals?.kept_bytes ?? 0), 0)
  const { imports, bytes, files, kept } = usage
  return {
    staged: (await stagedFiles(service)) as [],
    pieces: await blobPieces.countDocuments({ blob: /^staging/ }),
    uploads: await uploads.countDocuments(),
    usage: {
      ...{ imports: imports as [], bytes, files },
      keptBeyondLogs: kept - keptBytes,
    },
  }
}
