import { readdir, rm, truncate } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import { sweepStaging } from '../../engine/jobs/sweep-staging.ts'
import { errorMessage } from '../../shared/contract/errors.ts'
import { openDatabase } from '../../shared/runtime/database.ts'
import { createLogger } from '../../shared/runtime/logger.ts'
import { noCounts } from '../../shared/contract/schemas/import.ts'
import { openStaging } from '../../shared/storage/staging/open-staging.ts'
import { stagedSource } from '../../shared/storage/staging/staging.ts'
import { openUploads } from '../../shared/storage/uploads/open-uploads.ts'
import { UploadDirectory } from '../../shared/storage/uploads/upload-directory.ts'
import { startImport } from '../../shared/store/imports.ts'
import { noLimits } from '../../shared/store/ledger.ts'
import { Engines } from '../helpers/engines.ts'
import { FtpSession } from '../helpers/ftp-session.ts'
import {
  countsOf,
  createList,
  importEnd,
  startProcess,
  startService,
  testMongodbUri,
  until,
  type Json,
  type Service,
} from '../helpers/service.ts'
import { storedUploads } from '../helpers/stored-uploads.ts'

const log = createLogger({ process: 'test', level: 'silent' })

const rows = (count: number, from = 0): string =>
  `email\n${Array.from({ length: count }, (_, i) => `row${from + i}@example.com\n`).join('')}`

async function create(service: Service, filename: string, more: object = {}): Promise<Json> {
  const list = await createList(service)
  return service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      ...more,
      column_mapping: ['email'],
      file_source: { type: 'upload_directory', filename },
    },
  })
}

const services = {
  disk: await startService(t, ['control-plane', 'ftp'], { STAGING: 'disk' }),
  gridfs: await startService(t, ['control-plane', 'ftp'], { STAGING: 'gridfs' }),
}
const onDisk = services.disk
const engines = { disk: new Engines(t, services.disk), gridfs: new Engines(t, services.gridfs) }

/** The one that a test before left, or a new one. */
const engineAtWork = async (engines: Engines) => engines.alive[0] ?? (await engines.start())

const later = { begins_at: '2100-01-01T00:00:00Z' }

/** Starts an import that was created for later, as an engine does that dies then. */
async function begin(service: Service, importId: number, name: string): Promise<void> {
  const pin = await storedUploads(service).uploads.pin({ organizationId: 1, name, importId })
  await service.collections.imports.updateOne({ _id: importId }, { $set: { begins_at: new Date(0) } })
  await startImport(service.collections, importId, { pinned: pin!.blob })
}

/** Two tries of one step on the same staging; the engine of the first was judged dead. */
t.test('what an engine that was judged dead writes late is not what its successor reads', async (t) => {
  const service = onDisk
  const database = await openDatabase({ uri: testMongodbUri(), name: service.settings['MONGODB_DATABASE']! })
  t.teardown(() => database.close())
  for (const STAGING of ['disk', 'gridfs'] as const) {
    const staging = openStaging({ STAGING, DATA_DIR: service.dataFolder }, database.collections)
    let resume: () => void = () => undefined
    const paused = new Promise<void>((resolve) => (resume = resolve))
    const late = staging.write(
      stagedSource(7, 'late'),
      (async function* () {
        yield Buffer.from('late ')
        await paused
        yield Buffer.from('bytes')
      })(),
    )
    await staging.write(
      stagedSource(7, 'next'),
      (async function* () {
        yield Buffer.from('the next one’s bytes')
      })(),
    )
    resume()
    await late
    const file = (await staging.open(stagedSource(7, 'next')))!
    const target = Buffer.alloc(100)
    t.equal(target.toString('utf8', 0, await file.read(target, 0)), 'the next one’s bytes')
    t.equal(target.toString('utf8', 0, await file.read(target, 4)), 'next one’s bytes')
    await file.close()
    for (const again of [1, 2]) {
      await staging.remove(stagedSource(7, 'late'))
      t.equal(await staging.open(stagedSource(7, 'late')), null, `removed ${again} times`)
    }
    await staging.write(stagedSource(7, 'late'), Readable.from([Buffer.from('again')]))
    await staging.removeImport(7, { keep: [stagedSource(7, 'next')] })
    t.equal(await staging.open(stagedSource(7, 'late')), null)
    const kept = await staging.open(stagedSource(7, 'next'))
    t.equal(kept?.size, file.size)
    await kept?.close()
    await staging.removeImport(7)
    t.same(await staging.listImports({ olderThanMs: -60_000 }), [])
  }
})

