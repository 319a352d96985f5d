import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import { constants, createReadStream } from 'node:fs'
import { access } from 'node:fs/promises'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { programSearchPath } from '../../shared/runtime/config.ts'
import type { SubscriberFile } from '../datasets/subscriber-file.ts'
import { endOnInterrupt } from '../interrupt.ts'
import { childProcess } from '../processes.ts'
import type { Bench, Contender } from '../scenario.ts'
import { peer, type PeerTarget } from './peer.ts'

/**
 * `insert` writes with four workers and skips rows whose email is there. `upsert` replaces a document, `merge` sets the
 * row's fields; for both mongoimport uses one worker, which stops at the first error.
 */
type Mode = 'insert' | 'upsert' | 'merge'

const insertionWorkers = 4

/**
 * mongoimport of the same file into a collection with a unique index on the email, typed by the header line. It checks
 * no address, stores one in capitals beside the other spelling, has no lists, counts or logs, and after a crash begins
 * at the first row. A row with a bad date is left out. Without a mongoimport there is a message and no contender.
 */
export async function mongoimportPeers(
  bench: Bench,
  work: { dataset: SubscriberFile; file: string; before?: SubscriberFile; modes: Mode[] },
): Promise<Contender[]> {
  const { dataset, before, file, modes } = work
  const binary = await findMongoimport()
  if (binary === null) {
    bench.say(
      'without mongoimport: there is none on the PATH; name one with MONGOIMPORT_BINARY, or build it with bench/peers/build-mongoimport.sh',
    )
    return []
  }
  const version = await readVersion(binary)
  return modes.map((mode) =>
    peer(bench, {
      name: `mongoimport ${mode}`,
      version,
      settings: {
        insertion_workers: mode === 'insert' ? insertionWorkers : 1,
        batch: 1_000,
        write_concern: 'majority',
      },
      note: 'checks no address, takes one in capitals for another one, no lists, counts or logs; stores dates as dates',
      dataset,
      before,
      indexes: [{ key: { email: 1 }, unique: true }],
      leaves: mode === 'insert' ? before : dataset,
      prepare: async (target) => {
        let child: ChildProcess | undefined
        return {
          process: await childProcess('mongoimport', () => child?.pid),
          do: () => runMongoimport(binary, buildArgs(target, file, mode), (started) => (child = started)),
        }
      },
    }),
  )
}

const buildArgs = ({ uri, database, collection }: PeerTarget, file: string, mode: Mode): string[] => [
  `--uri=${uri}`,
  `--db=${database}`,
  `--collection=${collection}`,
  '--type=csv',
  '--headerline',
  '--columnsHaveTypes',
  '--parseGrace=skipRow',
  `--mode=${mode}`,
  ...(mode === 'insert' ? [] : ['--upsertFields=email']),
  `--numInsertionWorkers=${insertionWorkers}`,
  '--writeConcern=majority',
  // A line for each skipped row would be most of what is measured.
  '--quiet',
  `--file=${file}`,
]

/** Resolves to no times: mongoimport doesn't tell those of its batches. */
async function runMongoimport(
  binary: string,
  args: string[],
  onStart: (child: ChildProcess) => void,
): Promise<number[]> {
  const child = spawn(binary, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  onStart(child)
  let errors = ''
  child.stderr.on('data', (piece: Buffer) => (errors = (errors + piece.toString()).slice(-1_000)))
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  const unregister = endOnInterrupt(() => {
    child.kill()
    return ended
  })
  const code = await ended.finally(unregister)
  if (code !== 0) throw new Error(`${binary} ${args.join(' ')} ended with ${code}: ${errors}`)
  return []
}

/** Where build-mongoimport.sh puts it. */
const built = fileURLToPath(
  new URL('../../node_modules/.cache/rollcall/mongoimport/mongoimport', import.meta.url),
)

/** `MONGOIMPORT_BINARY`, else one on the PATH, else the built one, else null. */
async function findMongoimport(): Promise<string | null> {
  const named = process.env['MONGOIMPORT_BINARY'] ?? ''
  const folders = programSearchPath()
    .split(path.delimiter)
    .filter((folder) => folder !== '')
  const candidates =
    named === '' ? [...folders.map((folder) => path.join(folder, 'mongoimport')), built] : [named]
  for (const file of candidates) {
    const isExecutable = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    )
    if (isExecutable) return file
  }
  if (named !== '') throw new Error(`MONGOIMPORT_BINARY is ${named}, which isn't an executable file`)
  return null
}

/** "mongoimport 100.12.0"; of one that was built without its makefile the file's digest. */
async function readVersion(binary: string): Promise<string> {
  const { stdout } = await promisify(execFile)(binary, ['--version'])
  const version = /version: (\S+)/.exec(stdout)?.[1] ?? 'built-without-version-string'
  if (version !== 'built-without-version-string') return `mongoimport ${version}`
  const hash = createHash('sha256')
  await pipeline(createReadStream(binary), hash)
  return `mongoimport sha256:${hash.digest('hex').slice(0, 12)}`
}
