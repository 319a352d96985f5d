import { randomBytes } from 'node:crypto'
import {
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  unlink,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t, { type Test } from 'tap'
import { crashAt } from '../helpers/crash-at.ts'
import { FtpSession } from '../helpers/ftp-session.ts'
import { readinessAt } from '../helpers/readiness.ts'
import {
  countsOf,
  createList,
  importEnd,
  importText,
  startService,
  until,
  type RunningProcess,
  type Service,
} from '../helpers/service.ts'

/** One of several engines doesn't share the others' folder, and files are really missing. */

t.setTimeout(500_000)

const noHeader = { column_mapping: ['email'], file_format: { csv_has_headers: false } }
const rowsOf = (count: number): string =>
  Array.from({ length: count }, (_, i) => `x${i}@example.com\n`).join('')

const createImport = async (service: Service, rows: number, more = {}): Promise<number> => {
  const list = await createList(service)
  const { id } = await service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: { ...noHeader, file_source: { type: 'json', content: rowsOf(rows) }, ...more },
  })
  return id as number
}

/** Too much for the import's document. */
const createStaged = (service: Service, more = {}): Promise<number> => {
  const rows = Array.from({ length: 10_000 }, () => `${randomBytes(12).toString('hex')}@example.com\n`)
  return createImport(service, 0, { file_source: { type: 'json', content: rows.join('') }, ...more })
}

async function emptyFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'rollcall test '))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

const portOf = ({ ready }: RunningProcess): string => Object.values(ready.metrics)[0]!.replace('/metrics', '')

const readiness = (running: RunningProcess) => readinessAt(`${portOf(running)}/metrics`)

/** Scrapes share a reading for up to 5 s. */
const untilMetric = (running: RunningProcess, metric: RegExp) =>
  until(
    `the metric ${metric.source}`,
    async () => (await fetch(`${portOf(running)}/metrics`)).text(),
    (text) => metric.test(text),
    20_000,
  )

const untilReady = (running: RunningProcess, isReady: boolean) =>
  until(
    isReady ? 'a green /readyz' : 'a red /readyz',
    () => readiness(running),
    ({ status }) => (status === 200) === isReady,
    20_000,
  )

/** Does what umount does: the folder is empty, and its content comes back with the next mount. */
async function unmount(folder: string): Promise<() => Promise<void>> {
  const away = `${folder} away`
  await rename(folder, away)
  await mkdir(folder)
  return async () => {
    await rm(folder, { recursive: true })
    await rename(away, folder)
  }
}

t.test('an engine with an empty folder is red, and the others do its work', async (t) => {
  const service = await startService(t, ['control-plane', 'engine'])
  const mark = path.join(service.dataFolder, 'installation.id')
  t.equal((await stat(mark)).mode & 0o777, 0o600)
  const healthy = service.processes.engine!
  const folder = await emptyFolder(t)
  const sick = await service.start('engine', { DATA_DIR: folder })
  const { status, text } = await readiness(sick)
  t.equal(status, 503)
  t.match(text, /DATA_DIR .* lacks the mark of this installation, .*mount the folder/)
  await untilMetric(sick, /^rollcall_data_folder_available 0$/m)
  await untilMetric(healthy, /^rollcall_data_folder_available 1$/m)

  const ids: number[] = []
  for (let i = 0; i < 8; i += 1) ids.push(await createImport(service, 5_000))
  for (const id of ids) {
    const view = await importEnd(service, id)
    t.same([view.state, countsOf(view)], ['finished', { added: 5_000 }], view.error_message ?? '')
  }
  t.same((await readdir(folder)).sort(), [], 'nothing is written into a folder that may be another one')
  t.match(sick.log(), /"level":"error".*no file is read or written until DATA_DIR is available/)

  // The new folder replaces a lost one, as the message says.
  await writeFile(path.join(folder, 'installation.id'), await readFile(mark))
  await untilReady(sick, true)
  await untilMetric(sick, /^rollcall_data_folder_available 1$/m)
})

