import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { storedUploads } from '../helpers/stored-uploads.ts'
import {
  basic,
  bootstrapKey,
  controlPlaneOrigin,
  countsOf,
  createList,
  importEnd,
  startService,
  type Json,
} from '../helpers/service.ts'

/**
 * Failed logs of files in other character sets, byte by byte: each must import again with the same settings, from a URL,
 * from an upload and inline. What files in each set come to, by every door, test/e2e/real-files.test.ts says.
 */
const service = await startService(t, ['control-plane', 'engine'])

const served = new Map<string, Buffer>()
const web = createServer((request, response) => {
  // A charset that is announced has no say.
  response.writeHead(200, { 'content-type': 'text/csv; charset=utf-8' }).end(served.get(request.url!))
})
await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve))
t.teardown(() => web.close())

let files = 0

function serve(bytes: Buffer): Json {
  const path = `/file-${(files += 1)}.csv`
  served.set(path, bytes)
  return { type: 'url', url: `http://127.0.0.1:${(web.address() as AddressInfo).port}${path}` }
}

async function upload(bytes: Buffer): Promise<Json> {
  const filename = `file-${(files += 1)}.csv`
  await storedUploads(service).put(filename, bytes)
  return { type: 'upload_directory', filename }
}

/** The text that a person would paste: inline content has no character set. */
const paste = (bytes: Buffer, charset: string): Json => ({
  type: 'json',
  content: new TextDecoder(charset, { ignoreBOM: true }).decode(bytes),
})

async function importFile(
  listId: number,
  file_source: Json,
  file_format: Json,
  column_mapping: (string | null)[] = ['email', 'Name'],
): Promise<Json> {
  const created = await service.post(`/mailing_lists/${listId}/subscriber_imports`, {
    subscriber_import: { column_mapping, file_format, file_source },
  })
  return importEnd(service, created.id)
}

async function failedLog({ id }: Json): Promise<{ bytes: Buffer; contentType: string | null }> {
  const url = `${controlPlaneOrigin(service)}/svc/api/v2/subscriber_imports/${id}/logs/failed`
  const response = await fetch(url, { headers: { authorization: basic(`api:${bootstrapKey}`) } })
  return {
    bytes: Buffer.from(await response.arrayBuffer()),
    contentType: response.headers.get('content-type'),
  }
}

async function nameOf(listId: number, email: string): Promise<unknown> {
  const [found] = await service.get(`/mailing_lists/${listId}/subscribers/${email}`)
  return found.custom_fields.Name.value
}

interface Row {
  set: string
  /** Begins the file. */
  mark?: number[]
  /** ASCII text as the set has it. */
  ascii?: (text: string) => Buffer
  name: number[]
  text: string
  invalid: number[]
  detected?: string
  /** The name in reasons. */
  reads: string
  /** How the log has the name, after its mark. */
  log: { charset: string; mark?: number[]; name: number[]; invalid: number[] }
}

const utf8Mark = [0xef, 0xbb, 0xbf]
const little = (text: string) => Buffer.from(text, 'utf16le')
const big = (text: string) => Buffer.from(text, 'utf16le').swap16()
/** A log in UTF-8 that Excel opens as such. */
const marked = (text: string) => ({
  charset: 'utf-8',
  ...{ mark: utf8Mark, name: [...Buffer.from(text)], invalid: [0xef, 0xbf, 0xbd] },
})
const inSet = (charset: string, name: number[]) => ({ charset, name, invalid: [0x3f] })

