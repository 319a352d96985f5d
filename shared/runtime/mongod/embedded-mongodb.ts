import { spawn, type ChildProcess } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { mkdir, readFile, stat } from 'node:fs/promises'
import { createServer } from 'node:net'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { MongoClient, MongoServerError } from 'mongodb'
import { z } from 'zod'
import { clock } from '../clock.ts'
import { errorMessage, StartError } from '../../contract/errors.ts'
import { fallbackOn } from '../fallback-on.ts'
import { readOrCreateSecret } from '../private-file.ts'
import { findMongod, type Mongod, type MongodSearch } from './find-mongod.ts'

/**
 * The embedded MongoDB server is a replica set of one member on loopback, with its data in `<data folder>/mongodb`. It
 * is a child of the process that starts it, which restarts it when it dies. It ends with that process, even where that
 * is killed (end-with-parent.sh). mongod's own lock keeps a second server out of the folder.
 *
 * The server requires a password, because any user of this machine can reach its port. Processes sign in as the user
 * `rollcall`, whose password is in `<data folder>/mongodb.password`. The setup of the replica set and of the user signs
 * in with the key file, as MongoDB's user `__system`. So the server never accepts commands without a password, and the
 * user gets the right password whatever the data folder contained before.
 */

export interface EmbeddedMongoDB {
  /** The server's URI, with the user's password. */
  uri: string
  /** Absolute path of the file with the password and nothing else. */
  passwordFile: string
  /** Ends the server cleanly. */
  stop(): Promise<void>
}

/** `signal` aborts the start, and from then on a server that dies stays down. */
interface EmbeddedMongoDBOptions extends Omit<MongodSearch, 'distrust'> {
  dataFolder: string
  cacheMB: number
}

const replicaSet = 'rollcall'
const userName = 'rollcall'
const startTimeoutMs = 60_000
const restartPauseMs = 1_000
/** The server of a process that was just killed takes a moment to end. */
const inUseTimeoutMs = 10_000

/** How the server is started, at first and again. The port stays, because clients have it in their URI. */
interface ServerPlan extends EmbeddedMongoDBOptions {
  /** The server's folder in the data folder. */
  root: string
  keyFile: string
  key: string
  port: number
}

interface Server {
  /** Resolves when mongod has ended. */
  ended: Promise<void>
  /** Ends mongod, by SIGKILL after 8 s. Resolves to whether it ended cleanly. */
  end: () => Promise<boolean>
}

/** mongod's lock on its data is taken. */
class FolderInUse extends StartError {}

/**
 * Starts the data folder's server. Throws a StartError when another one runs on the folder, and with the end of its log
 * when it isn't up within a minute. Also throws the reason of `signal`, and errors of `findMongod`.
 */
export async function startEmbeddedMongoDB(options: EmbeddedMongoDBOptions): Promise<EmbeddedMongoDB> {
  const { dataFolder, log } = options
  const root = path.join(dataFolder, 'mongodb')
  const keyFile = path.join(root, 'keyfile')
  const passwordFile = path.resolve(dataFolder, 'mongodb.password')
  await mkdir(path.join(root, 'db'), { recursive: true, mode: 0o700 })
  const [key, password] = [await readOrCreateSecret(keyFile), await readOrCreateSecret(passwordFile)]
  const stopping = new AbortController()
  const signal = AbortSignal.any([options.signal, stopping.signal])
  const plan: ServerPlan = { ...options, signal, root, keyFile, key, port: await freePort() }
  let server = await startServer(plan)
  const running = keepRunning()
  let stopped: Promise<void> | undefined
  const stop = () => (stopped ??= stopServer())
  try {
    await setPassword(plan, password)
  } catch (error) {
    await stop()
    throw error
  }
  return {
    uri: `mongodb://${userName}:${encodeURIComponent(password)}@127.0.0.1:${plan.port}/?directConnection=true`,
    passwordFile,
    stop,
  }

  async function keepRunning(): Promise<void> {
    for (;;) {
      await server.ended
      if (signal.aborted) return
      log.error('embedded MongoDB ended unexpectedly and is started again')
      try {
        server = await startServer(plan)
      } catch (error) {
        if (signal.aborted) return
        log.error(`${errorMessage(error)}; trying again`)
        await sleep(restartPauseMs, undefined, { signal }).catch(() => undefined)
      }
    }
  }

  async function stopServer(): Promise<void> {
    stopping.abort()
    const clean = await server.end()
    await running
    if (clean) log.info('embedded MongoDB has ended')
    else log.warn('embedded MongoDB did not end cleanly; it recovers from its journal at the next start')
  }
}