t.test('a folder that is unmounted while an engine works', async (t) => {
  const service = await startService(t, ['control-plane', 'engine'])
  const healthy = service.processes.engine!
  // The other engine has the same files under another path.
  const folder = await emptyFolder(t)
  await rm(folder, { recursive: true })
  await symlink(service.dataFolder, folder)
  const sick = await service.start('engine', { DATA_DIR: folder })
  t.equal((await readiness(sick)).status, 200)
  const begins_at = new Date(Date.now() + 86_400_000).toISOString()
  const ids: number[] = []
  for (let i = 0; i < 8; i += 1) ids.push(await createImport(service, 5_000, { begins_at }))
  await unlink(folder)
  await mkdir(folder)
  await service.collections.imports.updateMany({}, { $set: { begins_at: new Date() } })
  for (const id of ids) {
    const view = await importEnd(service, id)
    t.same([view.state, countsOf(view)], ['finished', { added: 5_000 }], view.error_message ?? '')
  }
  t.match((await untilReady(sick, false)).text, /lacks the mark of this installation/)
  t.same(await readdir(folder), [])
  t.equal((await readiness(healthy)).status, 200)

  await rm(folder, { recursive: true })
  await symlink(service.dataFolder, folder)
  await untilReady(sick, true)
  await healthy.stop()
  const view = await importEnd(service, await createImport(service, 100))
  t.same([view.state, countsOf(view)], ['finished', { added: 100 }], 'it works again')
})

t.test('an engine that misses the files in a folder with the mark leaves them to the others', async (t) => {
  const service = await startService(t, ['control-plane'])
  const folder = await emptyFolder(t)
  await copyFile(path.join(service.dataFolder, 'installation.id'), path.join(folder, 'installation.id'))
  const sick = await service.start('engine', { DATA_DIR: folder })
  t.equal((await readiness(sick)).status, 200)
  const ids: number[] = []
  for (let i = 0; i < 8; i += 1) ids.push(await createStaged(service))
  await untilMetric(sick, /^rollcall_import_files_missing_total [1-9]/m)
  await service.start('engine')
  t.match((await untilReady(sick, false)).text, /files of \d+ imports are missing in DATA_DIR of this engine/)
  t.match(sick.log(), /a file is missing here \(try 1 of 5\); this engine leaves the import alone for 60 s/)
  // The restarted engine misses the files again, under another id.
  await sick.stop()
  await service.start('engine', { DATA_DIR: folder })
  for (const id of ids) {
    const view = await importEnd(service, id)
    t.same([view.state, countsOf(view)], ['finished', { added: 10_000 }], view.error_message ?? '')
  }
  t.equal(await service.collections.imports.countDocuments({ error_message: { $ne: null } }), 0)
})

