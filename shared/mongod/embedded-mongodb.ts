import { spawn } from 'node:child_process'
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { MongoClient } from 'mongodb'
import { z } from 'zod'
import { clock } from '../clock.ts'
import { messageOf, StartError } from '../errors.ts'
import type { Logger } from '../logger.ts'
import type { Mongod } from './find-mongod.ts'
import { LockNotFree, ownProcess, processIsAlive, processName, withFolderLock } from './folder-lock.ts'

/**
 * The embedded MongoDB server: a replica set of one, on loopback, its data in `<data folder>/mongodb`. One server
 * per data folder, shared by the processes that work on it. Each leaves its process id in `mongodb/users`; the one
 * that finds no other living user when it stops ends the server. A server that survived a crash of all its users
 * is found again by the next one.
 *
 * Everything that starts or stops the server happens under the folder's lock.
 */

export interface EmbeddedMongoDB {
  uri: string
  /** Leaves the server; the last to leave ends it cleanly. */
  stop(): Promise<void>
}

export interface EmbeddedMongoDBOptions {
  dataFolder: string
  cacheMB: number
  /** `distrust`: what was found before didn't start. */
  findMongod: (distrust: boolean) => Promise<Mongod>
  log: Logger
  /** Gives the start up. */
  signal: AbortSignal
}

const replicaSet = 'rollcall'
const startTimeoutMs = 60_000
const stopTimeoutMs = 8_000
const lookEveryMs = 1_000
/** For what others do with the server while this process leaves it. */
const leaveMs = 2_500

/** `process`: see processName. */
const serverRecord = z.object({ pid: z.number(), process: z.string(), port: z.number() })
type ServerRecord = z.infer<typeof serverRecord>

/**
 * Starts the data folder's server, or joins it where it runs. Throws a StartError with the end of its log when it isn't
 * up within a minute, the reason of `signal` when that gives the start up, and what `findMongod` throws.
 */
export async function startEmbeddedMongoDB(options: EmbeddedMongoDBOptions): Promise<EmbeddedMongoDB> {
  const folder = path.join(options.dataFolder, 'mongodb')
  const lock = path.join(folder, 'lock')
  const user = path.join(folder, 'users', String(process.pid))
  await mkdir(path.join(folder, 'users'), { recursive: true })
  await mkdir(path.join(folder, 'db'), { recursive: true })

  let server = await withFolderLock(lock, async () => {
    const record = (await findRunning(folder)) ?? (await start(folder, options, null))
    await writeFile(user, ownProcess())
    return record
  })
  const restarting = keepRunning(options, {
    isAlive: () => processIsAlive(server.process),
    restart: () =>
      withFolderLock(lock, async () => {
        server = (await findRunning(folder)) ?? (await start(folder, options, server.port))
      }),
  })

  let stopped: Promise<void> | undefined
  return {
    uri: uriOf(server),
    stop: () => (stopped ??= leave()),
  }

  async function leave(): Promise<void> {
    await restarting.stop()
    // First, so that whoever has the lock just now no longer counts on us.
    await rm(user, { force: true })
    const endUnlessUsed = async (): Promise<void> => {
      if ((await livingUsers(folder)) === 0) await end(folder, server, options.log)
    }
    await withFolderLock(lock, endUnlessUsed, leaveMs).catch((error: unknown) => {
      // Its holder starts or stops the server, is a user itself, and will be the last one.
      if (!(error instanceof LockNotFree)) throw error
    })
  }
}

/** Starts the server again when it ended without being told to, on its port, so that its users find it there. */
function keepRunning(
  { log, signal }: EmbeddedMongoDBOptions,
  server: { isAlive: () => boolean; restart: () => Promise<void> },
): { stop: () => Promise<void> } {
  let running: Promise<void> = Promise.resolve()
  let isBusy = false
  const look = async (): Promise<void> => {
    if (isBusy || signal.aborted || server.isAlive()) return
    isBusy = true
    log.error('embedded MongoDB ended although nobody told it to; it is started again')
    running = server
      .restart()
      .catch((error: unknown) => {
        if (!signal.aborted) log.error(`${messageOf(error)}; trying again`)
      })
      .finally(() => (isBusy = false))
    await running
  }
  const timer = setInterval(() => void look(), lookEveryMs)
  timer.unref()
  return {
    stop: async () => {
      clearInterval(timer)
      await Promise.race([running, sleep(leaveMs, undefined, { ref: false })])
    },
  }
}

