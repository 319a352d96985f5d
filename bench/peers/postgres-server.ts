import { execFile } from 'node:child_process'
import { chmod, chown, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { programSearchPath } from '../../shared/runtime/config.ts'
import { endOnInterrupt, unlessInterrupted } from '../interrupt.ts'
import { treeOf, type ProcessOfContender } from '../processes.ts'

/** A PostgreSQL server on loopback in a folder of its own, for an importer that writes to one. */
export interface PostgresServer {
  port: number
  process: ProcessOfContender
  /** Rows as text, cells separated by bars. */
  query: (sql: string) => Promise<string[]>
  /** Ends it and removes its folder. */
  remove: () => Promise<void>
}

export const postgresUser = 'bench'

/** What a machine of this size would be given: the server's default is 128 MB. */
export const postgresSettings = { shared_buffers: '1GB', max_wal_size: '4GB' }

const execute = promisify(execFile)

/** Null where there is no PostgreSQL. */
export async function findPostgres(): Promise<string | null> {
  const debian = '/usr/lib/postgresql'
  const versions = (await readdir(debian).catch((): string[] => [])).sort((a, b) => Number(b) - Number(a))
  const folders = [
    ...programSearchPath().split(path.delimiter),
    ...versions.map((version) => path.join(debian, version, 'bin')),
  ]
  for (const folder of folders) {
    const files = await readdir(folder).catch((): string[] => [])
    if (['initdb', 'pg_ctl', 'psql'].every((name) => files.includes(name))) return folder
  }
  return null
}

/** Ends on an interrupt too, also one that comes while it starts. */
export async function startPostgres(binaries: string): Promise<PostgresServer> {
  // Not in the benchmark's scratch folder: where that is root's, PostgreSQL runs as somebody else.
  const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-postgres-'))
  const starting = new AbortController()
  const data = path.join(folder, 'data')
  const port = await freePort()
  const owner = await ownerOf()
  const run = (name: string, args: string[]) =>
    execute(path.join(binaries, name), args, { cwd: '/', ...owner })
  const started = start()
  let removed: Promise<void> | undefined
  const remove = () => (removed ??= end())
  const forget = endOnInterrupt(remove)
  try {
    await started
    await unlessInterrupted()
  } catch (error) {
    await remove()
    forget()
    throw error
  }
  const pid = Number((await readFile(path.join(data, 'postmaster.pid'), 'utf8')).split('\n')[0])
  const address = ['-h', '127.0.0.1', '-p', String(port), '-U', postgresUser]
  return {
    port,
    process: treeOf('postgres', pid),
    query: async (sql) => {
      const { stdout } = await run('psql', [...address, '-d', 'postgres', '-At', '-c', sql])
      return stdout.trimEnd().split('\n')
    },
    remove: async () => {
      await remove()
      forget()
    },
  }

  async function start(): Promise<void> {
    if (owner !== null) await chown(folder, owner.uid, owner.gid)
    await chmod(folder, 0o700)
    await run('initdb', ['-D', data, '-U', postgresUser, '--auth=trust', '-E', 'UTF8', '--locale=C'])
    starting.signal.throwIfAborted()
    const settings = Object.entries({
      ...postgresSettings,
      port,
      listen_addresses: '127.0.0.1',
      unix_socket_directories: folder,
    })
    const options = settings.map(([name, value]) => `-c ${name}=${value}`).join(' ')
    await run('pg_ctl', ['-D', data, '-o', options, '-l', path.join(folder, 'log'), '-w', 'start'])
  }

  /** Waits for what starts it: ended in the middle, they would leave a server that nobody knows. */
  async function end(): Promise<void> {
    starting.abort()
    const isUp = await started.then(
      () => true,
      () => false,
    )
    if (isUp) await run('pg_ctl', ['-D', data, '-m', 'fast', '-w', 'stop'])
    await rm(folder, { recursive: true, force: true })
  }
}

/** PostgreSQL refuses to run as root: then it is the user that its package made. Null for whoever runs this. */
async function ownerOf(): Promise<{ uid: number; gid: number } | null> {
  if (process.getuid?.() !== 0) return null
  const line = (await readFile('/etc/passwd', 'utf8'))
    .split('\n')
    .find((entry) => entry.startsWith('postgres:'))
  if (line === undefined)
    throw new Error('PostgreSQL runs under any user but root: there is none called postgres')
  const [, , uid, gid] = line.split(':')
  return { uid: Number(uid), gid: Number(gid) }
}

export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