t.test('all processes wait while the folder is unmounted', async (t) => {
  const service = await startService(t, ['control-plane', 'engine', 'ftp'])
  const scheduled = await createImport(service, 1_000, {
    begins_at: new Date(Date.now() + 86_400_000).toISOString(),
  })
  const mount = await unmount(service.dataFolder)
  const processes = Object.values(service.processes)
  for (const running of processes) await untilReady(running, false)
  const list = await createList(service)
  const creation = { subscriber_import: { ...noHeader, file_source: { type: 'json', content: rowsOf(10) } } }
  const refused = await service.call('POST', `/mailing_lists/${list.id}/subscriber_imports`, creation)
  t.equal(refused.status, 503)
  t.match(refused.body.error_message, /can't be reached just now, and nothing was created/)
  await service.collections.imports.updateOne({ _id: scheduled }, { $set: { begins_at: new Date() } })
  const restarted = await Promise.all(
    (['control-plane', 'engine', 'ftp'] as const).map(async (name) => {
      await service.processes[name]!.stop()
      return service.start(name)
    }),
  )
  for (const running of restarted)
    t.match(await readiness(running), { status: 503, text: /lacks the mark of this installation/ })
  t.same(await readdir(service.dataFolder), [], 'no key and no mark is made in there')
  t.equal((await service.call('GET', `/mailing_lists/${list.id}`)).status, 200, 'what needs no files works')
  await t.rejects(FtpSession.open(service.processes.ftp!.ready.ftp!), /^451 /)

  await mount()
  for (const running of restarted) await untilReady(running, true)
  const session = await FtpSession.open(service.processes.ftp!.ready.ftp!)
  t.match(await session.command('STAT .'), /^21/)
  session.close()
  t.equal((await importEnd(service, scheduled)).state, 'finished')
  t.same(countsOf(await importText(service, list.id, rowsOf(10), noHeader)), { added: 10 })
})

t.test('a folder of another installation stops the start', async (t) => {
  const service = await startService(t, ['control-plane'])
  const other = await startService(t, [])
  for (const name of ['control-plane', 'engine', 'ftp'] as const)
    await t.rejects(
      other.start(name, { DATA_DIR: service.dataFolder }),
      /belongs to another installation: it has the mark .* has none/,
    )
  await other.start('engine')
  await t.rejects(
    other.start('engine', { DATA_DIR: service.dataFolder }),
    /belongs to another installation: it has the mark .* Set DATA_DIR/,
  )
})

t.test('processes that begin at once on an empty folder make one mark', async (t) => {
  const service = await startService(t, [])
  const names = ['control-plane', 'engine', 'ftp', 'engine'] as const
  const started = await Promise.all(names.map((name) => service.start(name)))
  for (const running of started) t.equal((await readiness(running)).status, 200)
  const { data_folder_id: id } = (await service.collections.installation.findOne())!
  t.equal(await readFile(path.join(service.dataFolder, 'installation.id'), 'utf8'), `${id}\n`)
  const marks = (await readdir(service.dataFolder)).filter((name) => name.startsWith('installation'))
  t.same(marks, ['installation.id'])
})

t.test('a process that is killed while it makes the mark leaves one to be named', async (t) => {
  const service = await startService(t, [])
  await t.rejects(
    service.start('engine', {
      ...crashAt('update installation data_folder_id after 1'),
    }),
    /SIGKILL at/,
  )
  t.match(await readdir(service.dataFolder), [/^installation\.id\..*\.new$/])
  t.equal((await readiness(await service.start('engine'))).status, 200)
  t.ok((await readdir(service.dataFolder)).includes('installation.id'))
})

t.test('an installation without a mark gets one where its staged files are', async (t) => {
  const service = await startService(t, ['control-plane'])
  const id = await createStaged(service)
  await service.processes['control-plane']!.stop()
  await service.collections.installation.updateMany({}, { $unset: { data_folder_id: '' } })
  await rm(path.join(service.dataFolder, 'installation.id'))
  const sick = await service.start('engine', { DATA_DIR: await emptyFolder(t) })
  t.match(await readiness(sick), { status: 503, text: /unfinished imports with staged files \(\d+\)/ })
  await service.start('control-plane')
  await service.start('engine')
  t.equal((await importEnd(service, id)).state, 'finished')
  t.match(
    await until(
      'the mark to be missing',
      () => readiness(sick),
      ({ text }) => text.includes('lacks the mark'),
      20_000,
    ),
    { status: 503 },
  )
})

t.test('files that are gone fail the import with the fifth try', async (t) => {
  const service = await startService(t, ['control-plane'])
  const begins_at = new Date(Date.now() + 86_400_000).toISOString()
  const content = await createStaged(service, { begins_at })
  const partition = await createImport(service, 5_000)
  const staging = path.join(service.dataFolder, 'staging')
  await rm(path.join(staging, String(content)), { recursive: true })
  // Split, and its partition removed before a chunk is claimed.
  await service
    .start('engine', crashAt('findAndModify import_chunks before 1'))
    .then((engine) => engine.stop('SIGCONT'))
    .catch(() => undefined)
  await service.collections.engines.updateMany({}, { $set: { dead: true } })
  await rm(path.join(staging, String(partition)), { recursive: true })
  const due = { begins_at: new Date(), 'lease.tries': 3 }
  await service.collections.imports.updateOne({ _id: content }, { $set: due })
  await service.collections.chunks.updateMany({}, { $set: { 'lease.tries': 3 } })
  const first = await service.start('engine')
  await until(
    'both fourth tries',
    async () => first.log(),
    (log) => log.match(/a file is missing here \(try 4 of 5\)/g)?.length === 2,
    30_000,
  )
  await first.stop()
  // The next engine makes its first try at once.
  const second = await service.start('engine')
  t.match(
    [await importEnd(service, content), await importEnd(service, partition)],
    [
      { state: 'failed', error_message: /inline content is no longer staged/ },
      { state: 'failed', error_message: /the staged partition .* is missing/ },
    ],
  )
  // The folder is not to blame. One check may find a busy database late, as its ping waits for 2 s.
  await untilReady(second, true)
})
