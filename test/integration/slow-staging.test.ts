import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { urlSource } from '../../engine/stages/obtain/url.ts'
import { AddressGuard } from '../../shared/net/address-guard.ts'
import type { ImportDocument } from '../../shared/contract/schemas/import.ts'
import { downloadBounds } from '../../shared/net/download-bounds.ts'
import { folderStaging } from '../helpers/folder-staging.ts'
import { noKeys } from '../helpers/no-keys.ts'
import { answer, head, startRawWebServer, type RawAnswer } from '../helpers/raw-web-server.ts'
import { minGrowth } from '../helpers/memory-growth.ts'
import { startFtpServer } from '../helpers/scripted-ftp-server.ts'

/** A staging that is slower than the network: nothing breaks off, nothing is lost, and what waits is little. */

const megabytes = 80
const piece = Buffer.alloc(1_000_000, 'a')
const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-staging-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))

/** Writes to disk, and rests now and then. */
async function downloadSlowly(url: string, restAfter = 2_000_000): Promise<number> {
  const disk = folderStaging(folder)
  let size = 0
  async function* slowly(content: AsyncIterable<Uint8Array>) {
    let restedAt = 0
    for await (const bytes of content) {
      size += bytes.length
      if (size - restedAt >= restAfter) {
        restedAt = size
        await sleep(20)
      }
      yield bytes
    }
    await sleep(20)
  }
  const document = {
    _id: 1,
    source: { type: 'url', filename: 'a.csv', url },
  } as ImportDocument
  await urlSource(document, {
    staging: { ...disk, write: (name, content) => disk.write(name, slowly(content)) },
    target: '1/source',
    // A URL needs none.
    uploads: undefined as never,
    secrets: noKeys,
    guard: new AddressGuard(['127.0.0.1']),
    bounds: downloadBounds,
    spool: undefined as never,
    remainingMs: 60_000,
    signal: new AbortController().signal,
    onProgress: () => undefined,
  })
  return size
}

const sending =
  (headers: Record<string, string | number>, chunked: boolean): RawAnswer =>
  (socket) => {
    socket.write(head(200, headers))
    let left = megabytes
    const write = () => {
      while (left > 0) {
        left -= 1
        if (chunked) socket.write('f4240\r\n')
        const hasSpace = socket.write(piece)
        if (chunked) socket.write('\r\n')
        if (!hasSpace) return void socket.once('drain', write)
      }
      socket.end(chunked ? '0\r\n\r\n' : '')
    }
    write()
  }

const length = { 'content-length': megabytes * piece.length }
const server = await startRawWebServer(t, {
  '/length': sending({ ...length, connection: 'close' }, false),
  '/length-unsaid': sending(length, false),
  '/chunked': sending({ 'transfer-encoding': 'chunked', connection: 'close' }, true),
  '/chunked-unsaid': sending({ 'transfer-encoding': 'chunked' }, true),
  '/small-unsaid': answer(200, { 'content-length': 300_000 }, piece.subarray(0, 300_000)),
  '/neither': sending({ connection: 'close' }, false),
})

async function checkMemory(t: Test, url: string): Promise<void> {
  const growth = await minGrowth(process.pid, 64, async () =>
    t.equal(await downloadSlowly(url), megabytes * piece.length),
  )
  t.ok(growth < 64, `memory grew by ${growth.toFixed(0)} MB`)
}

// The first one also loads and compiles what all of them need.
await downloadSlowly(`http://127.0.0.1:${server.port}/length`)

for (const name of ['length', 'length-unsaid', 'chunked', 'chunked-unsaid', 'neither'])
  t.test(`${megabytes} MB over http are staged with bounded memory: ${name}`, (t) =>
    checkMemory(t, `http://127.0.0.1:${server.port}/${name}`),
  )

t.test('a server that closes at once, without saying so, while the staging is behind', async (t) => {
  for (let i = 0; i < 5; i += 1)
    t.equal(await downloadSlowly(`http://127.0.0.1:${server.port}/small-unsaid`, 1), 300_000)
})

t.test(`${megabytes} MB over ftp are staged with bounded memory`, async (t) => {
  const ftp = await startFtpServer(t, { content: Buffer.alloc(megabytes * piece.length, 'a') })
  await checkMemory(t, `ftp://127.0.0.1:${ftp.port}/a.csv`)
})