for (const STAGING of ['disk', 'gridfs'] as const)
  t.test(`uploads that broke off go after a week: ${STAGING}`, async (t) => {
    const service = services[STAGING]
    const { collections, dataFolder } = service
    const database = await openDatabase({
      uri: testMongodbUri(),
      name: service.settings['MONGODB_DATABASE']!,
    })
    t.teardown(() => database.close())
    const uploads = openUploads({ STAGING, DATA_DIR: dataFolder }, database)
    const stored = storedUploads(service, 2)
    const directory = new UploadDirectory({ uploads, organizationId: 2, folder: null, limits: noLimits, log })
    for (const name of ['old.csv', 'young.csv', 'killed.csv']) {
      const upload = await directory.beginUpload(name, { append: false, start: undefined })
      await upload.open(new AbortController().signal)
      await upload.receive(Readable.from([Buffer.from('half')]))
      await upload.sync()
      if (name !== 'killed.csv') await upload.end()
    }
    const weekAgo = { modified_at: new Date(Date.now() - 8 * 24 * 3_600_000) }
    await collections.uploads.updateOne({ name: 'old.csv' }, { $set: weekAgo })
    await stored.endLease('killed.csv')
    t.equal(await uploads.purge({ olderThanMs: 7 * 24 * 3_600_000 }), 1)
    t.same((await stored.entries()).sort(), ['.unfinished-killed.csv', '.unfinished-young.csv'])
    t.equal((await directory.findPair('killed.csv')).unfinished?.size, 4)
    // What was reserved ahead for the killed one is free again.
    t.match(await collections.ledgers.findOne({ _id: 2 }), { bytes: 8, files: 2 })
  })

/** Uploads the content in all sessions at the same time. Resolves to their replies. */
const uploadTogether = (sessions: FtpSession[], content: string): Promise<string[]> =>
  Promise.all(
    sessions.map((session, i) =>
      session
        .upload(`STOR parallel${i}.csv`, content)
        // Refused before the data, when the others have reserved it all.
        .catch(errorMessage),
    ),
  )

for (const STAGING of ['disk', 'gridfs'] as const)
  t.test(`an upload directory stays within its limits: ${STAGING}`, async (t) => {
    const service = services[STAGING]
    const settings = { ...service.settings, UPLOAD_MAX_MB: '10', UPLOAD_MAX_FILES: '4' }
    const one = await startProcess('ftp', settings)
    t.teardown(() => one.stop())
    const two = await startProcess('ftp', settings)
    t.teardown(() => two.stop())
    const stored = storedUploads(service)
    const ledger = () => service.collections.ledgers.findOne({ _id: 1 })
    const open = (running = one) => FtpSession.open(running.ready.ftp!)
    const [a, b] = [await open(one), await open(two)]
    const megabyte = 'x'.repeat(1_000_000)

    t.match(await a.upload('STOR small.csv', megabyte), /^226 /)
    t.match(await a.upload('STOR small.csv', megabyte), /^226 /, 'what is replaced counts once')
    t.match(await ledger(), { bytes: 1_000_000, files: 1 })
    t.match(await a.upload('STOR much.csv', megabyte.repeat(11)), /^552 /)
    t.same(await stored.entries(), ['small.csv'], 'what passed the limit is removed')
    t.match(await ledger(), { bytes: 1_000_000, files: 1 })

    // Four sessions of two processes, 3 MB each, where 9 MB are free.
    const sessions = await Promise.all([one, two, one, two].map(open))
    const answers = await uploadTogether(sessions, megabyte.repeat(3))
    const taken = answers.filter((answer) => answer.startsWith('226')).length
    t.equal(answers.filter((answer) => answer.startsWith('552')).length, 4 - taken)
    const sizes = await Promise.all((await stored.entries()).map((entry) => stored.size(entry)))
    t.ok(taken >= 1 && taken <= 3, `${taken} of 4 were taken`)
    t.equal(
      sizes.reduce((sum, size) => sum + size, 0),
      1_000_000 + taken * 3_000_000,
    )
    const expectUsage = async (bytes: number) => t.equal((await ledger())!.bytes, bytes)
    await expectUsage(1_000_000 + taken * 3_000_000)
    for (const [i, answer] of answers.entries())
      if (answer.startsWith('226')) await a.command(`DELE parallel${i}.csv`)
    await expectUsage(1_000_000)

    for (const name of ['2', '3']) t.match(await a.upload(`STOR ${name}.csv`, 'x'), /^226 /)
    const data = await b.beginUpload('STOR 4.csv')
    await a.data()
    t.match(await a.command('STOR 5.csv'), /^552 /, 'an upload in progress is a file')
    t.match(await a.upload('STOR 3.csv', 'again'), /^226 /, 'a name that is there is none more')
    data.write('part')
    await until(
      'the part',
      async () => stored.size('.unfinished-4.csv'),
      (size) => size === 4,
    )
    t.match(await b.command('ABOR'), /^426 /)
    t.match(await b.reply(), /^226 /)
    data.destroy()
    await a.data()
    t.match(await a.command('STOR 5.csv'), /^552 /, 'and so is one that broke off')
    t.match(await a.command('DELE 4.csv'), /^250 /)
    t.match(await a.upload('STOR 5.csv', 'x'), /^226 /)

    t.match(await b.upload('STOR 5.csv', megabyte.repeat(5)), /^226 /)
    t.match(await ledger(), { files: 4, bytes: 6_000_000 + 2 + 5 - 1 })
    for (const session of [a, b, ...sessions]) session.close()
  })

