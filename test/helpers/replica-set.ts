import { spawn, type ChildProcess } from 'node:child_process'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { MongoClient, type Document } from 'mongodb'
import type { Test } from 'tap'
import { createLogger } from '../../shared/runtime/logger.ts'
import { freePort } from '../../shared/runtime/mongod/embedded-mongodb.ts'
import { findMongod } from '../../shared/runtime/mongod/find-mongod.ts'
import { until } from './service.ts'
import { present } from './present.ts'

/** A replica set of real servers on loopback, to be killed, stepped down and told to fail; gone at teardown. */
interface ReplicaSet {
  uri: string
  /** Runs a command on the member of that number, or on the primary. */
  command: (command: Document, member?: number) => Promise<Document>
  /** Number of the primary, once there is one. */
  primary: () => Promise<number>
  /** Number of the primary; where there is none, the members that answer elect one at once, without their timeout. */
  elect: () => Promise<number>
  kill: (member: number) => Promise<void>
  /** Answers nothing until it is resumed, and keeps its connections. */
  suspend: (member: number) => void
  resume: (member: number) => void
  restart: (member: number) => Promise<void>
}

interface Member {
  port: number
  folder: string
  child: ChildProcess | null
}

const setName = 'bad-days'

/**
 * Starts a set whose members wait for a primary that doesn't answer so long that none on a busy machine loses its
 * part. A test that has killed the primary calls `elect`.
 */
export async function startReplicaSet(
  t: Test,
  size: number,
  settings = { electionTimeoutMillis: 60_000, heartbeatIntervalMillis: 500 },
): Promise<ReplicaSet> {
  const log = createLogger({ process: 'test', level: 'warn' })
  const { binary } = await findMongod({
    binarySetting: process.env['MONGOD_BINARY'],
    cacheFolder: process.env['MONGOD_CACHE_DIR'],
    log,
    signal: new AbortController().signal,
  })
  const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-set-'))
  // A port that was free may be given a second time.
  const ports = new Set<number>()
  while (ports.size < size) ports.add(await freePort())
  const members: Member[] = [...ports].map((port) => ({
    port,
    folder: path.join(folder, String(port)),
    child: null,
  }))
  const member = (number: number) => present(members[number], `member ${number}`)
  const kill = async (number: number): Promise<void> => {
    const { child } = member(number)
    if (child === null || child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await ended
  }
  t.teardown(async () => {
    await Promise.all(members.map((_, number) => kill(number)))
    await rm(folder, { recursive: true, force: true })
  })

  await Promise.all(members.map((member) => startMember(binary, member)))
  await on(member(0), (client) =>
    client.db('admin').command({
      replSetInitiate: {
        _id: setName,
        members: members.map(({ port }, _id) => ({ _id, host: `127.0.0.1:${port}` })),
        settings,
      },
    }),
  )
  const currentPrimary = async (): Promise<number> => {
    const hellos = await Promise.all(
      members.map((member) =>
        on(member, (client) => client.db('admin').command({ hello: 1 }), 2_000).catch((): Document => ({})),
      ),
    )
    return hellos.findIndex((hello) => hello['isWritablePrimary'] === true)
  }
  // Each call opens a connection to every member.
  const primary = () => until('a primary', currentPrimary, (number) => number !== -1, 60_000, 250)
  const elect = (): Promise<number> =>
    until(
      'an elected primary',
      async () => {
        const elected = await currentPrimary()
        if (elected !== -1) return elected
        for (const member of members) {
          // One that is down, or knows of fewer writes than another one, is refused.
          await on(member, (client) => client.db('admin').command({ replSetStepUp: 1 }), 2_000).catch(
            () => undefined,
          )
          const next = await currentPrimary()
          if (next !== -1) return next
        }
        return -1
      },
      (number) => number !== -1,
      60_000,
      250,
    )
  await elect()
  return {
    uri: `mongodb://${members.map(({ port }) => `127.0.0.1:${port}`).join(',')}/?replicaSet=${setName}`,
    primary,
    elect,
    kill,
    suspend: (number) => member(number).child?.kill('SIGSTOP'),
    resume: (number) => member(number).child?.kill('SIGCONT'),
    restart: (number) => startMember(binary, member(number)),
    command: async (command, number) => {
      const chosen = member(number ?? (await primary()))
      return on(chosen, (client) => client.db('admin').command(command))
    },
  }
}

async function startMember(binary: string, member: Member): Promise<void> {
  await mkdir(member.folder, { recursive: true })
  member.child = spawn(
    binary,
    [
      ...['--dbpath', member.folder, '--port', String(member.port), '--bind_ip', '127.0.0.1'],
      ...['--replSet', setName, '--oplogSize', '256', '--wiredTigerCacheSizeGB', '0.25', '--nounixsocket'],
      // Lets the failCommand fail point make any command fail as it does on a bad day.
      ...['--setParameter', 'enableTestCommands=1', '--logpath', path.join(member.folder, 'mongod.log')],
      '--logappend',
    ],
    { stdio: 'ignore' },
  )
  await until(
    `an answer of mongod at port ${member.port}`,
    () =>
      on(member, (client) => client.db('admin').command({ ping: 1 }), 2_000).then(
        () => true,
        () => false,
      ),
    (answers) => answers,
    60_000,
  )
}

async function on<T>(
  member: Member,
  work: (client: MongoClient) => Promise<T>,
  timeoutMs = 30_000,
): Promise<T> {
  const client = new MongoClient(`mongodb://127.0.0.1:${member.port}/?directConnection=true`, {
    serverSelectionTimeoutMS: timeoutMs,
    connectTimeoutMS: timeoutMs,
  })
  try {
    return await work(client)
  } finally {
    await client.close()
  }
}
