import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import type { Documents, SubscriberFile } from '../datasets/subscriber-file.ts'
import { endOnInterrupt } from '../interrupt.ts'
import { childProcess } from '../processes.ts'
import type { BenchContext, Contender } from '../scenario.ts'
import { findMongoimport } from './find-mongoimport.ts'
import { flatSample } from './flat-document.ts'
import { peer, type PeerTarget } from './peer.ts'

/**
 * mongoimport of the same file into a collection with a unique index on the email, dates and numbers typed by the
 * header line. It checks no address, takes an address in capitals for another one, keeps no list, counts nothing by
 * kind, logs no row, and begins at the first row after a crash; a row whose date isn't one is left out.
 *
 * In `insert` it writes with four workers and passes over rows whose address is there. `upsert` replaces a document,
 * `merge` sets the row's fields; mongoimport allows one worker for them, which stops at the first error.
 */
export type MongoimportMode = 'insert' | 'upsert' | 'merge'

const insertionWorkers = 4

/** One contender a mode; none, and a sentence that says so, where there is no mongoimport. */
export async function mongoimportPeers(
  context: BenchContext,
  work: { dataset: SubscriberFile; file: string; before?: SubscriberFile; modes: MongoimportMode[] },
): Promise<Contender[]> {
  const { dataset, before, file, modes } = work
  const binary = await findMongoimport()
  if (binary === null) {
    context.say(
      'without mongoimport: there is none on the PATH; name one with MONGOIMPORT_BINARY, or build it with bench/peers/build-mongoimport.sh',
    )
    return []
  }
  const version = await versionOf(binary)
  return modes.map((mode) =>
    peer(context, {
      name: `mongoimport ${mode}`,
      dataset,
      ...(before === undefined ? {} : { before }),
      indexes: [{ key: { email: 1 }, unique: true }],
      expected: before !== undefined && mode === 'insert' ? before.expectedDocuments() : asTyped(dataset),
      sample:
        before !== undefined && mode === 'insert'
          ? flatSample(before, (row) => row)
          : flatSample(dataset, (row) => (dataset.kindOf(row) === 'bad_date' ? null : row)),
      // Of rows that differ by capitals alone either may come first: those in capitals aren't summed.
      points: { match: { email: /[a-z]$/ } },
      about: {
        version,
        settings: {
          insertion_workers: mode === 'insert' ? insertionWorkers : 1,
          batch: 1_000,
          write_concern: 'majority',
        },
        note: 'checks no address, takes one in capitals for another one, no lists, counts or logs; stores dates as dates',
      },
      prepare: async (target) => {
        let child: ChildProcess | undefined
        return {
          process: await childProcess('mongoimport', () => child?.pid),
          do: () => runMongoimport(binary, optionsOf(target, file, mode), (started) => (child = started)),
        }
      },
    }),
  )
}

/** One document for each address as typed; points of those that aren't typed in capitals. */
function asTyped(dataset: SubscriberFile): Documents {
  const documents = { count: 0, points: 0 }
  const inCapitals = new Set<number>()
  for (let row = 0; row < dataset.rows; row += 1) {
    const kind = dataset.kindOf(row)
    if (kind === 'bad_date') continue
    if (kind === 'duplicate') {
      if (!dataset.isRepetition(row)) inCapitals.add(dataset.originalOf(row)!)
      continue
    }
    documents.count += 1
    documents.points += dataset.pointsOf(row)
  }
  return { ...documents, count: documents.count + inCapitals.size }
}

const optionsOf = ({ uri, database, collection }: PeerTarget, file: string, mode: MongoimportMode) => [
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
  // A line for each row that is passed over would be what is measured.
  '--quiet',
  `--file=${file}`,
]

async function runMongoimport(
  binary: string,
  options: string[],
  onStart: (child: ChildProcess) => void,
): Promise<void> {
  const child = spawn(binary, options, { stdio: ['ignore', 'ignore', 'pipe'] })
  onStart(child)
  let errors = ''
  child.stderr.on('data', (piece: Buffer) => (errors = (errors + piece.toString()).slice(-1_000)))
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  const forget = endOnInterrupt(() => {
    child.kill()
    return ended
  })
  const code = await ended.finally(forget)
  if (code !== 0) throw new Error(`${binary} ${options.join(' ')} ended with ${code}: ${errors}`)
}

/** "mongoimport 100.12.0"; one that was built by itself has its commit there. */
async function versionOf(binary: string): Promise<string> {
  const { stdout } = await promisify(execFile)(binary, ['--version'])
  const version = /version: (\S+)/.exec(stdout)?.[1] ?? unnamed
  return version === unnamed ? `mongoimport sha256:${await digestOf(binary)}` : `mongoimport ${version}`
}

/** What one that was built without its makefile calls itself. */
const unnamed = 'built-without-version-string'

async function digestOf(file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex').slice(0, 12)
}
