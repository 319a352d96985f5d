import t, { type Test } from 'tap'
import { ensureSchema } from '../../../shared/runtime/ensure-schema.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { openUploads } from '../../../shared/storage/uploads/open-uploads.ts'
import { UploadDirectory } from '../../../shared/storage/uploads/upload-directory.ts'
import { noLimits, type UploadLimits } from '../../../shared/store/ledger.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'
import { testMongodbUri } from '../../helpers/service.ts'
import { storedImport } from '../../helpers/stored-import.ts'
import { putUpload } from '../../helpers/stored-uploads.ts'

const { database, folder } = await databaseAndFolder(t)
const { collections } = database
const log = createLogger({ process: 'test', level: 'silent' })
await ensureSchema(database.db, log)
const { signal } = new AbortController()

let organizations = 0

for (const STAGING of ['disk', 'gridfs'] as const) {
  /** Two processes with the uploads of a new organization. */
  const open = (limits: UploadLimits = noLimits) => {
    organizations += 1
    const organizationId = organizations
    const process = () => {
      const uploads = openUploads({ STAGING, DATA_DIR: folder }, database)
      return {
        uploads,
        directory: new UploadDirectory({ uploads, organizationId, folder: null, limits, log }),
      }
    }
    const sums = async () => {
      const records = await collections.uploads.find({ organization_id: organizationId }).toArray()
      const names = new Set(records.flatMap(({ state, name }) => (state === 'detached' ? [] : [name])))
      return { bytes: records.reduce((sum, { charged }) => sum + charged, 0), files: names.size }
    }
    /** Checks that the ledger is the sum of the records, and resolves to it. */
    const ledger = async (t: Test) => {
      const { bytes, files } = (await collections.ledgers.findOne({ _id: organizationId }))!
      t.same({ bytes, files }, await sums(), 'the ledger is the sum of the records')
      return { bytes, files }
    }
    return { one: process(), two: process(), organizationId, ledger }
  }

  t.test(`parallel uploads of two processes stay within the limits, exactly: ${STAGING}`, async (t) => {
    const { one, two, ledger } = open({ bytes: 2_500_000, files: 100 })
    const content = Buffer.alloc(100_000)
    const put = async ({ directory }: typeof one, name: string) => {
      const upload = await directory.beginUpload(name, {
        ...{ append: false, start: undefined, announced: content.length },
      })
      await upload.open(signal)
      await upload.receive(
        (async function* () {
          yield content
        })(),
      )
      await upload.prepare()
      await upload.publish()
      await upload.end()
    }
    const puts = Array.from({ length: 50 }, (_, i) => put(i % 2 === 0 ? one : two, `${i}.csv`))
    const ends = await Promise.allSettled(puts)
    t.equal(ends.filter(({ status }) => status === 'fulfilled').length, 25)
    t.same(await ledger(t), { bytes: 2_500_000, files: 25 })
  })

  t.test(`moves of names keep the ledger exact: ${STAGING}`, async (t) => {
    const { one, organizationId, ledger } = open()
    const { uploads, directory } = one
    const put = (name: string, bytes: number) => putUpload(uploads, name, Buffer.alloc(bytes), organizationId)
    await put('a.csv', 10)
    await put('b.csv', 20)
    await put('a.csv', 15)
    t.same(await ledger(t), { bytes: 35, files: 2 }, 'what is replaced counts once')
    const pinned = await uploads.pin({ organizationId, name: 'b.csv', importId: 1 })
    await directory.rename('a.csv', 'b.csv')
    t.same(await ledger(t), { bytes: 35, files: 1 }, 'a pinned file counts without its name')
    t.equal(await uploads.blobs.size(pinned!.blob), 20)
    const upload = await directory.beginUpload('b.csv', { append: true, start: undefined })
    await upload.open(signal)
    await upload.receive(
      (async function* () {
        yield Buffer.alloc(5)
      })(),
    )
    await directory.delete('b.csv')
    await upload.end()
    t.same(await ledger(t), { bytes: 40, files: 1 }, 'an unfinished upload keeps its name')
    t.match(await directory.listPairs(), [{ name: 'b.csv', finished: null, unfinished: { size: 20 } }])
    await directory.delete('b.csv')
    await uploads.unpin(1)
    t.same(await ledger(t), { bytes: 0, files: 0 })
    t.equal(await uploads.blobs.size(pinned!.blob), 0)
  })

  t.test(`an upload that was taken over publishes nothing: ${STAGING}`, async (t) => {
    const { one, two, organizationId, ledger } = open()
    const begin = async ({ directory }: typeof one, text: string) => {
      const upload = await directory.beginUpload('a.csv', { append: true, start: undefined })
      await upload.open(signal)
      await upload.receive(
        (async function* () {
          yield Buffer.from(text)
        })(),
      )
      await upload.prepare()
      return upload
    }
    const late = await begin(one, 'half')
    await t.rejects(two.directory.beginUpload('a.csv', { append: true, start: undefined }), {
      code: 'locked',
    })
    await collections.uploads.updateOne(
      { organization_id: organizationId },
      { $set: { 'lease.until': new Date(0) } },
    )
    const next = await begin(two, ' and half')
    await late.receive(
      (async function* () {
        yield Buffer.from('LATE')
      })(),
    )
    await late.prepare()
    await t.rejects(late.publish(), { code: 'taken_over' })
    await late.end()
    await next.publish()
    await next.end()
    const file = (await two.uploads.open(organizationId, 'a.csv'))!
    const bytes = Buffer.alloc(100)
    t.equal(bytes.toString('utf8', 0, await file.read(bytes, 0)), 'half and half')
    await file.close()
    t.same(await ledger(t), { bytes: 13, files: 1 })
  })
  t.test(
    `a resumption that breaks off at once leaves a late writer to the next one: ${STAGING}`,
    async (t) => {
      const { one, two, organizationId, ledger } = open()
      const options = { append: true, start: undefined }
      const bytes = (text: string) =>
        (async function* () {
          yield Buffer.from(text)
        })()
      const late = await one.directory.beginUpload('a.csv', options)
      await late.open(signal)
      await late.receive(bytes('half'))
      await late.sync()
      const endLease = () =>
        collections.uploads.updateOne(
          { organization_id: organizationId, state: 'unfinished' },
          { $set: { 'lease.until': new Date(0) } },
        )
      await endLease()
      await (await two.directory.beginUpload('a.csv', options)).end()
      await endLease()
      const next = await two.directory.beginUpload('a.csv', options)
      await next.open(signal)
      await late.receive(bytes('LATE'))
      await late.prepare()
      await next.receive(bytes(' and half'))
      await next.prepare()
      await next.publish()
      await next.end()
      await late.end()
      const file = (await two.uploads.open(organizationId, 'a.csv'))!
      const read = Buffer.alloc(100)
      t.equal(read.toString('utf8', 0, await file.read(read, 0)), 'half and half')
      await file.close()
      t.same(await ledger(t), { bytes: 13, files: 1 })
    },
  )

  t.test(`an upload of a process that was suspended is charged with its bytes: ${STAGING}`, async (t) => {
    const { one, two, organizationId, ledger } = open()
    for (const end of ['publish', 'release']) {
      const upload = await one.directory.beginUpload(`${end}.csv`, { append: false, start: undefined })
      await upload.open(signal)
      await upload.receive(
        (async function* () {
          yield Buffer.alloc(1_000)
        })(),
      )
      await upload.prepare()
      await collections.uploads.updateOne(
        { organization_id: organizationId, name: `${end}.csv` },
        { $set: { 'lease.until': new Date(Date.now() - 60_000) } },
      )
      await two.uploads.purge({ olderThanMs: 3_600_000 })
      t.match(await collections.uploads.findOne({ name: `${end}.csv`, organization_id: organizationId }), {
        charged: 1_000,
      })
      if (end === 'publish') await upload.publish()
      await upload.end()
    }
    t.same(await ledger(t), { bytes: 2_000, files: 2 })
  })

  t.test(
    `what the console left behind for a day is removed, unless an import needs it: ${STAGING}`,
    async (t) => {
      const { one, organizationId, ledger } = open()
      const names = ['.console-left', '.console-needed', '.console-new', 'console-other', '.other']
      for (const name of names) await putUpload(one.uploads, name, 'email\n', organizationId)
      const upload = await one.directory.beginUpload('.console-unfinished', {
        append: false,
        start: undefined,
      })
      await upload.open(signal)
      await upload.receive(
        (async function* () {
          yield Buffer.alloc(1_000)
        })(),
      )
      await upload.prepare()
      await upload.end()
      await collections.uploads.updateMany(
        { organization_id: organizationId, name: { $ne: '.console-new' } },
        { $set: { modified_at: new Date(Date.now() - 25 * 3_600_000) } },
      )
      const source = { type: 'upload_directory', filename: '.console-needed', url: null } as const
      const waiting = storedImport({
        _id: 1_000 + organizationId,
        organization_id: organizationId,
        state: 'paused',
        source,
      })
      await collections.imports.insertOne(waiting)
      t.equal(await one.uploads.purge({ olderThanMs: 7 * 24 * 3_600_000 }), 2)
      const left = await collections.uploads.distinct('name', { organization_id: organizationId })
      t.same(left, ['.console-needed', '.console-new', '.other', 'console-other'])
      await ledger(t)
      await collections.imports.updateOne({ _id: waiting._id }, { $set: { state: 'finished' } })
      t.equal(await one.uploads.purge({ olderThanMs: 7 * 24 * 3_600_000 }), 1)
      t.match(await ledger(t), { files: 3 })
    },
  )

  t.test(`an upload of unknown size ends at the limit, and keeps nothing: ${STAGING}`, async (t) => {
    const { one, ledger } = open({ bytes: 6_000_000, files: 100 })
    const upload = await one.directory.beginUpload('a.csv', { append: false, start: undefined })
    await upload.open(signal)
    const content = async function* () {
      for (let i = 0; i < 7; i += 1) yield Buffer.alloc(1_000_000)
    }
    await t.rejects(upload.receive(content()), { code: 'over_quota' })
    await upload.end()
    t.same(await ledger(t), { bytes: 0, files: 0 })
  })
}

