import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdir, stat } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { purgeLogs } from '../../engine/jobs/purge-logs.ts'
import { openDatabase } from '../../shared/runtime/database.ts'
import { errorMessage } from '../../shared/contract/errors.ts'
import { createLogger } from '../../shared/runtime/logger.ts'
import { removeImportEntry } from '../../shared/store/staged-usage.ts'
import { StagedQuota } from '../../shared/storage/uploads/staged-quota.ts'
import { crashAt } from '../helpers/crash-at.ts'
import { FtpSession } from '../helpers/ftp-session.ts'
import {
  callerOf,
  createList,
  importEnd,
  startProcess,
  startService,
  testMongodbUri,
  until,
  type Json,
  type RunningProcess,
  type Service,
} from '../helpers/service.ts'

/**
 * What imports have staged counts against their organization's quota until it is removed, and the number of imports
 * is bounded.
 */

const later = '2099-01-01T00:00:00Z'
const settings = { UPLOAD_MAX_MB: '4', IMPORTS_MAX_UNFINISHED: '12' }

/** Text that hardly packs. */
const random = (bytes: number) => randomBytes(bytes * 0.75).toString('base64')
const usageOf = (service: Service) => service.collections.ledgers.findOne({ _id: 1 })

/** Bytes of all files of imports. */
async function stagedBytes(service: Service): Promise<number> {
  const inDocuments = await service.collections.imports.find({ content: { $exists: true } }).toArray()
  return inDocuments.reduce((sum, { content }) => sum + content!.length, await bytesInFiles(service))
}

