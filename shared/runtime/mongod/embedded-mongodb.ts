import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { MongoClient, MongoServerError, type MongoClientOptions } from 'mongodb'
import { z } from 'zod'
import { clock } from '../clock.ts'
import { errorMessage, StartError } from '../../contract/errors.ts'
import type { Logger } from '../logger.ts'
import { readOrCreateSecret, replacePrivateFile } from '../private-file.ts'
import { readJson, type Mongod } from './find-mongod.ts'
import {
  LockNotFree,
  currentProcessName,
  processIsAlive,
  processName,
  withFolderLock,
} from './folder-lock.ts'

/**
 * The embedded MongoDB server is a replica set of one member on loopback, with its data in `<data folder>/mongodb`. The
 * processes of a data folder share one server. Each of them registers its process id in `mongodb/users`, and a process
 * that stops ends the server when no other user is alive. A server that survived a crash of all its users is found
 * again by the next process.
 *
 * The server requires a password, because any user of this machine can reach its port. Processes sign in as the user
 * `rollcall`, whose password is in `<data folder>/mongodb.password`. The setup of the replica set and of the user signs
 * in with the key file, as MongoDB's user `__system`. So the server never accepts commands without a password, and the
 * user gets the right password whatever the data folder contained before.
 *
 * The server is started and stopped only under the folder's lock.
 */

export interface EmbeddedMongoDB {
  /** The server's URI, with the user's password. */
  uri: string
  /** Absolute path of the file with the password and nothing else. */
  passwordFile: string
  /** Unregisters from the server. The last user ends it cleanly. */
  stop(): Promise<void>
}

interface EmbeddedMongoDBOptions {
  dataFolder: string
  cacheMB: number
  /** `distrust`: the binary that was found before didn't start. */
  findMongod: (distrust: boolean) => Promise<Mongod>
  log: Logger
  /** Aborts the start. */
  signal: AbortSignal
}

const replicaSet = 'rollcall'
const userName = 'rollcall'
const startTimeoutMs = 60_000
const stopTimeoutMs = 8_000
const pollIntervalMs = 1_000
/** For other processes that start or stop the server while this process unregisters. */
const unregisterTimeoutMs = 2_500

/** `process`: see processName. */
const serverRecord = z.object({ pid: z.number(), process: z.string(), port: z.number() })
type ServerRecord = z.infer<typeof serverRecord>

/** The server's folder in the data folder, and its credentials. */
interface ServerFolder {
  path: string
  keyFile: string
  key: string
  password: string
}

/**
 * Starts the data folder's server, or joins a running one. Throws a StartError with the end of its log when it isn't
 * up within a minute. Also throws the reason of `signal`, and errors of `findMongod`.
 */
export async function startEmbeddedMongoDB(options: EmbeddedMongoDBOptions): Promise<EmbeddedMongoDB> {
  const root = path.join(options.dataFolder, 'mongodb')
  const passwordFile = path.resolve(options.dataFolder, 'mongodb.password')
  const lock = path.join(root, 'lock')
  const user = path.join(root, 'users', String(process.pid))
  await mkdir(path.join(root, 'users'), { recursive: true, mode: 0o700 })
  await mkdir(path.join(root, 'db'), { recursive: true, mode: 0o700 })

  const { folder, joined } = await withFolderLock(lock, async () => {
    const keyFile = path.join(root, 'keyfile')
    const made: ServerFolder = {
      path: root,
      keyFile,
      key: await readOrCreateSecret(keyFile),
      password: await readOrCreateSecret(passwordFile),
    }
    const record = (await findRunning(made)) ?? (await startServer(made, options, null))
    await ensureUser(made, record)
    await writeFile(user, currentProcessName())
    return { folder: made, joined: record }
  })
  let server = joined
  const restarting = keepRunning(options, {
    isAlive: () => processIsAlive(server.process),
    restart: () =>
      withFolderLock(lock, async () => {
        server = (await findRunning(folder)) ?? (await startServer(folder, options, server.port))
      }),
  })

  let stopped: Promise<void> | undefined
  return {
    uri: formatUri(folder, server),
    passwordFile,
    stop: () => (stopped ??= unregister()),
  }

  async function unregister(): Promise<void> {
    await restarting.stop()
    // This comes first, so that the process with the lock no longer counts this one as a user.
    await rm(user, { force: true })
    const endUnlessUsed = async (): Promise<void> => {
      if ((await countLivingUsers(root)) === 0) await endServer(root, server, options.log)
    }
    await withFolderLock(lock, endUnlessUsed, unregisterTimeoutMs).catch((error: unknown) => {
      // The process with the lock starts or stops the server, so it is a user itself and will end the server.
      if (!(error instanceof LockNotFree)) throw error
    })
  }
}

