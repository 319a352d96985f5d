import { readdir } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { deflateRawSync, gzipSync, zstdCompressSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { startHastyEngine } from '../helpers/downloads.ts'
import { makeZip } from '../helpers/make-zip.ts'
import { minGrowth } from '../helpers/memory-growth.ts'
import { createList, importEnd, startService, until, type Json } from '../helpers/service.ts'
import { storedUploads } from '../helpers/stored-uploads.ts'

/** Files in containers, as uploads and behind a URL, come to the same as the plain file or end with a sentence. */

const service = await startService(t, ['control-plane'], { UPLOAD_MAX_MB: '250' })
const engine = await startHastyEngine(t, service, { bounds: { retryAfterMs: [50, 100] } })
const { post } = service
const uploads = storedUploads(service)

const files = new Map<string, Buffer>()
const requests = new Map<string, number>()
const web = createServer((request, response) => {
  const name = path.basename(request.url ?? '')
  requests.set(name, (requests.get(name) ?? 0) + 1)
  // No header has a say in what the bytes are.
  response.writeHead(200, { 'content-type': 'text/html; charset=utf-16' }).end(files.get(name))
})
await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve))
t.teardown(() => web.close())
const base = `http://127.0.0.1:${(web.address() as AddressInfo).port}`

type Door = 'upload' | 'url'

/** Offers the bytes under a name at a door. */
async function offer(door: Door, name: string, bytes: Buffer): Promise<Json> {
  if (door === 'url') {
    files.set(name, bytes)
    return { type: 'url', url: `${base}/${name}` }
  }
  await uploads.put(name, bytes)
  return { type: 'upload_directory', filename: name }
}

async function importFrom(file_source: Json): Promise<{ view: Json; list: Json }> {
  const list = await createList(service)
  const created = await post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: { column_mapping: ['email'], file_source },
  })
  return { view: await importEnd(service, created.id, 120_000), list }
}

const emails = Array.from({ length: 500 }, (_, i) => `person${i}@example.com`)
const table = Buffer.from(['Email', ...emails, 'no address', ''].join('\r\n'))
const zip = (content: Buffer | string): Buffer => makeZip([{ name: 'folder/list.csv', content }])
const half = table.indexOf('\n', table.length / 2) + 1

const containers: Record<string, Buffer> = {
  'plain.csv.gz': table,
  'one.zip': gzipSync(table),
  'members.csv': Buffer.concat([
    gzipSync(table.subarray(0, half)),
    gzipSync(table.subarray(half)),
    Buffer.alloc(99),
  ]),
  'one.csv': zstdCompressSync(table),
  'frames.zst': Buffer.concat([
    zstdCompressSync(table.subarray(0, half)),
    zstdCompressSync(table.subarray(half)),
  ]),
  'zip.csv': zip(table),
  'zip64.zip': makeZip([{ name: 'list.csv', content: table, zip64: true }], { tail: Buffer.alloc(50) }),
  'streamed.zip': makeZip([
    { name: 'list.csv', content: table, streamed: true },
    { name: '__MACOSX/._list.csv', content: 'x' },
    { name: 'Thumbs.db', content: 'x' },
  ]),
  'zip-in-gzip.csv.gz': gzipSync(zip(table)),
  'zip-in-zip.zip': zip(zip(table)),
  'gzip-in-zstd.zst': zstdCompressSync(gzipSync(table)),
}

t.test('each container comes to the same rows as the plain file, at each door', async (t) => {
  for (const door of ['upload', 'url'] as const) {
    for (const [name, bytes] of Object.entries(containers)) {
      const source = await offer(door, `${door}-${name}`, bytes)
      const { view, list } = await importFrom(source)
      t.match(
        view,
        {
          state: 'finished',
          stats: { number_of_records: 501, subscribers: { added: 500, failed: 1 } },
        },
        `${name} by ${door}`,
      )
      const stored = await service.collections.subscribers.find({ mailing_list_id: list.id }).toArray()
      t.same(stored.map(({ email }) => email).sort(), emails.toSorted())
      const inspection = await post(`/mailing_lists/${list.id}/subscriber_imports/inspect`, {
        subscriber_import: { file_source: source },
      })
      t.match(inspection, { column_mapping: ['email'], columns: [{ header: 'Email' }], import_error: null })
    }
  }
})

