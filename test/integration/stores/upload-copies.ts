import { truncateSync, writeFileSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { MongoNetworkError, type ObjectId } from 'mongodb'
import t from 'tap'
import { appendToGridFile, copyGridFile, createGridFile } from '../../../shared/storage/gridfs/grid-bucket.ts'
import type { Logger } from '../../../shared/runtime/logger.ts'
import { openUploads } from '../../../shared/storage/uploads/open-uploads.ts'
import { copySteady } from '../../../shared/storage/uploads/steady-copy.ts'
import { UploadDirectory } from '../../../shared/storage/uploads/upload-directory.ts'
import { newUploadToken } from '../../../shared/storage/uploads/upload-names.ts'
import type { Upload } from '../../../shared/storage/uploads/upload.ts'
import {
  UploadChanged,
  type Uploads,
  type UploadStore,
} from '../../../shared/storage/uploads/upload-store.ts'
import { putUpload } from '../../helpers/put-upload.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'
import { until } from '../../helpers/service.ts'

const { database, folder } = await databaseAndFolder(t)
const { collections } = database

const megabyte = 1024 * 1024

/** Called before each step of a copy; something happens before the step of that number. */
function meanwhile(step: number, happens: () => void): AbortSignal {
  let steps = 0
  return {
    aborted: false,
    throwIfAborted: () => {
      steps += 1
      if (steps === step) happens()
    },
  } as AbortSignal
}

t.test('a copy is of a file as it was, or there is none', async (t) => {
  const source = path.join(folder, 'source')
  const target = path.join(folder, 'target')
  const longAgo = new Date(Date.now() - 3_600_000)
  const put = async () => {
    await writeFile(source, Buffer.alloc(5 * megabyte, 'a'))
    await utimes(source, longAgo, longAgo)
  }
  const copyWhile = (happens: () => void, mayGrow = false) =>
    copySteady(source, target, { signal: meanwhile(3, happens), mayGrow })
  const isGone = async () => t.equal(await stat(target).catch(() => null), null)
  const append = () => writeFileSync(source, 'more', { flag: 'a' })

  await put()
  t.equal(await copyWhile(() => undefined), true)
  t.ok((await readFile(target)).equals(await readFile(source)))
  await rm(target)

  t.equal(await copyWhile(() => truncateSync(source, 1000)), false, 'it became shorter')
  await isGone()
  await put()
  t.equal(await copyWhile(append), false, 'it became longer')
  await isGone()
  await put()
  t.equal(await copyWhile(append, true), true, 'which is no harm where that is expected')
  t.equal((await stat(target)).size, 5 * megabyte, 'and what it had is copied')
  await rm(target)
  await put()
  t.equal(await copyWhile(() => writeFileSync(source, 'b', { flag: 'r+' })), false, 'written in place')
  await isGone()
  t.equal(await copySteady(source, target, { fingerprint: 'another' }), false, 'it is another one already')
  t.equal(await copySteady(path.join(folder, 'absent'), target), false)
  await isGone()

  const abort = new AbortController()
  const steps = meanwhile(3, () => abort.abort())
  const signal = {
    throwIfAborted() {
      steps.throwIfAborted()
      abort.signal.throwIfAborted()
    },
  } as AbortSignal
  await t.rejects(copySteady(source, target, { signal }), { name: 'AbortError' })
  await isGone()
})

/** In memory, and in the run's own folder if that is there too: the runner removes it, whatever ends this test. */
const folderOfRun = path.dirname(process.env['ROLLCALL_TEST_DESCRIPTION'] ?? '')
const memory = folderOfRun.startsWith('/dev/shm/') ? folderOfRun : '/dev/shm'
const elsewhere = await mkdtemp(path.join(memory, 'rollcall-test-')).catch(() => folder)
t.teardown(() => rm(elsewhere, { recursive: true, force: true }))
const isElsewhere = (await stat(elsewhere)).dev !== (await stat(folder)).dev
const skip = isElsewhere ? false : 'there is no second file system here'

t.test(
  'where no second name is possible, what is written during its copy is watched',
  { skip },
  async (t) => {
    await mkdir(path.join(folder, 'uploads'))
    await symlink(elsewhere, path.join(folder, 'uploads', '1'))
    const source = path.join(elsewhere, 'a.csv')
    await writeFile(source, Buffer.alloc(5 * megabyte, 'a'))
    const longAgo = new Date(Date.now() - 3_600_000)
    await utimes(source, longAgo, longAgo)
    const uploads = openUploads({ STAGING: 'disk', DATA_DIR: folder }, database)
    const pin = (signal: AbortSignal) =>
      uploads.pin({ organizationId: 1, name: 'a.csv', importId: 1, signal })

    t.match(await pin(meanwhile(3, () => undefined)), { is_settled: true, reference: /^1\/pin-/ })
    const write = () => writeFileSync(source, 'b', { flag: 'r+' })
    t.match(await pin(meanwhile(3, write)), { is_settled: false, reference: 'upload:1/a.csv' })
    t.equal((await readdir(path.join(folder, 'staging', '1'))).length, 1, 'the torn copy is gone')
  },
)

t.test('an upload into the database whose last bytes are not stored is not published', async (t) => {
  const directory = openUploads({ STAGING: 'gridfs', DATA_DIR: folder }, database).directory(4)
  await directory.prepare()
  const begin = (name: string) =>
    directory.beginOrResume({ name, token: newUploadToken(), wasAbandoned: false, keep: null })
  const upload = await begin('cut.csv')
  await upload.write(Buffer.from('email\n'))
  await upload.sync()
  await upload.write(Buffer.from('ann@example.com\n'))
  // The server refuses every further piece.
  const { pieces } = collections.uploads
  await database.db.command({ collMod: pieces.collectionName, validator: { n: 'none' } })
  t.teardown(async () => {
    await database.db.command({ collMod: pieces.collectionName, validator: {} })
    await upload.discard()
  })
  await t.rejects(upload.prepare(), /validation/)
  t.equal(await upload.close(), false)
  t.same([...(await directory.count()).finished], [])
})

for (const [organizationId, STAGING] of [
  [2, 'disk'],
  [3, 'gridfs'],
] as const)
  t.test(`an upload resumes only where all of what it is to keep exists: ${STAGING}`, async (t) => {
    const uploads = openUploads({ STAGING, DATA_DIR: folder }, database)
    const directory = uploads.directory(organizationId)
    await directory.prepare()
    const beginOrResume = (name: string, keep: number | null, wasAbandoned = false) =>
      directory.beginOrResume({ name, token: newUploadToken(), wasAbandoned, keep })

    await putUpload(directory, 'finished.csv', 'short')
    await t.rejects(beginOrResume('finished.csv', 6), UploadChanged)
    await t.rejects(beginOrResume('absent.csv', 1), UploadChanged)
    t.equal(await directory.findUnfinished('finished.csv'), null, 'nothing stays')
    t.equal(await directory.findUnfinished('absent.csv'), null)
    t.same([...(await directory.count()).finished], [['finished.csv', 5]])

    const broken = await beginOrResume('half.csv', 0)
    await broken.write(Buffer.from('half'))
    await broken.prepare()
    await broken.close()
    await t.rejects(beginOrResume('half.csv', 5), UploadChanged)
    await t.rejects(beginOrResume('half.csv', 5, true), UploadChanged)
    t.match(await directory.findUnfinished('half.csv'), { size: 4 }, 'what there is stays as it is')
    const again = await beginOrResume('half.csv', 2, true)
    t.equal(again.size, 2)
    await again.write(Buffer.from('lo'))
    await again.prepare()
    t.equal(await again.publish(), true)
    await again.close()
    t.equal(await text((await directory.open('half.csv'))!.stream()), 'halo')
    if (STAGING === 'gridfs') t.equal(await collections.uploads.files.countDocuments(), 2)
  })

/** An attempt to resume that changes nothing: it leaves the content to the session that was suspended. */
const attempts = {
  'one from a wrong byte': async (directory: UploadDirectory) => {
    const begun = directory.beginUpload('torn.csv', { append: false, start: 3, isAtEnd: true })
    await t.rejects(begun, { code: 'wrong_start' })
  },
  'one that ends before it has opened the file': async (directory: UploadDirectory) => {
    await (await directory.beginUpload('torn.csv', { append: true, start: undefined })).end()
  },
  'one that breaks off while it copies': async (directory: UploadDirectory) => {
    const upload = await directory.beginUpload('torn.csv', { append: true, start: undefined })
    await t.rejects(upload.open(AbortSignal.abort(new Error('the client is gone'))), /the client is gone/)
    await upload.end()
  },
}
for (const [organizationId, STAGING] of [
  [5, 'disk'],
  [6, 'gridfs'],
] as const)
  for (const [what, attempt] of Object.entries(attempts))
    t.test(
      `a suspended session writes into no upload that is resumed after ${what}: ${STAGING}`,
      async (t) => {
        const uploads = openUploads({ STAGING, DATA_DIR: folder }, database)
        const log = { warn: () => undefined } as unknown as Logger
        const limits = { files: Infinity, bytes: Infinity }
        const directory = new UploadDirectory({ uploads, limits, organizationId, collections, log })
        await directory.prepare()
        const { signal } = new AbortController()
        const write = (upload: Upload, content: string) =>
          upload.receive(Readable.from([Buffer.from(content)]))

        const suspended = await directory.beginUpload('torn.csv', { append: false, start: undefined })
        await suspended.open(signal)
        await write(suspended, 'aaaa')
        await suspended.sync()
        const lock = { _id: `${organizationId}/torn.csv` }
        await collections.uploadLocks.updateOne(lock, { $set: { lease_until: new Date(0) } })
        await attempt(directory)

        const resumed = await directory.beginUpload('torn.csv', { append: false, start: 4, isAtEnd: true })
        await resumed.open(signal)
        await write(suspended, 'LATE').catch(() => undefined)
        await write(resumed, 'bbbb')
        await resumed.prepare()
        await resumed.publish(signal)
        await resumed.end()
        await suspended.end().catch(() => undefined)
        t.equal(await text((await directory.open('torn.csv')).stream()), 'aaaabbbb')
        t.equal(await collections.uploadLocks.countDocuments(lock), 0, 'its lock is released')
        await directory.delete('torn.csv')
      },
    )

for (const [name, fails] of [
  ['late.csv', false],
  ['lost.csv', true],
] as const)
  t.test(
    `an upload keeps its lock while its length is written, ${fails ? 'and where the database does not say whether it was' : 'and no longer'}`,
    async (t) => {
      const begun = Promise.withResolvers<null>()
      const reply = Promise.withResolvers<null>()
      const files = new Proxy(collections.uploads.files, {
        get: (target, key) => {
          const value = Reflect.get(target, key) as unknown
          if (typeof value !== 'function') return value
          if (key !== 'updateOne') return value.bind(target) as unknown
          return async (filter: { _id: ObjectId }, update: { $set?: { length?: number } }) => {
            if (update.$set?.length !== undefined) {
              begun.resolve(null)
              await reply.promise
            }
            return target.updateOne(filter, update)
          }
        },
      })
      const slow = {
        ...database,
        collections: { ...collections, uploads: { ...collections.uploads, files } },
      }
      const directory = new UploadDirectory({
        uploads: openUploads({ STAGING: 'gridfs', DATA_DIR: folder }, slow),
        limits: { files: Infinity, bytes: Infinity },
        organizationId: 7,
        collections,
        log: { warn: () => undefined } as unknown as Logger,
      })
      const upload = await directory.beginUpload(name, { append: false, start: undefined })
      await upload.open(new AbortController().signal)
      await upload.receive(Readable.from([Buffer.from('abc')]))
      const prepared = upload.prepare().catch(() => undefined)
      await begun.promise
      // As FTP does for a client that is gone.
      const ended = upload.end()
      await Promise.race([ended, sleep(200)])
      const locks = () => collections.uploadLocks.countDocuments({ _id: `7/${name}` })
      t.equal(await locks(), 1, 'while it is written')
      if (fails) reply.reject(new MongoNetworkError('no reply'))
      else reply.resolve(null)
      await Promise.all([prepared, ended])
      t.equal(await locks(), fails ? 1 : 0, 'afterwards')
    },
  )

t.test('what is removed while it is copied in the database is no copy', async (t) => {
  const bucket = collections.uploads
  const newFile = () => createGridFile(bucket, { filename: '4/a.csv', pinned_by: [], detached: false })
  const from = await newFile()
  await appendToGridFile(bucket, from, 0, [Buffer.alloc(3 * megabyte, 'a')])
  t.equal(await copyGridFile(bucket, { from, to: await newFile() }), true)
  await bucket.files.updateOne({ _id: from }, { $set: { detached: true } })
  t.equal(await copyGridFile(bucket, { from, to: await newFile() }), false, 'its removal has begun')
  await bucket.pieces.deleteOne({ files_id: from, n: 0 })
  t.equal(await copyGridFile(bucket, { from, to: await newFile() }), false)

  const directory = openUploads({ STAGING: 'gridfs', DATA_DIR: folder }, database).directory(4)
  const content = 'a'.repeat(8 * megabyte)
  for (let round = 0; round < 6; round += 1) {
    await putUpload(directory, 'a.csv', content)
    const taken = directory
      .beginOrResume({ name: 'a.csv', token: newUploadToken(), wasAbandoned: false, keep: null })
      .catch((error: unknown) => error as Error)
    const [upload] = await Promise.all([taken, directory.remove('a.csv')])
    if (upload instanceof Error) t.match(upload, { name: 'UploadChanged' })
    else {
      t.equal(upload.size === 0 || upload.size === content.length, true, 'all of it or nothing')
      await upload.discard()
    }
  }
})

t.test('a name that leads to no content is a file that is not there', { timeout: 10_000 }, async (t) => {
  const uploads = openUploads({ STAGING: 'gridfs', DATA_DIR: folder }, database)
  const directory = uploads.directory(77)
  await directory.prepare()
  const upload = await directory.beginOrResume({
    name: 'lost.csv',
    token: newUploadToken(),
    wasAbandoned: false,
    keep: null,
  })
  await upload.write(Buffer.from('a@example.com\n'))
  await upload.prepare()
  await upload.publish()
  await upload.close()
  t.not(await uploads.pin({ organizationId: 77, name: 'lost.csv', importId: 1 }), null)
  // A restore of some collections leaves this.
  await collections.uploads.files.deleteMany({})
  t.equal(await uploads.pin({ organizationId: 77, name: 'lost.csv', importId: 2 }), null)
  const signal = AbortSignal.abort(new Error('stopped'))
  await t.rejects(uploads.pin({ organizationId: 77, name: 'lost.csv', importId: 2, signal }), /stopped/)
})

/** Uploads in the database that call `beforeDeletion` before they delete bytes of a content. */
function slowUploads(beforeDeletion: () => Promise<unknown>): Uploads {
  const { pieces } = collections.uploads
  const slow = new Proxy(pieces, {
    get: (target, key) => {
      const value = Reflect.get(target, key) as unknown
      if (typeof value !== 'function') return value
      if (key !== 'deleteMany') return value.bind(target) as unknown
      return async (filter: object) => {
        await beforeDeletion()
        return target.deleteMany(filter)
      }
    },
  })
  const uploads = { ...collections.uploads, pieces: slow }
  const own = { ...database, collections: { ...collections, uploads } }
  return openUploads({ STAGING: 'gridfs', DATA_DIR: folder }, own)
}

/** Each change that takes the name from a content, and the size of the file that has the name afterwards. */
const changes = {
  replaced: { change: (directory: UploadStore) => putUpload(directory, 'old.csv', 'new'), size: 3 },
  removed: { change: (directory: UploadStore) => directory.remove('old.csv'), size: null },
  'renamed over': { change: (directory: UploadStore) => directory.rename('other.csv', 'old.csv'), size: 5 },
}
const ofDirectory = { filename: /^8\// }
for (const [what, { change, size }] of Object.entries(changes)) {
  t.test(`a file in the database that is ${what} is so although its bytes can't be deleted`, async (t) => {
    const directory = slowUploads(() => Promise.reject(new MongoNetworkError('no reply'))).directory(8)
    await putUpload(directory, 'old.csv', 'old')
    await putUpload(directory, 'other.csv', 'other')
    await change(directory)
    t.equal((await directory.find('old.csv'))?.size ?? null, size)
    // An hour later it is removed, as it has no name.
    await collections.uploads.files.updateMany(ofDirectory, { $set: { uploadDate: new Date(0) } })
    const uploads = openUploads({ STAGING: 'gridfs', DATA_DIR: folder }, database)
    await uploads.purge({ olderThanMs: 1_000 })
    const names = await uploads.directory(8).list()
    t.equal(await collections.uploads.files.countDocuments(ofDirectory), names.length)
    for (const { name } of names) await uploads.directory(8).remove(name)
  })

  t.test(`a file in the database that is ${what} doesn't wait for the deletion of its bytes`, async (t) => {
    const deletion = Promise.withResolvers<null>()
    const directory = slowUploads(() => deletion.promise).directory(8)
    await putUpload(directory, 'old.csv', 'old')
    await putUpload(directory, 'other.csv', 'other')
    const done = await Promise.race([change(directory).then(() => true), sleep(5_000, false)])
    t.equal(done, true)
    deletion.resolve(null)
    const names = await directory.list()
    const left = () => collections.uploads.files.countDocuments(ofDirectory)
    await until('the deletion', left, (files) => files === names.length)
    for (const { name } of names) await directory.remove(name)
    await until('the deletion', left, (files) => files === 0)
  })
}

for (const [organizationId, STAGING] of [
  [9, 'disk'],
  [10, 'gridfs'],
] as const)
  t.test(`the purge leaves an old upload that a session has resumed: ${STAGING}`, async (t) => {
    const uploads = openUploads({ STAGING, DATA_DIR: folder }, database)
    const limits = { files: Infinity, bytes: Infinity }
    const log = { warn: () => undefined } as unknown as Logger
    const directory = new UploadDirectory({ uploads, limits, organizationId, collections, log })
    await directory.prepare()
    const begin = async () => {
      const upload = await directory.beginUpload('a.csv', { append: true, start: undefined })
      await upload.open(new AbortController().signal)
      return upload
    }
    const first = await begin()
    await first.receive(Readable.from([Buffer.from('half')]))
    await first.end()
    const resumed = await begin()
    const weekAgo = new Date(Date.now() - 8 * 86_400_000)
    const own = path.join(folder, 'uploads', String(organizationId))
    if (STAGING === 'disk')
      for (const entry of await readdir(own)) await utimes(path.join(own, entry), weekAgo, weekAgo)
    await collections.uploadNames.updateMany(
      { organization_id: organizationId },
      { $set: { 'unfinished.touched_at': weekAgo } },
    )
    t.equal(await uploads.purge({ olderThanMs: 7 * 86_400_000 }), 0)
    t.match(await directory.findPair('a.csv'), { unfinished: { size: 4 } })
    await resumed.end()
    if (STAGING === 'disk')
      for (const entry of await readdir(own)) await utimes(path.join(own, entry), weekAgo, weekAgo)
    else
      await collections.uploadNames.updateMany(
        { organization_id: organizationId },
        { $set: { 'unfinished.touched_at': weekAgo } },
      )
    t.equal(await uploads.purge({ olderThanMs: 7 * 86_400_000 }), 1)
  })