async function bytesInFiles({ dataFolder, collections, settings }: Service): Promise<number> {
  if (settings['STAGING'] === 'gridfs') {
    const ofImports = { blob: /^staging\//, n: { $gte: 0 } }
    const pieces = await collections.blobPieces.find(ofImports, { projection: { n: 1, end: 1 } }).toArray()
    return pieces.reduce((sum, { n, end }) => sum + end - n, 0)
  }
  const folder = path.join(dataFolder, 'staging')
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  const files = entries.filter((entry) => entry.isFile())
  const sizes = await Promise.all(
    files.map(async (file) => (await stat(path.join(file.parentPath, file.name))).size),
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}

/** The organization's staged bytes, as stored. */
async function countedBytes(service: Service): Promise<number> {
  const { imports = [] } = (await usageOf(service)) ?? {}
  return imports.reduce((sum, { source, partition }) => sum + source + partition, 0)
}

async function create(service: Service, source: Json, more: Json = {}, call = service.call) {
  const list = await createList(service)
  const body = { subscriber_import: { column_mapping: ['email'], ...more, file_source: source } }
  return call('POST', `/mailing_lists/${list.id}/subscriber_imports`, gzipSync(JSON.stringify(body)), {
    headers: { 'content-encoding': 'gzip' },
  })
}
const createInline = (service: Service, content: string, call?: Service['call']) =>
  create(service, { type: 'json', content }, { begins_at: later }, call)

/** Cancels all imports, waits until an engine has cleared up after them, and stops it. */
async function clear(t: Test, service: Service, running?: RunningProcess): Promise<void> {
  const engine = running ?? (await service.start('engine'))
  for (const { _id } of await service.collections.imports.find({ finished_at: null }).toArray())
    await service.post(`/subscriber_imports/${_id}/cancel`)
  await until(
    'all cleared up',
    () => service.collections.imports.countDocuments({ finalized: false }),
    (count) => count === 0,
  )
  t.match(await usageOf(service), { imports: [] }, 'nothing is counted any more')
  t.equal(await stagedBytes(service), 0)
  await engine.stop()
}

/** By name, in this order: some need what an earlier one has left staged or uploaded. */
const quotaTests: Record<string, (t: Test, service: Service) => Promise<void>> = {
  'many small requests with much content do not become much': async (t, service) => {
    const { collections } = service
    const content = `email\n${'someone@example.com\n'.repeat(400_000)}`
    const answers: Json[] = []
    for (let i = 0; i < 14; i += 1) answers.push(await createInline(service, content))
    t.same(
      answers.map(({ status }) => status),
      [...Array.from({ length: 12 }, () => 200), 429, 429],
    )
    t.match(answers[12].body, { error_code: 'not_authorized', error_message: /12 imports.*cancel some/ })
    t.equal(answers[12].headers.get('retry-after'), '60')
    const staged = await stagedBytes(service)
    t.comment(`${((12 * content.length) / 1e6).toFixed(0)} MB of content take ${staged} bytes`)
    t.ok(staged < 500_000, '96 MB of content take less than half a megabyte')
    t.equal(await countedBytes(service), staged)
    t.equal(await collections.imports.countDocuments(), 12)
    await clear(t, service)
  },

  'concurrent creations stay within the quota together, and leave nothing behind': async (t, service) => {
    const { collections, call } = service
    const other = await startProcess('control-plane', service.settings)
    const calls = [call, callerOf(() => other.ready.http!)]
    t.teardown(() => other.stop())
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, i) => createInline(service, random(1_500_000), calls[i % 2])),
    )
    const created = answers.filter(({ body }) => body.success).length
    t.ok(created === 2 || created === 3, `${created} of 8 were created`)
    const refused = answers.filter(({ status }) => status === 413)
    t.equal(refused.length, 8 - created)
    t.match(refused[0]!.body, {
      error_code: 'invalid_request',
      error_message: /quota of 4 MB.*nothing was created/,
    })
    t.equal(await collections.imports.countDocuments({ finished_at: null }), created)
    await until(
      'what was refused gone',
      async () => (await stagedBytes(service)) - (await countedBytes(service)),
      (difference) => difference === 0,
    )
    t.ok((await countedBytes(service)) <= 4_000_000)
    t.equal((await usageOf(service))!.imports.length, created)
  },

  'uploads share the quota with what is staged': async (t, service) => {
    const ftp = await FtpSession.open(service.processes.ftp!.ready.ftp!)
    t.match(await ftp.upload('STOR big.csv', 'x'.repeat(3_000_000)).catch(errorMessage), /^552 /)
    ftp.close()
  },

  'what a killed creation left in the ledger is found before anything is refused': async (t, service) => {
    const { collections } = service
    await clear(t, service)
    const entered_at = new Date(Date.now() - 2 * 3_600_000)
    const entry = (import_id: number) => ({ import_id, source: 2_000_000, partition: 0, entered_at })
    const finalizedId = (await collections.imports.findOne({ finalized: true }))!._id
    await collections.ledgers.updateOne(
      { _id: 1 },
      { $push: { imports: { $each: [entry(900_001), entry(finalizedId)] } } },
    )
    t.equal((await createInline(service, random(1_500_000))).status, 200)
    t.equal((await usageOf(service))!.imports.length, 1)
    t.equal(await countedBytes(service), await stagedBytes(service))
    await clear(t, service)
  },

  'upload, import, pause, DELE, again: the file counts until the import lets it go': async (t, service) => {
    const { collections } = service
    const ftp = await FtpSession.open(service.processes.ftp!.ready.ftp!)
    t.teardown(() => ftp.close())
    const content = `email\n${'a@example.com\n'.repeat(214_000)}`
    t.match(await ftp.upload('STOR rows.csv', content), /^226 /)
    // An engine that dies of the start.
    const { child } = await service.start('engine', crashAt('findAndModify imports started_at after 1'))
    const { body } = await create(service, { type: 'upload_directory', filename: 'rows.csv' })
    const { id } = body.data
    if (child.signalCode === null) await once(child, 'exit')
    await service.post(`/subscriber_imports/${id}/pause`)
    const engine = await service.start('engine')
    t.match(await usageOf(service), { bytes: content.length, files: 1 }, 'with its name it counts once')
    t.match(await ftp.command('DELE rows.csv'), /^250 /)
    t.match(await usageOf(service), { bytes: content.length, files: 0 })
    t.match(await ftp.upload('STOR rows.csv', content).catch(errorMessage), /^552 /)
    t.match((await createInline(service, random(1_500_000))).status, 413)

    t.match(await ftp.upload('STOR small.csv', 'email\n'), /^226 /, 'what fits is taken')
    await service.post(`/subscriber_imports/${id}/cancel`)
    await until(
      'its end',
      () => collections.imports.countDocuments({ _id: id, finalized: true }),
      (count) => count === 1,
    )
    t.match(await usageOf(service), { bytes: 'email\n'.length, files: 1, imports: [] })
    t.match(await ftp.upload('STOR rows.csv', content), /^226 /)

    // Paused when it is split already: the file is gone, and what came of it counts.
    const again = await create(service, { type: 'upload_directory', filename: 'rows.csv' })
    await importEnd(service, again.body.data.id)
    await ftp.command('DELE rows.csv')
    await ftp.command('DELE small.csv')
    await clear(t, service, engine)
  },

  'a download that does not fit fails its import, with a sentence': async (t, service) => {
    const server = createServer((_request, response) => {
      response.end(`email\n${'a@example.com\n'.repeat(400_000)}`)
    }).listen(0, '127.0.0.1')
    t.teardown(() => server.close())
    await until(
      'a server',
      async () => server.address(),
      (address) => address !== null,
    )
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/rows.csv`
    const engine = await service.start('engine')
    const { body } = await create(service, { type: 'url', url })
    const view = await importEnd(service, body.data.id)
    t.match(view, {
      state: 'failed',
      error_message: /quota of 4 MB \(UPLOAD_MAX_MB\).*create the import again/,
    })
    await clear(t, service, engine)
  },

  'the reservations and files of a killed engine are removed with its import': async (t, service) => {
    const server = createServer((_request, response) => {
      // The reply never ends.
      response.write(`email\n${'a@example.com\n'.repeat(220_000)}`)
    }).listen(0, '127.0.0.1')
    t.teardown(() => {
      server.closeAllConnections()
      server.close()
    })
    await until(
      'a server',
      async () => server.address(),
      (address) => address !== null,
    )
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/rows.csv`
    const killed = await service.start('engine')
    const { body } = await create(service, { type: 'url', url })
    await until(
      'a reservation',
      () => countedBytes(service),
      (bytes) => bytes > 3_000_000,
    )
    await killed.stop('SIGKILL')
    // Ends its lease as another engine would after 12 s.
    await service.collections.engines.updateMany({ process_id: killed.child.pid! }, { $set: { dead: true } })
    t.equal((await createInline(service, random(3_000_000))).status, 413, 'it counts although it is dead')
    await service.post(`/subscriber_imports/${body.data.id}/cancel`)
    await clear(t, service)
    t.equal((await createInline(service, random(3_000_000))).status, 200)
    await clear(t, service)
  },

  'an import whose organization has too much staged waits for the others': async (t, service) => {
    const { collections, call } = service
    const first = (await createInline(service, 'email\n')).body.data.id
    const second = (await createInline(service, 'email\nsecond@example.com\n'.repeat(9_000))).body.data.id
    // It counts as if it were large and split.
    await collections.ledgers.updateOne(
      { _id: 1, 'imports.import_id': first },
      { $set: { 'imports.$.partition': 3_900_000 } },
    )
    const engine = await service.start('engine')
    await collections.imports.updateOne({ _id: second }, { $set: { begins_at: new Date(0) } })
    const view = await until(
      'its waiting',
      () => service.get(`/subscriber_imports/${second}`),
      ({ warnings }) => warnings.length > 0,
    )
    t.match(view, { state: 'splitting', warnings: [/had to wait.*UPLOAD_MAX_MB/] })
    await call('POST', `/subscriber_imports/${first}/cancel`)
    t.match(await importEnd(service, second), { state: 'finished' })
    await clear(t, service, engine)
  },
}