const uriOf = (server: { port: number }): string =>
  `mongodb://127.0.0.1:${server.port}/?directConnection=true`

async function findRunning(folder: string): Promise<ServerRecord | null> {
  const text = await readFile(path.join(folder, 'server.json'), 'utf8').catch(() => null)
  if (text === null) return null
  const parsed = serverRecord.safeParse(fromJson(text))
  if (!parsed.success || !processIsAlive(parsed.data.process)) return null
  // The process id may be somebody else's by now: ask what listens there.
  const answers = await withAdmin(parsed.data, 3_000, (admin) => admin.command({ serverStatus: 1 })).catch(
    () => null,
  )
  return Number(answers?.['pid']) === parsed.data.pid ? parsed.data : null
}

/** A file that was cut off by a power failure says nothing. */
function fromJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Starts the server on the port, or on a free one. A binary that doesn't run is checked, and fetched again if need be. */
async function start(
  folder: string,
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
  folder: string,
  options: EmbeddedMongoDBOptions,
  mongod: Mongod,
  port: number,
): Promise<ServerRecord> {
  const logFile = path.join(folder, 'mongod.log')
  // Detached, so that Ctrl-C in a terminal doesn't end it before its users are done.
  const child = spawn(
    mongod.binary,
    [
      ...['--dbpath', path.join(folder, 'db')],
      ...['--port', String(port), '--bind_ip', '127.0.0.1'],
      ...['--replSet', replicaSet],
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
    if (options.signal.aborted) failure = 'the process was told to stop'
    if (failure !== null) break
    if (clock.monotonicMs() > deadline) {
      failure = `it gave no answer within ${startTimeoutMs / 1000} s`
      break
    }
    const ready = await withAdmin(record, 1_000, (admin) => becomePrimary(admin, port)).catch(() => false)
    if (ready) {
      const file = path.join(folder, 'server.json')
      await writeFile(`${file}.new`, JSON.stringify(record))
      await rename(`${file}.new`, file)
      options.log.info({ port, version: mongod.version, mongod: mongod.binary }, 'embedded MongoDB is up')
      return record
    }
    await sleep(50)
  }
  child.kill('SIGKILL')
  throw new StartError(
    `the embedded MongoDB server (${mongod.binary}, data in ${path.join(folder, 'db')}) didn't start: ${failure}; the reason is at the end of ${logFile}: ${await lastErrorIn(logFile)}`,
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
    // Data of an earlier start, which listened on another port.
    else
      await admin.command({
        replSetReconfig: { ...(known['config'] as object), version: nextVersion(known), members: [member] },
        force: true,
      })
  }
  return false
}

const nextVersion = (reply: Record<string, unknown>): number =>
  (reply['config'] as { version: number }).version + 1

async function withAdmin<T>(
  server: { port: number },
  timeoutMs: number,
  work: (admin: Admin) => Promise<T>,
): Promise<T> {
  const client = new MongoClient(uriOf(server), {
    serverSelectionTimeoutMS: timeoutMs,
    connectTimeoutMS: timeoutMs,
  })
  try {
    return await work(client.db('admin'))
  } finally {
    await client.close()
  }
}

async function livingUsers(folder: string): Promise<number> {
  const users = path.join(folder, 'users')
  let living = 0
  for (const name of await readdir(users)) {
    const user = await readFile(path.join(users, name), 'utf8').catch(() => '')
    if (processIsAlive(user)) living += 1
    else await rm(path.join(users, name), { force: true })
  }
  return living
}

async function end(folder: string, server: ServerRecord, log: Logger): Promise<void> {
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

/** A TCP port of 127.0.0.1 that is free now; others may take it before the caller does. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address()
      probe.close(() => {
        if (address === null || typeof address === 'string') reject(new Error('no free port'))
        else resolve(address.port)
      })
    })
  })
}

/** The last thing that mongod complained about. */
async function lastErrorIn(logFile: string): Promise<string> {
  try {
    const lines = (await readFile(logFile, 'utf8')).trim().split('\n').slice(-200)
    const errors = lines
      .map((line) => JSON.parse(line) as { s: string; msg: string; attr?: unknown })
      .filter((line) => line.s === 'E' || line.s === 'F')
    const last = errors[0]
    return last === undefined ? 'nothing was logged' : `${last.msg} ${JSON.stringify(last.attr ?? {})}`
  } catch (error) {
    return messageOf(error)
  }
}