for (const STAGING of ['disk', 'gridfs'] as const)
  t.test(`what is done to an upload once its import began changes nothing: ${STAGING}`, async (t) => {
    const service = services[STAGING]
    const ftp = await FtpSession.open(service.processes.ftp!.ready.ftp!)
    const changes: Record<string, (name: string) => Promise<unknown>> = {
      replaced: (name) => ftp.upload(`STOR ${name}`, rows(3, 100)),
      appended: (name) => ftp.upload(`APPE ${name}`, 'late@example.com\n'),
      deleted: (name) => ftp.command(`DELE ${name}`),
      'given another time': (name) => ftp.command(`MFMT 20200101000000 ${name}`),
      async 'given two times'(name) {
        await ftp.command(`MFMT 20200101000000 ${name}`)
        return ftp.command(`MFMT 20991231000000 ${name}`)
      },
      async renamed(name) {
        await ftp.command(`RNFR ${name}`)
        await ftp.command('RNTO elsewhere.csv')
        await ftp.upload(`STOR ${name}`, rows(1, 200))
      },
    }
    await engines[STAGING].kill(engines[STAGING].alive)
    const ids: number[] = []
    for (const what of Object.keys(changes)) {
      t.match(await ftp.upload(`STOR ${what}.csv`, rows(10)), /^226 /)
      const { id } = await create(service, `${what}.csv`, later)
      await begin(service, id, `${what}.csv`)
      ids.push(id)
    }
    for (const [what, change] of Object.entries(changes))
      t.match((await change(`${what}.csv`)) ?? '250', /^2/, what)
    await engineAtWork(engines[STAGING])
    for (const [i, what] of Object.keys(changes).entries()) {
      const view = await importEnd(service, ids[i]!)
      t.match(view, { state: 'finished' })
      t.same(countsOf(view), { added: 10 }, what)
    }
    ftp.close()
    await until(
      'the end of all pins and staged files',
      async () => [
        await service.collections.imports.countDocuments({ finalized: false }),
        await service.collections.blobPieces.countDocuments({ blob: /^staging/ }),
        await service.collections.uploads.countDocuments({ state: 'detached' }),
        (await readdir(path.join(service.dataFolder, 'staging')).catch(() => [])).length,
      ],
      (left) => left.every((count) => count === 0),
    )
  })