/** A binary that doesn't run is checked, and replaced if it is damaged. */
async function startServer(plan: ServerPlan): Promise<Server> {
  const mongod = await findMongod(plan)
  const { mtimeMs } = await stat(mongod.binary)
  try {
    return await startOnFreeFolder(plan, mongod)
  } catch (error) {
    plan.signal.throwIfAborted()
    if (error instanceof FolderInUse) throw error
    const checked = await findMongod({ ...plan, distrust: true })
    const isSame = checked.binary === mongod.binary && (await stat(checked.binary)).mtimeMs === mtimeMs
    if (isSame) throw error
    return startOnFreeFolder(plan, checked)
  }
}

async function startOnFreeFolder(plan: ServerPlan, mongod: Mongod): Promise<Server> {
  const deadline = clock.monotonicMs() + inUseTimeoutMs
  for (;;) {
    try {
      return await startMongod(plan, mongod)
    } catch (error) {
      if (!(error instanceof FolderInUse) || clock.monotonicMs() > deadline) throw error
      await sleep(250, undefined, { signal: plan.signal })
    }
  }
}

async function startMongod(plan: ServerPlan, mongod: Mongod): Promise<Server> {
  const { root, port, signal, log } = plan
  const dbPath = path.join(root, 'db')
  const logFile = path.join(root, 'mongod.log')
  const logStart = await stat(logFile).then(
    ({ size }) => size,
    () => 0,
  )
  // Detached, so that Ctrl-C in a terminal doesn't end it before its clients have stopped.
  const child = spawn(
    mongod.binary,
    [
      ...['--dbpath', dbPath, '--port', String(port), '--bind_ip', '127.0.0.1'],
      ...['--replSet', replicaSet, '--keyFile', plan.keyFile],
      // Otherwise the first client from this machine could create a user while there is none.
      ...['--setParameter', 'enableLocalhostAuthBypass=false'],
      // The defaults are 5 % of the free disk and half of the memory.
      ...['--oplogSize', '1024', '--wiredTigerCacheSizeGB', String(plan.cacheMB / 1024)],
      ...['--logpath', logFile, '--logappend'],
      ...['--setParameter', 'shutdownTimeoutMillisForSignaledShutdown=100'],
      ...(process.platform === 'win32' ? [] : ['--nounixsocket']),
    ],
    { detached: true, stdio: 'ignore' },
  )
  const { ended, end, failure } = endWithThisProcess(child)
  const deadline = clock.monotonicMs() + startTimeoutMs
  while (failure() === null && !signal.aborted && clock.monotonicMs() < deadline) {
    if (await asSystem(plan, 1_000, (admin) => becomePrimary(admin, port)).catch(() => false)) {
      log.info({ port, version: mongod.version, mongod: mongod.binary }, 'embedded MongoDB is up')
      return { ended, end }
    }
    await sleep(50)
  }
  const reason = failure() ?? `it didn't answer within ${startTimeoutMs / 1000} s`
  await end()
  signal.throwIfAborted()
  const logged = await findErrorIn(logFile, logStart)
  if (logged.includes('DBPathInUse')) {
    const holder = (await readFile(path.join(dbPath, 'mongod.lock'), 'utf8').catch(() => '')).trim()
    throw new FolderInUse(
      `an embedded MongoDB server runs on ${dbPath} already (process ${holder}): stop the service that started it, or set MONGODB_URI to its URI, or DATA_DIR to another folder`,
    )
  }
  throw new StartError(
    `the embedded MongoDB server (${mongod.binary}, data in ${dbPath}) didn't start: ${reason}; see the end of ${logFile}: ${logged}`,
  )
}

