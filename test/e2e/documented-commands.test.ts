import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { MongoClient } from 'mongodb'
import t, { type Test } from 'tap'
import { openCollections } from '../../shared/contract/schemas/collections.ts'
import { DocumentedCommands, runCommands } from '../helpers/documented-commands.ts'
import { HttpUpload } from '../helpers/http-upload.ts'
import { missing } from '../helpers/missing-programs.ts'
import { processesOf } from '../helpers/processes-of.ts'
import { startReplicaSet } from '../helpers/replica-set.ts'
import { callerOf, freePorts, startProgram, until, wholeMongodbUri, type Json } from '../helpers/service.ts'
import { unpackableText } from '../helpers/staged-content.ts'

/**
 * The README's first import and the commands of the pages on backup, upgrading and scaling, run as they stand there, on a
 * real service. The backup by a dump needs mongodump and mongorestore; .ci/run builds them.
 */
t.setTimeout(590_000)
const readme = new DocumentedCommands('../README.md')
const backup = new DocumentedCommands('backup.md')
const upgrading = new DocumentedCommands('upgrading.md')
const scaling = new DocumentedCommands('scaling.md')

const folder = await mkdtemp(path.join(tmpdir(), 'rollcall docs '))
t.teardown(() => rm(folder, { recursive: true, force: true }))
const root = fileURLToPath(new URL('../..', import.meta.url))
const key = 'documented_key_0123456789'
const settings = {
  ...freePorts,
  ENGINE_WORKERS: '1',
  BOOTSTRAP_API_KEY: key,
  NODE_COMPILE_CACHE: path.join(root, 'node_modules/.cache/rollcall'),
}
const rows = (count: number) => Array.from({ length: count }, (_, i) => `row.${i}@example.com\n`).join('')

interface Installation {
  DATA_DIR: string
  /** The environment of the commands. */
  environment: Record<string, string>
  get: (path: string) => Promise<Json>
  post: (path: string, body: unknown) => Promise<Json>
  stop: (signal?: NodeJS.Signals) => Promise<unknown>
}

async function start(t: Test, name: string, more: Record<string, string> = {}): Promise<Installation> {
  const DATA_DIR = path.join(folder, name)
  const running = await startProgram([path.join(root, 'control-plane/cli/start.ts')], {
    ...settings,
    ...more,
    DATA_DIR,
  })
  t.teardown(() => running.stop())
  if (running.ready === null) throw new Error(`it didn't start: ${running.log()}`)
  const { http, metrics } = running.ready
  const mongodb = await wholeMongodbUri({ ready: running.ready })
  const call = callerOf(() => http!)
  const data = async (method: string, path: string, body?: unknown) => {
    // The commands keep this process from noticing that a connection was closed meanwhile.
    const answer = await call(method, path, body, { key, headers: { connection: 'close' } })
    if (answer.body?.success !== true) throw new Error(`${method} ${path}: ${answer.text}`)
    return answer.body.data
  }
  return {
    DATA_DIR,
    environment: {
      DATA_DIR,
      MONGODB_URI: mongodb,
      KEY: key,
      API: `${http}/svc/api/v2`,
      METRICS: metrics['engine']!,
      ...more,
    },
    get: (path) => data('GET', path),
    post: (path, body) => data('POST', path, body),
    stop: running.stop,
  }
}

const ended = (installation: Installation, id: number): Promise<Json> =>
  until(
    `the end of import ${id}`,
    () => installation.get(`/subscriber_imports/${id}`),
    (view) => ['finished', 'failed'].includes(view.state),
  )

/** Makes a list with an import that has ended, and three imports whose sources are there and that begin in a day. */
async function fill(t: Test, installation: Installation) {
  const list = await installation.post('/mailing_lists', { mailing_list: { name: 'Partners' } })
  const create = (file_source: object, more: object = {}) =>
    installation.post(`/mailing_lists/${list.id}/subscriber_imports`, {
      subscriber_import: {
        column_mapping: ['email'],
        file_format: { csv_has_headers: false },
        file_source,
        ...more,
      },
    })
  const done = await create({ type: 'json', content: rows(300) })
  t.equal((await ended(installation, done.id)).stats.subscribers.added, 300)
  const upload = new HttpUpload(installation.environment['API']!.replace(/\/svc.*/, ''), 'later.csv', { key })
  t.match(await upload.end(rows(350)), { status: 200 })
  const later = { begins_at: new Date(Date.now() + 86_400_000).toISOString() }
  const waiting = [
    await create({ type: 'upload_directory', filename: 'later.csv' }, later),
    await create({ type: 'json', content: rows(400) }, later),
    await create(
      { type: 'json', content: `gone@example.com,${unpackableText}` },
      { ...later, column_mapping: ['email', null] },
    ),
  ].map(({ id }) => id as number)
  return { listId: list.id as number, doneId: done.id as number, waiting }
}

