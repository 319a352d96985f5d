import { createServer } from 'node:http'
import { Readable } from 'node:stream'
import { Client } from 'basic-ftp'
import type { Test } from 'tap'
import { commandLine } from './command-line.ts'
import { fileBytes, type Fixture } from '../fixtures/fixture.ts'
import { listeningPort } from './listening-port.ts'
import { basic, bootstrapKey, controlPlaneOrigin, type Json, type Service } from './service.ts'

/** The ways by which a file reaches an import. */
export interface Door {
  name: string
  takes: (fixture: Fixture) => boolean
  /** Brings the file there, under a name of its own, and says how an import names it. */
  bring: (fixture: Fixture, prefix: string) => Promise<Json>
}

export async function openDoors(t: Test, service: Service): Promise<Door[]> {
  return [inlineDoor, await ftpDoor(t, service), httpDoor(service), await urlDoor(t)]
}

/** Imports a file with the command line. Resolves to the import's id, or to what the command said without one. */
type ImportByCommand = (
  fixture: Fixture,
  options: { prefix: string; listId: number; mapping: (string | null)[] },
) => Promise<{ id: number } | { refusal: string }>

export async function importByCommand(t: Test, service: Service): Promise<ImportByCommand> {
  const { call, file } = await commandLine(t, service)
  return async (fixture, { prefix, listId, mapping }) => {
    const { settings = {} } = fixture
    const { csv_field_escape: escape, csv_skip_lines: skippedLines } = settings
    const options = {
      '--character-set': settings.character_set,
      '--separator': settings.csv_field_separator,
      '--enclosure': settings.csv_field_enclosure,
      '--escape': escape === null ? 'none' : escape,
      '--skip-lines': skippedLines?.toString(),
      '--date-format': settings.date_format,
      '--default-status': fixture.defaultStatus,
    }
    const { code, err, json } = await call([
      ...['import', await file(`${prefix}-${fixture.file}`, bytesOf(fixture)), '--json'],
      ...['--list', String(listId), '--map', mapping.map((name) => name ?? '-').join(',')],
      ...Object.entries(options).flatMap(([option, value]) => (value === undefined ? [] : [option, value])),
    ])
    const created = json.at(-1)
    if (code === 0 && created !== undefined) return { id: created.id }
    return { refusal: `${err} (exit code ${code})` }
  }
}

export const bytesOf = (fixture: Fixture): Buffer => fixture.bytes?.() ?? fileBytes(fixture.file)

const inlineDoor: Door = {
  name: 'inline',
  takes: ({ inline, headers }) => inline !== null && headers === undefined,
  bring: async (fixture) => ({ type: 'json', content: fixture.inline ?? textOf(fixture) }),
}

/** The text that a person would paste. */
function textOf(fixture: Fixture): string {
  const { expected } = fixture
  const characterSet = 'refusal' in expected ? 'utf-8' : expected.characterSet
  const bytes = bytesOf(fixture)
  if (characterSet === 'iso-8859-1') return bytes.toString('latin1')
  const hasMark = bytes.readUIntBE(0, 3) === 0xefbbbf
  const isBigEndian = characterSet === 'utf-16' && bytes[0] === 0xfe
  const label = hasMark ? 'utf-8' : isBigEndian ? 'utf-16be' : characterSet
  return new TextDecoder(label, { ignoreBOM: true, fatal: true }).decode(bytes)
}

async function ftpDoor(t: Test, service: Service): Promise<Door> {
  const url = new URL(service.processes.ftp!.ready.ftp!)
  const clients = await Promise.all(
    Array.from({ length: 4 }, async () => {
      const client = new Client(30_000)
      await client.access({
        host: url.hostname,
        port: Number(url.port),
        user: 'api',
        password: bootstrapKey,
      })
      return client
    }),
  )
  t.teardown(() => {
    for (const client of clients) client.close()
  })
  // A client does one transfer at a time.
  const idle = clients.map((client) => Promise.resolve(client))
  return {
    name: 'an upload by FTP',
    takes: ({ headers }) => headers === undefined,
    bring: async (fixture, prefix) => {
      const filename = `${prefix}-${fixture.file}`
      const turn = idle.shift()!
      const done = turn.then(async (client) => {
        await client.uploadFrom(Readable.from([bytesOf(fixture)]), filename)
        return client
      })
      idle.push(done)
      await done
      return { type: 'upload_directory', filename }
    },
  }
}

function httpDoor(service: Service): Door {
  return {
    name: 'an upload over HTTP',
    takes: ({ headers }) => headers === undefined,
    bring: async (fixture, prefix) => {
      const filename = `${prefix}-http-${fixture.file}`
      const target = `${controlPlaneOrigin(service)}/svc/api/v2/uploads/${encodeURIComponent(filename)}`
      const response = await fetch(target, {
        method: 'PUT',
        headers: { authorization: basic(`api:${bootstrapKey}`), 'content-type': 'text/csv' },
        body: new Uint8Array(bytesOf(fixture)),
      })
      const { success, error_message: message } = (await response.json()) as Json
      if (success !== true) throw new Error(`${filename}: ${message}`)
      return { type: 'upload_directory', filename }
    },
  }
}

/** A server whose `Content-Type` is wrong for most of the files; it has no say. */
async function urlDoor(t: Test): Promise<Door> {
  const files = new Map<string, Fixture>()
  const server = createServer((request, response) => {
    const fixture = files.get(request.url!.slice(1))!
    const bytes = bytesOf(fixture)
    response.writeHead(200, {
      'content-type': 'text/html; charset=iso-8859-5',
      'content-length': bytes.length,
      ...fixture.headers,
    })
    response.end(bytes)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const origin = `http://127.0.0.1:${listeningPort(server)}`
  return {
    name: 'a URL',
    takes: () => true,
    bring: async (fixture, prefix) => {
      const path = `${prefix}-${fixture.file}`
      files.set(path, fixture)
      return { type: 'url', url: `${origin}/${path}` }
    },
  }
}
