import { readdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import t from 'tap'
import { StagedContent } from '../../../control-plane/api/body/staged-content.ts'
import { diskStaging } from '../../../shared/storage/staging/disk-staging.ts'
import { stagedContent } from '../../../shared/storage/staging/packed-content.ts'
import type { Staging } from '../../../shared/storage/staging/staging.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'
import { until } from '../../helpers/service.ts'
import { readContent } from '../../helpers/staged-content.ts'

const { database, folder } = await databaseAndFolder(t)
const disk = diskStaging(folder)
const piece = Buffer.alloc(64 * 1024, 'x')
const isEmpty = (names: string[]) => names.length === 0

t.test('a staging that is slow makes the client wait, and loses nothing', async (t) => {
  const gate = Promise.withResolvers<undefined>()
  const slow: Staging = {
    ...disk,
    write: (name, content) => disk.write(name, behind(gate.promise, content)),
  }
  const staged = new StagedContent(slow, database)
  staged.begin()
  let taken = 0
  const feeding = (async () => {
    for (; taken < 200; taken++) {
      staged.add(piece)
      await staged.flush()
    }
  })()
  const first = await until(
    'a pause',
    async () => {
      const before = taken
      for (let i = 0; i < 1_000; i++) await yieldToEventLoop()
      return { before, after: taken }
    },
    ({ before, after }) => before > 0 && before === after,
  )
  t.ok(first.after < 20, `${first.after} pieces of 64 KB are taken by a staging that writes nothing`)
  gate.resolve(undefined)
  await feeding
  staged.end(false)
  const content = await staged.finish()
  t.equal(content.isBlank, false)
  t.ok((await readContent(disk, content.importId)).equals(Buffer.alloc(200 * piece.length, 'x')))
  await staged.discard()
  t.same(await readdir(folder), [], 'what is not kept is removed')
})

t.test('what is kept stays', async (t) => {
  const staged = new StagedContent(disk, database)
  staged.begin()
  staged.add(Buffer.from('email\n'))
  staged.end(false)
  const content = await staged.finish()
  content.keep()
  await staged.discard()
  const file = path.join(folder, stagedContent(content.importId))
  t.equal((await readContent(disk, content.importId)).toString(), 'email\n')
  t.equal(content.bytes, (await stat(file)).size, 'what it takes in the staging is told')
  const modes = [path.dirname(file), file].map(async (name) => (await stat(name)).mode & 0o777)
  t.same(await Promise.all(modes), [0o700, 0o600], 'other users of the machine cannot read it')
  await disk.removeImport(content.importId)
})

t.test('a full disk is said, whenever it shows, and nothing stays', async (t) => {
  for (const blocksBefore of [0, 1, 10]) {
    const full: Staging = {
      ...disk,
      write: (name, content) => disk.write(name, failingAfter(blocksBefore, content)),
    }
    const staged = new StagedContent(full, database)
    staged.begin()
    await t.rejects(
      async () => {
        for (let i = 0; i < 60; i++) {
          staged.add(piece)
          await staged.flush()
        }
        staged.end(false)
        await staged.finish()
      },
      { code: 'internal_error', status: 507, message: /too little space left/ },
    )
    await staged.discard()
    await until('an empty staging', () => readdir(folder), isEmpty)
  }
})

async function* behind(gate: Promise<unknown>, content: AsyncIterable<Uint8Array>) {
  await gate
  yield* content
}

async function* failingAfter(pieces: number, content: AsyncIterable<Uint8Array>) {
  let left = pieces
  for await (const bytes of content) {
    if (left-- === 0) throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
    yield bytes
  }
}
