import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { errorMessage } from '../../shared/contract/errors.ts'
import { withoutUriSecrets } from '../../shared/runtime/shown-uri.ts'
import { writeRows, type Rows, type SubscriberFile } from '../datasets/subscriber-file.ts'
import { endOnInterrupt } from '../interrupt.ts'
import { childProcesses } from '../processes.ts'
import type { Bench, Contender } from '../scenario.ts'
import { peer, type PeerTarget } from './peer.ts'

/**
 * `insert` writes with four workers and skips rows whose email is there. `upsert` replaces a document, `merge` sets the
 * row's fields; for both mongoimport uses one worker, which stops at the first error. So two processes with half of the
 * file each are a further peer.
 */
type Mode = 'insert' | 'upsert' | 'merge' | 'upsert, 2 processes'

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
  return Promise.all(
    modes.map(async (mode) => {
      const files = mode === 'upsert, 2 processes' ? await writeHalves(bench, dataset) : [file]
      const worst =
        'repeated rows are its worst mode: for one the server writes up to 500 rows again, one by one; '
      return peer(bench, {
        name: `mongoimport ${mode}`,
        version,
        note: `${mode === 'insert' ? insertionWorkers : files.length} insertion workers, batches of 1,000; ${mode === 'insert' && before !== undefined ? worst : ''}checks no address, takes one in capitals for another one, no lists, counts or logs; stores dates as dates`,
        dataset,
        before,
        indexes: [{ key: { email: 1 }, unique: true }],
        leaves: mode === 'insert' ? before : dataset,
        prepare: async (target) => {
          const children: ChildProcess[] = []
          const pids = () => children.flatMap(({ pid, exitCode }) => (exitCode === null ? (pid ?? []) : []))
          return {
            process: await childProcesses('mongoimport', pids),
            do: () => {
              const run = (part: string) =>
                runMongoimport(binary, target.uri, buildArgs(target, part, mode), (started) =>
                  children.push(started),
                )
              return Promise.all(files.map(run))
            },
          }
        },
      })
    }),
  )
}

function writeHalves({ folder }: Bench, dataset: SubscriberFile): Promise<string[]> {
  const count = Math.ceil(dataset.rows / 2)
  const write = async (half: Rows) => {
    const file = path.join(folder, `half-${half.first}.csv`)
    await writeRows(dataset, file, [half])
    return file
  }
  return Promise.all([write({ first: 0, count }), write({ first: count, count: dataset.rows - count })])
}

const buildArgs = ({ uri, database }: PeerTarget, file: string, mode: Mode): string[] => [
  `--uri=${uri}`,
  // It would look for the user in the database that it writes to.
  '--authenticationDatabase=admin',
  `--db=${database}`,
  '--collection=subscribers',
  '--type=csv',
  '--headerline',
  '--columnsHaveTypes',
  '--parseGrace=skipRow',
  `--mode=${mode.split(',')[0]}`,
  ...(mode === 'insert' ? [] : ['--upsertFields=email']),
  `--numInsertionWorkers=${insertionWorkers}`,
  '--writeConcern=majority',
  `--file=${file}`,
]

/**
 * It is quiet, as a line for each skipped row would
 * be most of what is measured. That also hides why it failed, so after a failure it runs again and may speak.
 */
async function runMongoimport(
  binary: string,
  uri: string,
  args: string[],
  onStart: (child: ChildProcess) => void,
): Promise<void> {
  const quiet = await run(binary, [...args, '--quiet'], onStart)
  if (quiet.code === 0) return
  const { code, output } = await run(binary, args)
  const reason = withoutUriSecrets(output, uri).slice(-1_000)
  throw new Error(`${binary} ended with ${quiet.code}; run again without --quiet, with ${code}: ${reason}`)
}

/** Resolves to its exit code, or the signal that ended it, and the end of what it wrote to standard error. */
async function run(binary: string, args: string[], onStart?: (child: ChildProcess) => void) {
  const child = spawn(binary, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  onStart?.(child)
  let output = ''
  child.stderr.on('data', (piece: Buffer) => (output = (output + piece.toString()).slice(-10_000)))
  const ended = once(child, 'close') as Promise<[code: number | null, signal: string | null]>
  const unregister = endOnInterrupt(() => {
    child.kill()
    return ended
  })
  const [code, signal] = await ended.finally(unregister)
  return { code: code ?? signal, output }
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
      return { binary, version: `mongoimport ${/version: (\S+)/.exec(stdout)?.[1] ?? 'unknown'}` }
    } catch (error) {
      if (named !== '')
        throw new Error(`MONGOIMPORT_BINARY is ${named}, which can't be run: ${errorMessage(error)}`)
    }
  return null
}