/** `api_keys` is read for new names that a folder could have, and `uploads` again for new ones in another's folder. */
t.test('an upload takes seven commands, in the folder of its key too', async (t) => {
  const { database, folder: DATA_DIR } = await databaseAndFolder(
    t,
    `${testMongodbUri()}&monitorCommands=true`,
  )
  await ensureSchema(database.db, log)
  const commands: string[] = []
  const uploads = openUploads({ STAGING: 'disk', DATA_DIR }, database)
  const put = async (name: string, folder: string | null) => {
    const directory = new UploadDirectory({ uploads, organizationId: 1, folder, limits: noLimits, log })
    const upload = await directory.beginUpload(name, { append: false, start: undefined })
    await upload.open(signal)
    await upload.prepare()
    await upload.publish()
    await upload.end()
  }
  await put('first.csv', null)
  database.client.on('commandStarted', ({ commandName }) => commands.push(commandName))
  const uploadsOf: [name: string, folder: string | null, count: number][] = [
    ['a.csv', null, 7],
    ['b.csv', 'acme', 7],
    ['plain', null, 8],
    ['acme/c.csv', null, 8],
  ]
  for (const [name, folder, count] of uploadsOf) {
    commands.length = 0
    await put(name, folder)
    t.equal(commands.length, count, `${name}: ${commands.join()}`)
  }
})