/** Checks what was filled, and lets the imports that waited end. The source of the last one is removed before it begins. */
async function checkRestored(
  t: Test,
  restored: Installation,
  { listId, doneId, waiting }: Awaited<ReturnType<typeof fill>>,
): Promise<void> {
  const active = async (): Promise<number> =>
    (await restored.get('/subscriber_counts')).mailing_lists.find(
      ({ mailing_list }: Json) => mailing_list.id === listId,
    ).counts.active
  t.equal(await active(), 300, 'everybody is there')
  t.match(await restored.get(`/subscriber_imports/${doneId}`), { state: 'finished' })
  t.equal((await restored.get('/subscriber_imports?scope=active')).length, 3, 'and what was to come')
  const client = await MongoClient.connect(restored.environment['MONGODB_URI']!)
  await rm(path.join(restored.DATA_DIR, 'staging', String(waiting[2])), { recursive: true })
  // The imports end in order, as a list has one at a time.
  for (const id of waiting) {
    await openCollections(client.db('rollcall')).imports.updateOne(
      { _id: id },
      // The next try is the last one, so that the import without a source fails at once.
      { $set: { begins_at: new Date(), 'lease.tries': 4 } },
    )
    await ended(restored, id)
  }
  await client.close()
  const [file, inline, gone] = await Promise.all(
    waiting.map((id) => restored.get(`/subscriber_imports/${id}`)),
  )
  t.match(file, { state: 'finished', stats: { subscribers: { added: 50, skipped_overwrite: 300 } } })
  t.match(inline, { state: 'finished', stats: { subscribers: { added: 50, skipped_overwrite: 350 } } })
  t.match(gone, { state: 'failed', error_message: /was DATA_DIR\/staging emptied/ })
  t.equal(await active(), 400)
}

/** Starts engines, control planes and FTP servers beside those of a service, by the documented commands. */
async function startFurtherProcesses(t: Test, restored: Installation): Promise<void> {
  const more = scaling.under('More engines')
  const others = scaling.under('More control planes and FTP servers')
  const names = [...more, ...others].filter((commands) => commands.startsWith('npm run '))
  t.equal(names.length, 3)
  await Promise.all(
    names.map(async (commands) => {
      const args = ['-c', `exec ${commands}`]
      const environment = { ...settings, ...restored.environment }
      const added = await startProgram(args, environment, { program: 'sh', cwd: root })
      if (added.ready === null) throw new Error(`${commands} didn't start: ${added.log()}`)
      t.equal(new URL(added.ready.mongodb).port, new URL(restored.environment['MONGODB_URI']!).port, commands)
      t.equal(await added.stop(), 0)
    }),
  )
  if (missing('curl') === false) {
    const readingCommands = more.filter((commands) => !commands.startsWith('npm run '))
    t.match(
      runCommands(readingCommands.join(''), restored.environment),
      /^rollcall_worker_utilization_ratio /m,
    )
  }
}