const STAGING = process.env['ROLLCALL_TEST_STAGING'] ?? 'disk'

t.test(`the quota covers what is staged: ${STAGING}`, async (t) => {
  const service = await startService(t, ['control-plane', 'ftp'], { ...settings, STAGING })
  for (const [name, run] of Object.entries(quotaTests)) await t.test(name, (t) => run(t, service))
})

// The rest doesn't depend on the staging, so staged-quota-gridfs.test.ts leaves it out.
if (STAGING === 'disk') {
  t.test('without a limit of bytes imports are bounded in number all the same', async (t) => {
    const service = await startService(t, ['control-plane'], {
      UPLOAD_MAX_MB: '0',
      UPLOAD_MAX_FILES: '0',
      IMPORTS_MAX_UNFINISHED: '3',
    })
    const answers = await Promise.all(Array.from({ length: 9 }, () => createInline(service, 'email\n')))
    t.equal(answers.filter(({ body }) => body.success).length, 3)
    t.equal(answers.filter(({ status }) => status === 429).length, 6)
    t.equal(await service.collections.imports.countDocuments(), 3)
  })

  t.test('a disk with less than the reserve accepts nothing, and imports wait', async (t) => {
    const service = await startService(t, ['control-plane'])
    const reserve = { DISK_RESERVE_MB: '1000000000' }
    const { id } = (
      await create(service, { type: 'json', content: 'email\na@example.com\n' }, { begins_at: later })
    ).body.data
    await service.processes['control-plane']!.stop()
    await service.start('control-plane', reserve)
    const refused = await createInline(service, random(200_000))
    t.equal(refused.status, 507)
    t.match(refused.body, {
      error_code: 'internal_error',
      error_message: /too little space left, and nothing was created/,
    })
    t.equal(await service.collections.imports.countDocuments(), 1)

    const engine = await service.start('engine', reserve)
    await service.collections.imports.updateOne({ _id: id }, { $set: { begins_at: new Date(0) } })
    await until(
      'the metric',
      async () => (await fetch(engine.ready.metrics['engine']!)).text(),
      (text) => text.includes('\nrollcall_import_steps_without_space 1\n'),
    )
    t.match(engine.log(), /imports wait for space on the disk: .* less than the reserve of 1000000000 MB/)
    t.match(await service.get(`/subscriber_imports/${id}`), { state: 'scheduled' }, 'nothing is begun')
    await engine.stop()
    await service.start('engine')
    t.match(await importEnd(service, id), { state: 'finished' }, 'it resumes when there is space')

    await service.processes.engine!.stop()
    await service.processes['control-plane']!.stop()
    await service.start('control-plane')
    // A small import would be finished with its rows.
    const rows = 'b@example.com\n'.repeat(4_000)
    const { id: split } = (await create(service, { type: 'json', content: `email\n${rows}` })).body.data
    const crashing = await service.start(
      'engine',
      crashAt('findAndModify imports "state":"finished" before 1'),
    )
    await once(crashing.child, 'exit')
    t.match(await service.get(`/subscriber_imports/${split}`), { state: 'importing' })
    await service.start('engine', reserve)
    t.match(
      await importEnd(service, split),
      { state: 'finished' },
      'one whose rows are written needs no space',
    )
  })

  t.test('failed rows of ended imports count until their logs are purged', async (t) => {
    const service = await startService(t, ['control-plane', 'engine'], settings)
    const { collections } = service
    const database = await openDatabase({
      uri: testMongodbUri(),
      name: service.settings['MONGODB_DATABASE']!,
    })
    t.teardown(() => database.close())
    const rows = 'x\n'.repeat(60_000)
    const { body } = await create(service, { type: 'json', content: `email\n${rows}` })
    await importEnd(service, body.data.id)
    await until(
      'its clearing up',
      () => collections.imports.countDocuments({ finalized: true }),
      (count) => count === 1,
    )
    const [{ bytes }] = (await collections.failures
      .aggregate([{ $group: { _id: null, bytes: { $sum: { $bsonSize: '$$ROOT' } } } }])
      .toArray()) as [{ bytes: number }]
    t.ok(bytes > 4_000_000)
    t.match(await usageOf(service), { imports: [], kept: bytes })
    // Where the removal of its files is late, the sweep of the staging removes the entry first.
    const quota = new StagedQuota({ collections, limits: { bytes: 4_000_000, imports: 12 } })
    const entry = { import_id: body.data.id, source: 1, partition: 0, entered_at: new Date() }
    await collections.ledgers.updateOne({ _id: 1 }, { $set: { imports: [entry], kept: 0 } })
    await removeImportEntry(collections, entry.import_id)
    await quota.removeEntry({ _id: entry.import_id, organization_id: 1 })
    t.match(await usageOf(service), { imports: [], kept: bytes })
    const refused = await createInline(service, 'email\nann@example.com\n')
    t.equal(refused.status, 413)
    t.match(refused.body.error_message, /failed rows of the last 7 days/)

    await collections.imports.updateOne(
      {},
      { $set: { finished_at: new Date(Date.now() - 7 * 24 * 3_600_000) } },
    )
    const purge = purgeLogs(database, createLogger({ process: 'test', level: 'silent' }))
    await purge.runOnce()
    await purge.runOnce()
    t.match(await usageOf(service), { kept: 0 })

    const list = await createList(service, [{ name: 'Note', field_type: 'text_multiline' }])
    const defaults = { column_mapping: ['email'], default_custom_fields: { Note: 'x'.repeat(60_000) } }
    const cancelled = await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
      subscriber_import: { ...defaults, begins_at: later, file_source: { type: 'json', content: 'email\n' } },
    })
    await service.post(`/subscriber_imports/${cancelled.id}/cancel`)
    await until(
      'its clearing up',
      () => collections.imports.countDocuments({ finalized: true }),
      (count) => count === 2,
    )
    const { kept } = (await usageOf(service))!
    t.ok(kept > 60_000 && kept < 60_100, `the defaults of a cancelled one count ${kept}`)

    const finished = await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
      subscriber_import: { ...defaults, file_source: { type: 'json', content: 'email\nann@example.com\n' } },
    })
    t.match(await importEnd(service, finished.id), {
      state: 'finished',
      stats: { subscribers: { added: 1 } },
    })
    await until(
      'its clearing up',
      () => usageOf(service),
      (usage) => usage!.imports.length === 0,
    )
    t.match(await usageOf(service), { kept: 2 * kept }, 'those of a finished one too')
  })
}
