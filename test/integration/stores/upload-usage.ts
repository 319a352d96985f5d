import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { ObjectId, type Filter, type FindOptions } from 'mongodb'
import t, { type Test } from 'tap'
import type { UploadNameDocument } from '../../../shared/contract/schemas/upload.ts'
import { ensureSchema } from '../../../shared/runtime/database.ts'
import { UploadDirectory } from '../../../shared/storage/uploads/upload-directory.ts'
import { createLogger, type Logger } from '../../../shared/runtime/logger.ts'
import { countUsage } from '../../../shared/storage/uploads/count-usage.ts'
import { openUploads } from '../../../shared/storage/uploads/open-uploads.ts'
import { uploadFolder } from '../../../shared/storage/uploads/upload-names.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'

const { database, folder } = await databaseAndFolder(t)
const { collections } = database
const signal = new AbortController().signal
const log = { warn: () => undefined } as unknown as Logger
const limits = { files: 4, bytes: 1000 }

/** An organization's directory; `areRight` compares its stored totals with its files. */
async function openDirectory(t: Test, organizationId: number, STAGING: 'disk' | 'gridfs') {
  const uploads = openUploads({ STAGING, DATA_DIR: folder }, database)
  const store = uploads.directory(organizationId)
  const directory = new UploadDirectory({ uploads, limits, organizationId, collections, log })
  await directory.prepare()
  const begin = async (name: string, content: string) => {
    const upload = await directory.beginUpload(name, { append: false, start: undefined })
    await upload.open(signal)
    await upload.receive(
      (async function* () {
        yield Buffer.from(content)
      })(),
    )
    return upload
  }
  const put = async (name: string, size: number) => {
    const upload = await begin(name, 'x'.repeat(size))
    await upload.prepare()
    await upload.publish()
    await upload.end()
  }
  const areRight = async (what: string) => {
    const { finished, unfinished } = await store.count()
    const sizes = [...finished.values(), ...unfinished.values()]
    t.match(
      await collections.uploadUsage.findOne({ _id: organizationId }),
      {
        bytes: sizes.reduce((sum, size) => sum + size, 0),
        files: new Set([...finished.keys(), ...unfinished.keys()]).size,
        uploads: [],
      },
      what,
    )
  }
  return { store, directory, begin, put, areRight }
}

for (const [organizationId, STAGING] of [
  [1, 'disk'],
  [2, 'gridfs'],
] as const)
  t.test(`the totals are those of what happened in any order of events: ${STAGING}`, async (t) => {
    const { store, directory, begin, put, areRight } = await openDirectory(t, organizationId, STAGING)
    const outcomes = async (work: Promise<unknown>[]) =>
      (await Promise.allSettled(work)).filter(({ status }) => status === 'fulfilled').length

    await put('a.csv', 100)
    await put('b.csv', 200)
    await put('c.csv', 300)
    await areRight('uploads')

    const removals = Array.from({ length: 8 }, () => directory.delete('a.csv'))
    t.equal(await outcomes(removals), 1, 'of many who remove a file, one does')
    await areRight('many removed it')

    const replacing = await begin('b.csv', 'new')
    await directory.delete('b.csv')
    await replacing.prepare()
    await replacing.publish()
    await replacing.end()
    await areRight('what an upload was to replace was removed')

    const fresh = await begin('d.csv', 'fresh')
    await directory.rename('c.csv', 'd.csv')
    await fresh.prepare()
    await fresh.publish()
    await fresh.end()
    await areRight('a file was given the name of an upload in progress')

    await put('e.csv', 50)
    await put('f.csv', 60)
    const targets = ['g.csv', 'g.csv', 'b.csv']
    const renames = targets.map((target, i) => directory.rename(i === 1 ? 'e.csv' : 'f.csv', target))
    t.equal(await outcomes(renames), 2, 'one file has one new name')
    await areRight('renames met')

    const half = await begin('b.csv', 'half')
    await half.end()
    await areRight('beside a finished file there is an unfinished one')
    await put('h.csv', 1).catch(() => undefined)
    await put('i.csv', 1).catch(() => undefined)
    const { finished } = await store.count()
    t.equal(finished.size, 4, 'the directory is full')
    await t.rejects(
      directory.rename('b.csv', 'j.csv'),
      { code: 'over_quota' },
      'a rename must not make one more',
    )
    await directory.delete('h.csv').catch(() => undefined)
    await directory.rename('b.csv', 'j.csv')
    await areRight('a rename made one more')
  })

t.test(
  'what begins all at once in a directory that was never counted, or long ago, is not refused',
  async (t) => {
    const uploads = openUploads({ STAGING: 'disk', DATA_DIR: folder }, database)
    const organizationId = 3
    const roomy = { files: 100, bytes: 10_000_000 }
    const begin = async (name: string) => {
      const directory = new UploadDirectory({ uploads, limits: roomy, organizationId, collections, log })
      await directory.prepare()
      return directory.beginUpload(name, { append: false, start: undefined })
    }
    const names = Array.from({ length: 30 }, (_, i) => `first-${i}.csv`)
    const first = await Promise.all(names.map(begin))
    t.match(await collections.uploadUsage.findOne({ _id: organizationId }), { files: 0, bytes: 0 })
    const longAgo = new Date(Date.now() - 7_200_000)
    await collections.uploadUsage.updateOne({ _id: organizationId }, { $set: { counted_at: longAgo } })
    const later = await Promise.all(names.map((name) => begin(`later-${name}`)))
    for (const upload of [...first, ...later]) await upload.end()
    t.match(await collections.uploadUsage.findOne({ _id: organizationId }), {
      files: 0,
      bytes: 0,
      uploads: [],
    })
  },
)