/** Restarts the server on its port when it ended unexpectedly, so that its users reconnect. */
function keepRunning(
  { log, signal }: EmbeddedMongoDBOptions,
  server: { isAlive: () => boolean; restart: () => Promise<void> },
): { stop: () => Promise<void> } {
  let running: Promise<void> = Promise.resolve()
  let isBusy = false
  const check = async (): Promise<void> => {
    if (isBusy || signal.aborted || server.isAlive()) return
    isBusy = true
    log.error('embedded MongoDB ended unexpectedly and is started again')
    running = server
      .restart()
      .catch((error: unknown) => {
        if (!signal.aborted) log.error(`${errorMessage(error)}; trying again`)
      })
      .finally(() => (isBusy = false))
    await running
  }
  const timer = setInterval(() => void check(), pollIntervalMs)
  timer.unref()
  return {
    stop: async () => {
      clearInterval(timer)
      await Promise.race([running, sleep(unregisterTimeoutMs, undefined, { ref: false })])
    },
  }
}

const formatUri = ({ password }: ServerFolder, { port }: ServerRecord): string =>
  `mongodb://${userName}:${encodeURIComponent(password)}@127.0.0.1:${port}/?directConnection=true`

/** The running server of the folder, or null. */
async function findRunning(folder: ServerFolder): Promise<ServerRecord | null> {
  const record = await readJson(path.join(folder.path, 'server.json'), serverRecord)
  if (record === null || !processIsAlive(record.process)) return null
  // Another program may have got the process id meanwhile, so the server is asked for its id.
  const status = await withServer(record, keyFileCredentials(folder), 3_000, (admin) =>
    admin.command({ serverStatus: 1 }),
  ).catch(() => null)
  return Number(status?.['pid']) === record.pid ? record : null
}

/**
 * Starts the server on the port, or on a free one. A binary that doesn't run is checked, and replaced if it is damaged.
 */
async function startServer(
  folder: ServerFolder,
  options: EmbeddedMongoDBOptions,
  port: number | null,
): Promise<ServerRecord> {
  const mongod = await options.findMongod(false)
  const { mtimeMs } = await stat(mongod.binary)
  try {
    return await startMongod(folder, options, mongod, port ?? (await freePort()))
  } catch (error) {
    options.signal.throwIfAborted()
    const checked = await options.findMongod(true)
    const isSame = checked.binary === mongod.binary && (await stat(checked.binary)).mtimeMs === mtimeMs
    if (isSame) throw error
    return startMongod(folder, options, checked, port ?? (await freePort()))
  }
}

async function startMongod(
  folder: ServerFolder,
  options: EmbeddedMongoDBOptions,
  mongod: Mongod,
  port: number,
): Promise<ServerRecord> {
  const logFile = path.join(folder.path, 'mongod.log')
  // Detached, so that Ctrl-C in a terminal doesn't end it before its users have stopped.
  const child = spawn(
    mongod.binary,
    [
      ...['--dbpath', path.join(folder.path, 'db')],
      ...['--port', String(port), '--bind_ip', '127.0.0.1'],
      ...['--replSet', replicaSet, '--keyFile', folder.keyFile],
      // Otherwise the first client from this machine could create a user while there is none.
      ...['--setParameter', 'enableLocalhostAuthBypass=false'],
      // The defaults are 5 % of the free disk and half of the memory.
      ...['--oplogSize', '1024', '--wiredTigerCacheSizeGB', String(options.cacheMB / 1024)],
      ...['--logpath', logFile, '--logappend'],
      ...['--setParameter', 'shutdownTimeoutMillisForSignaledShutdown=100'],
      ...(process.platform === 'win32' ? [] : ['--nounixsocket']),
    ],
    { detached: true, stdio: 'ignore' },
  )
  let failure: string | null = null
  child.once('error', (error) => (failure = error.message))
  child.once('exit', (code, signal) => (failure = `it ended with ${signal ?? `exit code ${code}`}`))
  child.unref()

  const pid = child.pid ?? 0
  const record = { pid, process: processName(pid), port }
  const deadline = clock.monotonicMs() + startTimeoutMs
  for (;;) {
    if (options.signal.aborted) failure = 'the process is stopping'
    if (failure !== null) break
    if (clock.monotonicMs() > deadline) {
      failure = `it didn't answer within ${startTimeoutMs / 1000} s`
      break
    }
    const ready = await withServer(record, keyFileCredentials(folder), 1_000, (admin) =>
      becomePrimary(admin, port),
    ).catch(() => false)
    if (ready) {
      await replacePrivateFile(path.join(folder.path, 'server.json'), JSON.stringify(record))
      options.log.info({ port, version: mongod.version, mongod: mongod.binary }, 'embedded MongoDB is up')
      return record
    }
    await sleep(50)
  }
  child.kill('SIGKILL')
  throw new StartError(
    `the embedded MongoDB server (${mongod.binary}, data in ${path.join(folder.path, 'db')}) didn't start: ${failure}; see the end of ${logFile}: ${await findErrorIn(logFile)}`,
  )
}

