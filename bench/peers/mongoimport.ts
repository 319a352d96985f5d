import { execFile, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { errorMessage } from '../../shared/contract/errors.ts'
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
  work: { dataset: SubscriberFile; file: string; before?: SubscriberFile | undefined; modes: Mode[] },
): Promise<Contender[]> {
  const { dataset, before, file, modes } = work
  const found = await findMongoimport()
  if (found === null) {
    bench.say(
      'without mongoimport: there is none on the PATH; name one with MONGOIMPORT_BINARY, or build it with bench/peers/build-mongoimport.sh',
    )
    return []
  }
  const { binary, version } = found
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
  const running = promisify(execFile)(binary, args)
  onStart(running.child)
  const unregister = endOnInterrupt(() => {
    running.child.kill()
    return running
  })
  await running.finally(unregister).catch((error: unknown) => {
    // Its message has the command line, and so the server's password.
    const { code, stderr } = error as { code: unknown; stderr: string }
    throw new Error(`${binary} ended with ${String(code)}: ${stderr.slice(-1_000)}`)
  })
  return []
}

/** Where build-mongoimport.sh puts it. */
const built = fileURLToPath(
  new URL('../../node_modules/.cache/rollcall/mongoimport/mongoimport', import.meta.url),
)

/** `MONGOIMPORT_BINARY`, else one on the PATH, else the built one, else null; the version is "mongoimport 100.12.0". */
async function findMongoimport(): Promise<{ binary: string; version: string } | null> {
  const named = process.env['MONGOIMPORT_BINARY'] ?? ''
  for (const binary of named === '' ? ['mongoimport', built] : [named])
    try {
      const { stdout } = await promisify(execFile)(binary, ['--version'])
      return {
        binary,
        version: `mongoimport ${/version: (\S+)/.exec(stdout)?.[1] ?? 'unknown'}`,
      }
    } catch (error) {
      if (named !== '')
        throw new Error(`MONGOIMPORT_BINARY is ${named}, which can't be run: ${errorMessage(error)}`)
    }
  return null
}