for (const [organizationId, STAGING] of [
  [3, 'disk'],
  [4, 'gridfs'],
] as const)
  t.test(
    `an upload that is published while the directory is listed is in the list: ${STAGING}`,
    async (t) => {
      const uploads = openUploads({ STAGING, DATA_DIR: folder }, database)
      const store = uploads.directory(organizationId)
      await store.prepare()
      const upload = await store.beginOrResume({
        name: 'a.csv',
        token: '0123456789abcdef',
        wasAbandoned: false,
        keep: 0,
      })
      await upload.write(Buffer.from('content'))
      await upload.prepare()
      let published: Promise<boolean> | null = null
      /** The first of the two reads comes before the publication, the second after it. */
      const around = async <T>(read: () => Promise<T>): Promise<T> => {
        if (published !== null) {
          await published
          return read()
        }
        const first = read()
        published = first.then(() => upload.publish())
        return first
      }
      const listed = {
        ...store,
        list: () => around(() => store.list()),
        listUnfinished: () => around(() => store.listUnfinished()),
      }
      const directory = new UploadDirectory({
        uploads: { ...uploads, directory: () => listed },
        ...{ limits, organizationId, collections, log },
      })
      t.match(await directory.listPairs(), [{ name: 'a.csv', finished: { size: 7 } }])
      await upload.close()
    },
  )

for (const [organizationId, isCounted] of [
  [7, true],
  [8, false],
] as const)
  t.test(
    `${isCounted ? 'a later' : 'the first'} count on disk that misses a file which is just renamed is made again`,
    async (t) => {
      const uploads = openUploads({ STAGING: 'disk', DATA_DIR: folder }, database)
      const store = uploads.directory(organizationId)
      const dataFolder = uploadFolder(folder, organizationId)
      await mkdir(dataFolder, { recursive: true })
      await writeFile(path.join(dataFolder, 'a.csv'), 'x'.repeat(500))
      if (isCounted) await countUsage(collections, organizationId, store)
      /** The names were listed before the rename, and the files are read after it. */
      const late = { ...store, count: async () => ({ finished: new Map(), unfinished: new Map() }) }
      const renaming = {
        ...store,
        rename: async (from: string, to: string) => {
          const isRenamed = await store.rename(from, to)
          await countUsage(collections, organizationId, late)
          return isRenamed
        },
      }
      const directory = new UploadDirectory({
        uploads: { ...uploads, directory: () => renaming },
        ...{ limits, organizationId, collections, log },
      })
      await directory.rename('a.csv', 'b.csv')
      const begun = directory.beginUpload('c.csv', { append: false, start: undefined, announced: 600 })
      await t.rejects(begun, { code: 'over_quota' })
      t.match(await collections.uploadUsage.findOne({ _id: organizationId }), { bytes: 500, files: 1 })
    },
  )

t.test('a file that is renamed while the directory is counted counts once', async (t) => {
  const { database, folder } = await databaseAndFolder(t)
  const { collections } = database
  await ensureSchema(database.db, createLogger({ process: 'test', level: 'silent' }))
  const { uploadNames } = collections
  await uploadNames.insertMany(
    ['a.csv', 'b.csv', 'c.csv', 'y.csv'].map((name) => ({
      ...{ _id: `1/${name}`, organization_id: 1, name, unfinished: null },
      finished: { content: new ObjectId().toHexString(), size: 100, modified_at: new Date() },
    })),
  )
  const directory = openUploads({ STAGING: 'gridfs', DATA_DIR: folder }, database).directory(1)
  for (const [from, to] of [
    ['y.csv', '0.csv'],
    ['0.csv', 'z.csv'],
  ] as const) {
    /** The names come one by one, and the rename happens after the second. */
    const slow = new Proxy(uploadNames, {
      get: (target, key) => {
        const value = Reflect.get(target, key) as unknown
        if (typeof value !== 'function') return value
        if (key !== 'find') return value.bind(target) as unknown
        return (filter: Filter<UploadNameDocument>, options?: FindOptions) => {
          const cursor = target.find(filter, { ...options, batchSize: 1 })
          cursor.toArray = async () => {
            const documents: UploadNameDocument[] = []
            for await (const document of target.find(filter, { ...options, batchSize: 1 }))
              if (documents.push(document) === 2) t.equal(await directory.rename(from, to), true)
            return documents
          }
          return cursor
        }
      },
    })
    const counted = openUploads(
      { STAGING: 'gridfs', DATA_DIR: folder },
      { ...database, collections: { ...collections, uploadNames: slow } },
    ).directory(1)
    const { finished } = await counted.count()
    t.same([...finished.keys()].sort(), [from, 'a.csv', 'b.csv', 'c.csv'].sort())
  }
})