/** Makes a child end when this process ends, however that happens. */
function endWithThisProcess(child: ChildProcess): Server & { failure: () => string | null } {
  let failure: string | null = null
  const script = fileURLToPath(new URL('end-with-parent.sh', import.meta.url))
  const guard = spawn('/bin/sh', [script, String(child.pid ?? '')], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  const ended = new Promise<void>((resolve) => {
    const isOver = (reason: string) => {
      failure = reason
      // The id of the child may be used again from now on.
      killGroup(guard)
      if (guard.pid === undefined || guard.exitCode !== null || guard.signalCode !== null) resolve()
      else guard.once('exit', () => resolve())
    }
    child.once('error', (error) => isOver(error.message))
    guard.once('error', (error) => isOver(`/bin/sh can't run ${script}: ${error.message}`))
    child.once('exit', (code, signal) => isOver(`it ended with ${signal ?? `exit code ${code}`}`))
  })
  const end = async (): Promise<boolean> => {
    if (guard.exitCode === null && guard.signalCode === null) guard.stdin.end()
    else child.kill('SIGTERM')
    await ended
    return child.exitCode === 0
  }
  return { ended, end, failure: () => failure }
}

/** Kills a detached process and its children, if there is one. */
function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL')
  } catch {
    // All have ended.
  }
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

/** Creates the user, or sets its password to that in the file. */
async function setPassword(plan: ServerPlan, password: string): Promise<void> {
  const settings = { pwd: password, roles: ['root'], mechanisms: ['SCRAM-SHA-256'] }
  await asSystem(plan, 5_000, async (admin) => {
    try {
      await admin.command({ updateUser: userName, ...settings })
    } catch (error) {
      if (!(error instanceof MongoServerError && error.codeName === 'UserNotFound')) throw error
      await admin.command({ createUser: userName, ...settings })
    }
  })
}

/** Works as MongoDB's internal user, which exists before any other. */
async function asSystem<T>(
  { port, key }: ServerPlan,
  timeoutMs: number,
  work: (admin: Admin) => Promise<T>,
): Promise<T> {
  const client = new MongoClient(`mongodb://127.0.0.1:${port}/?directConnection=true`, {
    auth: { username: '__system', password: key },
    authSource: 'local',
    authMechanism: 'SCRAM-SHA-256',
    serverSelectionTimeoutMS: timeoutMs,
    connectTimeoutMS: timeoutMs,
  })
  try {
    return await work(client.db('admin'))
  } finally {
    await client.close()
  }
}

/**
 * Finds a free TCP port of 127.0.0.1. It is none of those that systems hand out by default, to outgoing connections for
 * example, so hardly any program takes it before the caller does. Throws a StartError where 100 tries find none.
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 100; tries += 1) {
    // Browsers refuse port 10080.
    const port = randomInt(10_100, 30_000)
    const probe = createServer().listen(port, '127.0.0.1')
    const listening = once(probe, 'listening').then(() => true)
    if (!(await fallbackOn(['EADDRINUSE', 'EACCES'], false, listening))) continue
    await once(probe.close(), 'close')
    return port
  }
  throw new StartError('no free TCP port was found in 100 tries from 10100 to 29999 of 127.0.0.1')
}

const logLine = z.object({ msg: z.string(), attr: z.unknown().optional() })

/** The first error in mongod's log since a position, which names the cause. */
async function findErrorIn(logFile: string, start: number): Promise<string> {
  try {
    const lines = (await text(createReadStream(logFile, { start }))).split('\n')
    const error = lines.find((line) => /"s":"[EF]"/.test(line))
    if (error === undefined) return 'nothing was logged'
    const { msg, attr = {} } = logLine.parse(JSON.parse(error))
    return `${msg} ${JSON.stringify(attr)}`
  } catch (error) {
    return errorMessage(error)
  }
}