interface Admin {
  command(command: Record<string, unknown>): Promise<Record<string, unknown>>
}

async function becomePrimary(admin: Admin, port: number): Promise<boolean> {
  const hello = await admin.command({ hello: 1 })
  const member = { _id: 0, host: `127.0.0.1:${port}` }
  if (hello['isWritablePrimary'] === true) return true
  if (hello['setName'] === undefined && hello['info'] === 'Does not have a valid replica set config') {
    const known = await admin.command({ replSetGetConfig: 1 }).catch(() => null)
    if (known === null) await admin.command({ replSetInitiate: { _id: replicaSet, members: [member] } })
    // The data are from an earlier start on another port.
    else {
      const { config } = configReply.parse(known)
      await admin.command({
        replSetReconfig: { ...config, version: config.version + 1, members: [member] },
        force: true,
      })
    }
  }
  return false
}

const configReply = z.object({ config: z.looseObject({ version: z.number() }) })

/** Creates the user, or sets its password to that in the file. Does nothing when the user can sign in. */
async function ensureUser(folder: ServerFolder, server: ServerRecord): Promise<void> {
  const ping = (admin: Admin) => admin.command({ ping: 1 })
  const asUser = { auth: { username: userName, password: folder.password }, authSource: 'admin' }
  try {
    await withServer(server, asUser, 5_000, ping)
    return
  } catch (error) {
    if (!(error instanceof MongoServerError && error.codeName === 'AuthenticationFailed')) throw error
  }
  await withServer(server, keyFileCredentials(folder), 5_000, async (admin) => {
    const settings = { pwd: folder.password, roles: ['root'], mechanisms: ['SCRAM-SHA-256'] }
    const { users } = await admin.command({ usersInfo: userName })
    const exists = Array.isArray(users) && users.length > 0
    await admin.command(
      exists ? { updateUser: userName, ...settings } : { createUser: userName, ...settings },
    )
  })
}

type Credentials = Pick<MongoClientOptions, 'auth' | 'authSource' | 'authMechanism'>

const keyFileCredentials = ({ key }: ServerFolder): Credentials => ({
  auth: { username: '__system', password: key },
  authSource: 'local',
  authMechanism: 'SCRAM-SHA-256',
})

/** Without credentials only a server that requires no password executes commands. */
async function withServer<T>(
  server: { port: number },
  credentials: Credentials | null,
  timeoutMs: number,
  work: (admin: Admin) => Promise<T>,
): Promise<T> {
  const client = new MongoClient(`mongodb://127.0.0.1:${server.port}/?directConnection=true`, {
    ...credentials,
    serverSelectionTimeoutMS: timeoutMs,
    connectTimeoutMS: timeoutMs,
  })
  try {
    return await work(client.db('admin'))
  } finally {
    await client.close()
  }
}

async function countLivingUsers(folder: string): Promise<number> {
  const users = path.join(folder, 'users')
  let living = 0
  for (const name of await readdir(users)) {
    const user = await readFile(path.join(users, name), 'utf8').catch(() => '')
    if (processIsAlive(user)) living += 1
    else await rm(path.join(users, name), { force: true })
  }
  return living
}

async function endServer(folder: string, server: ServerRecord, log: Logger): Promise<void> {
  if (!processIsAlive(server.process)) return
  process.kill(server.pid, 'SIGTERM')
  const deadline = clock.monotonicMs() + stopTimeoutMs
  while (processIsAlive(server.process)) {
    if (clock.monotonicMs() > deadline) {
      log.warn(
        `embedded MongoDB didn't end within ${stopTimeoutMs / 1000} s and is killed; it recovers from its journal at the next start`,
      )
      process.kill(server.pid, 'SIGKILL')
      break
    }
    await sleep(25)
  }
  await rm(path.join(folder, 'server.json'), { force: true })
  log.info('embedded MongoDB has ended')
}

/** Finds a free TCP port of 127.0.0.1; another program may use it before the caller does. */
export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  await once(probe.close(), 'close')
  return port
}

const logLine = z.object({ s: z.string(), msg: z.string(), attr: z.unknown().optional() })

/** The first error in the last lines of mongod's log, which names the cause. */
async function findErrorIn(logFile: string): Promise<string> {
  try {
    const lines = (await readFile(logFile, 'utf8')).trim().split('\n').slice(-200)
    const error = lines.map((line) => logLine.parse(JSON.parse(line))).find(({ s }) => s === 'E' || s === 'F')
    return error === undefined ? 'nothing was logged' : `${error.msg} ${JSON.stringify(error.attr ?? {})}`
  } catch (error) {
    return errorMessage(error)
  }
}