const rows: Row[] = [
  {
    ...{ set: 'windows-1252', name: [0x80, 0xe9], text: '€é', invalid: [0x81], reads: 'windows-1252' },
    log: inSet('windows-1252', [0x80, 0xe9]),
  },
  {
    ...{ set: 'Windows-1251', name: [0xdf, 0xed, 0xe0], text: 'Яна', invalid: [0x98], reads: 'windows-1251' },
    log: inSet('windows-1251', [0xdf, 0xed, 0xe0]),
  },
  {
    ...{ set: 'Shift_JIS', name: [0x95, 0x5c], text: '表', invalid: [0x81, 0x21], reads: 'Shift_JIS' },
    log: { ...marked('表'), invalid: [0xef, 0xbf, 0xbd, 0x21] },
  },
  {
    ...{ set: 'gbk', name: [0xd2, 0xbb, 0x80], text: '一€', invalid: [0xff], reads: 'GBK' },
    log: marked('一€'),
  },
  {
    ...{ set: 'utf-16', mark: [0xff, 0xfe], ascii: little, name: [0x3d, 0xd8, 0, 0xde], text: '😀' },
    ...{ invalid: [0x3d, 0xd8], reads: 'UTF-16', log: marked('😀') },
  },
  {
    ...{ set: 'auto', mark: [0xfe, 0xff], ascii: big, name: [0x01, 0x42], text: 'ł', detected: 'utf-16be' },
    ...{ invalid: [0xdc, 0], reads: 'UTF-16BE', log: marked('ł') },
  },
  {
    ...{ set: 'auto', name: [0xe9, 0x93], text: 'é“', detected: 'windows-1252', invalid: [0x8d] },
    ...{ reads: 'windows-1252', log: inSet('windows-1252', [0xe9, 0x93]) },
  },
]

/** The bytes of a log or a file: lines of ASCII, and names. */
const put = (parts: (string | number[])[], ascii = (text: string): Buffer => Buffer.from(text)): Buffer =>
  Buffer.concat(parts.map((part) => (typeof part === 'string' ? ascii(part) : Buffer.from(part))))

for (const row of rows)
  t.test(`${row.reads} as ${row.set} is imported, and logged so that it imports again`, async (t) => {
    const { mark = [], name, invalid, log } = row
    const bytes = put(
      [mark, 'Email,Name\nok@b.co,', name, '\nbad@b.co,', invalid, '\nbroken,', name, '\n'],
      row.ascii,
    )
    const { id: listId } = await createList(service, [{ name: 'Name', field_type: 'text' }])
    const file_format = { character_set: row.set }
    const view = await importFile(listId, serve(bytes), file_format)
    t.match(view, {
      state: 'finished',
      file_format: { character_set: row.set.toLowerCase() },
      detected_character_set: row.detected ?? null,
      detected_csv_field_separator: null,
    })
    const detected = row.detected === undefined ? [] : [/^from record 2 on /]
    t.equal(view.warnings.length, detected.length)
    t.match(view.warnings, detected)
    t.same(countsOf(view), { added: 1, failed: 2 })
    t.equal(await nameOf(listId, 'ok@b.co'), row.text)
    const { bytes: logged, contentType } = await failedLog(view)
    t.equal(contentType, `text/csv; charset=${log.charset}`)
    const lines = put([
      ...[log.mark ?? [], 'Email,Name,error\nbad@b.co,', log.invalid],
      ...[`,invalid ${row.reads} in the record at line 3\nbroken,`, log.name],
      `,email: 'broken' is not an email address\n`,
    ])
    t.equal(logged.toString('latin1'), lines.toString('latin1'))

    const corrected = Buffer.from(logged.toString('latin1').replace('broken,', 'mended@b.co,'), 'latin1')
    const sources = {
      'from a URL': serve(corrected),
      'from an upload': await upload(corrected),
      inline: paste(corrected, log.charset),
    }
    for (const [door, source] of Object.entries(sources)) {
      const { id } = await createList(service, [{ name: 'Name', field_type: 'text' }])
      const again = await importFile(id, source, file_format, ['email', 'Name', null])
      t.match(again, { state: 'finished' })
      t.equal(
        await nameOf(id, 'mended@b.co'),
        row.text,
        `the log imports again with the same settings ${door}`,
      )
    }
  })

t.test('a file that is not in the named character set is not downloaded again', async (t) => {
  const { id } = await createList(service)
  const view = await importFile(id, serve(little('\ufeffEmail\nok@b.co\n')), { character_set: 'utf-8' }, [
    'email',
  ])
  t.match(view, { state: 'failed', error_message: /"character_set": "UTF-16LE"/, download: { attempt: 1 } })
})