t.test('a service is backed up while it runs and while it is stopped, and restored', async (t) => {
  const first = await start(t, 'first')
  const BACKUP = path.join(folder, 'backup')
  await t.test("the README's first import works", { skip: missing('curl') }, async (t) => {
    const commands = readme.under('A first import').find((block) => block.startsWith('KEY='))!
    // The first two lines name the key and the service's address, which the test has already.
    const requests = commands.split('\n').slice(2).join('\n')
    const replies = runCommands(requests, first.environment)
    t.equal(replies.match(/"success":true/g)?.length, 3, replies)
    t.match(await ended(first, 1), { stats: { subscribers: { added: 1 } } })
  })

  const filled = await fill(t, first)
  const LOCKED = path.join(folder, 'backup of what runs')
  for (const commands of backup.under('Running, the folder whole'))
    runCommands(commands, { ...first.environment, BACKUP: LOCKED })
  await first.post('/mailing_lists', { mailing_list: { name: 'Made when writes were let go again' } })
  const withoutTools = missing('mongodump', 'mongorestore')
  if (withoutTools === false)
    for (const commands of backup.under("Running, with MongoDB's tools"))
      runCommands(commands, { ...first.environment, BACKUP })
  t.equal(await first.stop(), 0)
  for (const commands of backup.under('Stopped')) runCommands(commands, { DATA_DIR: first.DATA_DIR, BACKUP })

  await t.test('a copy of the stopped service is restored', async (t) => {
    for (const commands of backup.under('Of a folder that was copied whole'))
      runCommands(commands, { DATA_DIR: path.join(folder, 'second'), BACKUP })
    const restored = await start(t, 'second')
    await checkRestored(t, restored, filled)

    await t.test('a lost key is replaced', async (t) => {
      const [commands] = backup.under('A lost key')
      const recovered = runCommands(commands!, { ...settings, ...restored.environment }).trim()
      const call = callerOf(() => restored.environment['API']!.replace('/svc/api/v2', ''))
      t.equal((await call('GET', '/organizations', undefined, { key: recovered })).status, 200)
    })

    await t.test('versions and what is being imported', { skip: missing('curl') }, async (t) => {
      const said = upgrading
        .under('Within a major version: rolling')
        .map((commands) => runCommands(commands, restored.environment))
      t.match(said.join(''), /rollcall_build_info\{version="[\d.]+"[^]*"success":true,"data":\[\]/)
    })

    await t.test('further processes start by the documented commands', (t) =>
      startFurtherProcesses(t, restored),
    )

    // No command of the pages, but a whole service that is not needed any more.
    await t.test('when the process that started the others is killed, they notice and end', async (t) => {
      await restored.stop('SIGKILL')
      const left = () => processesOf(restored.DATA_DIR)
      t.same(await until('the end of all', left, ({ length }) => length === 0, 30_000, 150), [])
    })
  })

  await t.test('a copy of the running service is restored', async (t) => {
    for (const commands of backup.under('Of a folder that was copied whole'))
      runCommands(commands, { DATA_DIR: path.join(folder, 'fourth'), BACKUP: LOCKED })
    const restored = await start(t, 'fourth')
    await checkRestored(t, restored, filled)
    await restored.stop()
  })

  const restoring = backup.under('Of files and a dump')
  const running = backup.under("Running, with MongoDB's tools")
  t.ok(restoring.length > 0 && running.length > 0)
  await t.test('a dump of the running service is restored', { skip: withoutTools }, async (t) => {
    const { uri: MONGODB_URI } = await startReplicaSet(t, 1)
    for (const commands of restoring)
      runCommands(commands, { DATA_DIR: path.join(folder, 'third'), MONGODB_URI, BACKUP })
    const restored = await start(t, 'third', { MONGODB_URI })
    await checkRestored(t, restored, filled)
    await restored.stop()
  })
})

/** Commands that the test doesn't run as they stand, and why. */
const notRun = {
  'README.md':
    'but for the first import it starts, installs or tests this very checkout; the demo and the command line have tests',
  'docs/contributing.md': 'it installs and tests this very checkout',
  'docs/docker-compose.md': 'it needs a container engine: compose-stack.test.ts has one',
  'docs/following-imports.md': 'a stream that ends with its import: import-events.ts reads it',
  'docs/mongodb-versions.md': 'it runs this very suite on another server',
  'docs/uploads.md': 'http-uploads.test.ts gives curl these options, for files of its own',
  'docs/partners.md': 'it asks for a password: partners.test.ts gives curl and lftp these options',
  'docs/operating.md': 'it needs a container engine: compose.test.ts checks what would run',
}

t.test('the commands of every other page are known not to be run', async (t) => {
  const docs = (await readdir(path.join(root, 'docs'))).filter((name) => name.endsWith('.md'))
  const pages = ['README.md', ...docs.map((name) => `docs/${name}`)]
  const texts = await Promise.all(pages.map((page) => readFile(path.join(root, page), 'utf8')))
  const withCommands = pages.filter((_, i) => /^```sh$/m.test(texts[i]!))
  const run = ['docs/backup.md', 'docs/scaling.md', 'docs/upgrading.md']
  t.same(withCommands.sort(), [...Object.keys(notRun), ...run].sort())
})

t.test('there is no other command on these pages', async (t) => {
  t.same(
    [backup, upgrading, scaling].flatMap(({ unused }) => unused),
    [],
  )
})