const page = Buffer.from('<!DOCTYPE html>\n<html><body>Please sign in</body></html>')
const refused: [name: string, bytes: Buffer, message: RegExp][] = [
  ['cut.gz', gzipSync(table).subarray(0, -9), /^"(url|upload)-cut.gz" is cut off: its gzip data has no end/],
  ['trailing.gz', Buffer.concat([gzipSync(table), Buffer.from('xxxx')]), /data after the end|no intact gzip/],
  ['checksum.zip', makeZip([{ name: 'a', content: table, checksum: 1 }]), /doesn't match its checksum/],
  ['encrypted.zip', makeZip([{ name: 'a', content: table, flags: 1 }]), /is encrypted/],
  ['method.zip', makeZip([{ name: 'a', content: table, method: 14 }]), /by the method 14 of zip/],
  ['parts.zip', makeZip([{ name: 'a', content: table }], { disk: 1 }), /several parts/],
  [
    'two.zip',
    makeZip([
      { name: 'a.csv', content: table },
      { name: 'b.csv', content: table },
    ]),
    /several files.*It has "a.csv", "b.csv"/,
  ],
  ['three.gz', gzipSync(gzipSync(gzipSync(table))), /packed more than 2 times/],
  [
    'workbook.csv',
    makeZip([
      { name: '[Content_Types].xml', content: '<x/>' },
      { name: 'xl/workbook.xml', content: '<x/>' },
    ]),
    /^the file is an Excel workbook.*save it as CSV UTF-8/,
  ],
  ['page.csv', page, /^the file is an HTML page.*save it as CSV UTF-8/],
  ['page.gz', gzipSync(page), /^the file is an HTML page/],
  ['report.zip', zip('%PDF-1.7\n'), /^the file is a PDF document.*save it as CSV UTF-8/],
]

t.test('a container that is refused fails its import at once, before a row is written', async (t) => {
  for (const door of ['upload', 'url'] as const) {
    for (const [name, bytes, message] of refused) {
      const source = await offer(door, `${door}-${name}`, bytes)
      const { view, list } = await importFrom(source)
      t.match(view, { state: 'failed', error_message: message, stats: { number_of_records: null } }, name)
      t.equal(await service.collections.subscribers.countDocuments({ mailing_list_id: list.id }), 0)
      if (door === 'url') t.equal(requests.get(`url-${name}`), 1, `${name} is asked for once`)
      const inspection = await service.call('POST', `/mailing_lists/${list.id}/subscriber_imports/inspect`, {
        subscriber_import: { file_source: source },
      })
      t.match(inspection.body, {
        error_code: 'validation_failed',
        error_message: new RegExp(message.source.replace('^', '')),
      })
    }
  }
})

t.test('what is no table is refused inline too', async (t) => {
  const source = { type: 'json', content: page.toString() }
  const { view, list } = await importFrom(source)
  t.match(view, {
    state: 'failed',
    error_message: /^the file is an HTML page/,
    stats: { number_of_records: null },
  })
  const inspection = await service.call('POST', `/mailing_lists/${list.id}/subscriber_imports/inspect`, {
    subscriber_import: { file_source: source },
  })
  t.match(inspection.body, { error_code: 'validation_failed', error_message: /is an HTML page/ })
})

/** Passes when the memory stays within a bound while the work runs. */
async function staysFlat(
  t: Test,
  what: string,
  maxGrowthMB: number,
  work: () => Promise<unknown>,
): Promise<void> {
  const growth = await minGrowth(engine.child.pid, maxGrowthMB, work)
  t.ok(growth < maxGrowthMB, `${what}: memory grew by ${growth.toFixed(0)} MB`)
}

const lines = Buffer.alloc(400_000_000, `${'x'.repeat(99)}\n`)
const packedLines = deflateRawSync(lines)
const zipOfLines = makeZip([{ name: 'a.csv', content: 'x', packed: packedLines, size: lines.length }])

t.test('bombs end early, at flat memory', async (t) => {
  const bombs: Record<string, Buffer> = {
    'bomb.zst': zstdCompressSync(lines),
    'bomb.gz.gz': gzipSync(gzipSync(lines)),
    'bomb.zip.gz': gzipSync(zipOfLines),
    'bomb.zip.zip': zip(zipOfLines),
  }
  // The engine's first work with such a file loads code.
  await importFrom(await offer('upload', 'first.zst', bombs['bomb.zst']!))
  await staysFlat(t, 'bombs as uploads', 64, async () => {
    for (const [name, bytes] of Object.entries(bombs)) {
      const { view } = await importFrom(await offer('upload', name, bytes))
      t.match(view, { state: 'failed', error_message: /unpacks to more than 1000 times its size/ }, name)
    }
  })
  Object.assign(bombs, { 'bomb.gz': gzipSync(lines), 'bomb.zip': zipOfLines })
  await staysFlat(t, 'bombs behind URLs', 64, async () => {
    for (const [name, bytes] of Object.entries(bombs)) {
      const { view } = await importFrom(await offer('url', name, bytes))
      t.match(view, { state: 'failed', error_message: /has more than 200 MB/ }, name)
    }
  })
})

t.test('what is unpacked counts to the quota of the organization', async (t) => {
  const { view } = await importFrom(await offer('upload', 'quota.zip', zipOfLines))
  t.match(view, { state: 'failed', error_message: /does not fit into the organization's quota of 250 MB/ })
})

t.test('a zip of 200 MB is imported at flat memory', async (t) => {
  const content = Buffer.alloc(199_000_000, `${' '.repeat(999)}\n`)
  table.copy(content)
  const bytes = zip(content)
  for (const door of ['upload', 'url'] as const)
    await staysFlat(t, `a zip of 199 MB by ${door}`, 96, async () => {
      const { view } = await importFrom(await offer(door, 'large.zip', bytes))
      t.match(view, { state: 'finished', stats: { subscribers: { added: 500 } } })
    })
})

t.test('nothing staged is left', async (t) => {
  const staging = path.join(service.dataFolder, 'staging')
  await until(
    'an empty staging folder',
    // The engine may remove a folder that is being read.
    () => readdir(staging, { recursive: true }).catch(String),
    (names) => Array.isArray(names) && !names.some((name) => name.includes('/')),
  )
  t.pass('it is empty')
})