t.test(
  'no subscriber is deactivated for rows that a staged file has lost since they were written',
  async (t) => {
    const service = onDisk
    const { imports, subscribers } = service.collections
    const damages: Record<string, (file: string) => Promise<unknown>> = {
      truncated: (file) => truncate(file, 0),
      removed: (file) => rm(file),
    }
    const createOn = async (list: Json, content: string, options = {}): Promise<number> => {
      const created = await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
        subscriber_import: { column_mapping: ['email'], ...options, file_source: { type: 'json', content } },
      })
      return created.id
    }
    const lists = await Promise.all(Object.keys(damages).map(() => createList(service)))
    await engineAtWork(engines.disk)
    for (const list of lists) await createOn(list, rows(20))
    await until(
      'the end of all imports',
      () => imports.countDocuments({ finalized: false }),
      (count) => count === 0,
    )
    await engines.disk.kill(engines.disk.alive)

    const ids: number[] = []
    for (const [i, damage] of Object.values(damages).entries()) {
      const engine = await engines.disk.start('aggregate import_chunks $counts.added after 1')
      const id = await createOn(lists[i], rows(15), { deactivate_subscribers_not_in_import: true })
      ids.push(id)
      await engine.ended
      await engines.disk.endLeaseOf(engine)
      // The next step waits until the last file is damaged, too.
      await imports.updateOne({ _id: id }, { $set: { 'lease.not_before': new Date('2100-01-01') } })
      const staging = path.join(service.dataFolder, 'staging', String(id))
      for (const name of await readdir(staging)) await damage(path.join(staging, name))
    }
    // The next try of the step is its last one.
    const lastTry = { 'lease.not_before': new Date(0), 'lease.tries': 4 }
    await imports.updateMany({ _id: { $in: ids } }, { $set: lastTry })
    await engines.disk.start()
    for (const [i, what] of Object.keys(damages).entries()) {
      const view = await importEnd(service, ids[i]!)
      t.match(view, { state: 'failed', error_message: /DATA_DIR\/staging/ }, what)
      t.equal(view.stats.subscribers.deactivated, 0)
      t.equal(await subscribers.countDocuments({ mailing_list_id: lists[i]!.id, status: 'active' }), 20)
    }
  },
)

t.test(
  'a chunk whose staged bytes are damaged fails its import, and the metrics count it as damaged',
  async (t) => {
    const service = onDisk
    // An engine of an earlier test would take the import over.
    await engines.disk.kill(engines.disk.alive)
    // A small import would have no chunk.
    await storedUploads(service).put('sound.csv', rows(4_000))
    const before = await engines.disk.start('findAndModify import_chunks before 1')
    const { id } = await create(service, 'sound.csv')
    await before.ended
    await engines.disk.endLeaseOf(before)
    const staging = path.join(service.dataFolder, 'staging', String(id))
    for (const name of await readdir(staging)) await truncate(path.join(staging, name), 1)
    const { ready, stop } = await service.start('engine')
    t.match(await importEnd(service, id), { state: 'failed', error_message: /its checksum differs/ })
    const metrics = await (await fetch(ready.metrics['engine']!)).text()
    const failures = /^rollcall_import_failures_total\{reason="(\w+)"\} [1-9]/gm
    t.same(
      [...metrics.matchAll(failures)].map(([, reason]) => reason),
      ['chunk_damaged'],
    )
    await stop()
  },
)

t.test('files that were uploaded by FTP are imported at once', async (t) => {
  const service = onDisk
  await engineAtWork(engines.disk)
  const ftp = await FtpSession.open(service.processes.ftp!.ready.ftp!)
  await ftp.upload('STOR fresh.csv.part', rows(10))
  await ftp.command('RNFR fresh.csv.part')
  t.match(await ftp.command('RNTO fresh.csv'), /^250 /)
  const mac = 'März.csv'.normalize('NFD')
  t.match(await ftp.upload(`STOR ${mac}`, rows(10)), /^226 /)
  t.match(await ftp.upload(`STOR .${mac}`, rows(10)), /^226 /)
  for (const name of ['fresh.csv', 'März.csv', mac, '.März.csv', `.${mac}`]) {
    const view = await importEnd(service, (await create(service, name)).id)
    t.match(view, { state: 'finished', warnings: [] }, name)
    t.equal(view.file_source.filename, name.normalize('NFC'))
    t.same(countsOf(view), { added: 10 })
  }
  const now = new Date().toISOString().replace(/\D/g, '').slice(0, 14)
  for (const time of ['20200101000000', now, '20991231000000']) {
    t.match(await ftp.upload('STOR timed.csv', rows(10)), /^226 /)
    t.match(await ftp.command(`MFMT ${time} timed.csv`), /^213 /)
    const view = await importEnd(service, (await create(service, 'timed.csv')).id)
    t.match(view, { state: 'finished', warnings: [] }, time)
  }
  ftp.close()
})

