import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { programEnvironment } from '../../shared/runtime/config.ts'
import type { Sample } from '../datasets/sample.ts'
import type { Documents, SubscriberFile } from '../datasets/subscriber-file.ts'
import { endOnInterrupt } from '../interrupt.ts'
import { childProcess } from '../processes.ts'
import type { BenchContext, Contender } from '../scenario.ts'
import { flatSample } from './flat-document.ts'
import { collectorFlags, peer, type PeerTarget, type PreparedPeer } from './peer.ts'

/**
 * What a developer writes in an afternoon: csv-parse in one process, the cells trimmed and converted, an upsert by
 * email for each row, a thousand in a bulkWrite that isn't ordered. `$set` where rows overwrite, `$setOnInsert` where
 * they don't. The last of several rows with one address wins, `new Date` takes 30 February for 1 March, and nothing is
 * counted or logged, or goes on after a crash.
 */
const program = fileURLToPath(new URL('./bulk-write-process.ts', import.meta.url))

export interface BulkWriteOrder {
  target: PeerTarget
  file: string
  columns: readonly string[]
  numbers: string[]
  booleans: string[]
  dates: string[]
  overwrite: boolean
}

export function bulkWritePeer(
  context: BenchContext,
  work: { dataset: SubscriberFile; file: string; overwrite: boolean; before?: SubscriberFile },
): Contender {
  const { dataset, before, file, overwrite } = work
  const named = (type: string) =>
    dataset.customFields.filter(({ field_type }) => field_type === type).map(({ name }) => name)
  const leaves = overwrite || before === undefined ? lastWins(dataset) : firstStays(before)
  return peer(context, {
    name: 'csv-parse, bulkWrite',
    dataset,
    ...(before === undefined ? {} : { before }),
    indexes: [{ key: { email: 1 }, unique: true }],
    ...leaves,
    about: {
      settings: { batch: 1_000, batches_in_flight: 1, ordered: false, write_concern: 'majority' },
      note: 'the last row of an address wins, 30 February is 1 March; no counts, no logs, nothing after a crash',
    },
    prepare: (target) =>
      startProgram({
        target,
        file,
        columns: dataset.columns,
        numbers: named('number'),
        booleans: named('boolean'),
        dates: [...named('date'), 'subscribe_time'],
        overwrite,
      }),
  })
}

/** One document for each address, with the values of its last row; a bad date is no reason to leave a row out. */
function lastWins(dataset: SubscriberFile): Leaves {
  const replaced = new Map<number, number>()
  const documents = { count: 0, points: 0 }
  for (let row = 0; row < dataset.rows; row += 1) {
    const kind = dataset.kindOf(row)
    if (kind === 'bad_email') continue
    if (kind === 'duplicate') {
      replaced.set(dataset.originalOf(row)!, row)
      continue
    }
    documents.count += 1
    documents.points += dataset.pointsOf(row)
  }
  for (const [original, last] of replaced)
    documents.points += dataset.pointsOf(last) - dataset.pointsOf(original)
  const valuesOf = (row: number) => (dataset.kindOf(row) === 'bad_email' ? null : (replaced.get(row) ?? row))
  return { expected: documents, sample: flatSample(dataset, valuesOf) }
}

interface Leaves {
  expected: Documents
  sample: Sample
}

const firstStays = (before: SubscriberFile): Leaves => ({
  expected: before.expectedDocuments(),
  sample: flatSample(before, (row) => row),
})

async function startProgram(order: BulkWriteOrder): Promise<PreparedPeer> {
  // What it makes of a date doesn't hang on where the machine stands.
  const child = fork(program, {
    env: programEnvironment({ settings: { TZ: 'UTC' } }),
    execArgv: [...process.execArgv, ...collectorFlags],
  })
  const ended = new Promise<never>((_, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) =>
      reject(new Error(`the csv-parse and bulkWrite program ended early (${signal ?? `exit code ${code}`})`)),
    )
  })
  ended.catch(() => undefined)
  const forget = endOnInterrupt(async () => {
    child.kill()
    await ended
  })
  const answer = async <T>(): Promise<T> =>
    Promise.race([once(child, 'message').then(([message]) => message as T), ended])
  await answer()
  let milliseconds: number[] = []
  return {
    process: await childProcess('importer', () => child.pid),
    do: async () => {
      child.send(order)
      milliseconds = await answer<number[]>()
    },
    batchTimes: () => milliseconds,
    end: async () => {
      child.disconnect()
      await ended.catch(() => undefined)
      forget()
    },
  }
}