for (const STAGING of ['disk', 'gridfs'] as const)
  t.test(`an upload that is gone when its import begins fails it at once: ${STAGING}`, async (t) => {
    const service = services[STAGING]
    const engine = await engineAtWork(engines[STAGING])
    const ftp = await FtpSession.open(service.processes.ftp!.ready.ftp!)
    t.match(await ftp.upload('STOR gone.csv', rows(10)), /^226 /)
    const { id } = await create(service, 'gone.csv', later)
    t.match(await ftp.command('DELE gone.csv'), /^250 /)
    ftp.close()
    const startedAt = Date.now()
    await service.collections.imports.updateOne({ _id: id }, { $set: { begins_at: new Date() } })
    t.match(await importEnd(service, id), { state: 'failed', error_message: /gone\.csv/ })
    t.ok(Date.now() - startedAt < 30_000, 'no engine with another folder is waited for')
    t.notMatch(engine.log(), 'a file is missing here', 'nothing is wrong with the folder')
  })

t.test('an engine starts any number of imports of uploads, one after the other', async (t) => {
  await storedUploads(onDisk).put('small.csv', rows(1))
  await engineAtWork(engines.disk)
  const states: string[] = []
  for (let i = 0; i < 10; i += 1)
    states.push((await importEnd(onDisk, (await create(onDisk, 'small.csv')).id)).state)
  t.same(states, Array<string>(10).fill('finished'))
})

t.test('pins and pieces in the database that no import needs are removed', async (t) => {
  const { collections, settings, dataFolder } = services.gridfs
  const database = await openDatabase({ uri: testMongodbUri(), name: settings['MONGODB_DATABASE']! })
  t.teardown(() => database.close())
  const stored = storedUploads(services.gridfs)
  await stored.put('pinned.csv', Buffer.from(rows(1)))
  const { id: waiting } = await create(services.gridfs, 'pinned.csv', later)
  const { id: ended } = await create(services.gridfs, 'pinned.csv', later)
  const [gone, notYet] = [900_001, 900_002]
  await collections.imports.updateOne(
    { _id: ended },
    { $set: { state: 'cancelled', finished_at: new Date(), finalized: true, totals: noCounts() } },
  )
  await collections.uploads.updateOne({ name: 'pinned.csv' }, { $set: { pinned_by: [waiting, ended, gone] } })
  // A file that an engine wrote after its removal, and one of a creation that may still be committed.
  const staging = openStaging({ STAGING: 'gridfs', DATA_DIR: dataFolder }, collections)
  const late = await stored.uploads.blobs.append(`staging/${gone}/late`, { isNew: true })
  for (const remove of [() => staging.removeImport(gone), () => late.close()]) {
    await late.append([Buffer.from('x')])
    await late.flush()
    await remove()
  }
  for (const id of [gone, notYet]) await staging.write(stagedSource(id), Readable.from([Buffer.from('x')]))
  const hoursAgo = { begun_at: new Date(Date.now() - 2 * 3_600_000) }
  await collections.blobPieces.updateMany({ blob: new RegExp(`^staging/${gone}/`) }, { $set: hoursAgo })
  await sweepStaging(
    database,
    {
      staging,
      uploads: openUploads({ STAGING: 'gridfs', DATA_DIR: dataFolder }, database),
    },
    log,
  ).runOnce()
  t.same(await collections.uploads.distinct('pinned_by', { name: 'pinned.csv' }), [waiting])
  t.same(await collections.blobPieces.distinct('blob', { blob: /^staging\/9/ }), [`staging/${notYet}/source`])
})

t.test('an import that begins later has no pin until then', async (t) => {
  const service = onDisk
  await engineAtWork(engines.disk)
  await storedUploads(service).put('for later.csv', rows(3))
  const list = await createList(service)
  const body = {
    column_mapping: ['email'],
    file_source: { type: 'upload_directory', filename: 'for later.csv' },
  }
  const createImport = (more: object): Promise<Json> =>
    service.post(`/mailing_lists/${list.id}/subscriber_imports`, { subscriber_import: { ...body, ...more } })
  const first = await createImport(later)
  // An import that ends makes its engine look for the next one of the list.
  const second = await createImport({})
  t.equal((await importEnd(service, second.id)).state, 'finished')
  await until(
    'the end of its pin',
    () => service.collections.uploads.findOne({ name: 'for later.csv' }),
    (upload) => (upload?.pinned_by ?? []).length === 0,
    10_000,
  )
  t.equal((await service.get(`/subscriber_imports/${first.id}`)).state, 'scheduled')
})
