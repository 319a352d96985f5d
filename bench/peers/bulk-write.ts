import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { programEnvironment } from '../../shared/runtime/config.ts'
import type { SubscriberFile } from '../datasets/subscriber-file.ts'
import { endOnInterrupt } from '../interrupt.ts'
import { childProcess } from '../processes.ts'
import type { Bench, Contender } from '../scenario.ts'
import { collectorFlags, peer, type PeerTarget, type PreparedPeer } from './peer.ts'

export interface BulkWriteOrder {
  target: PeerTarget
  file: string
  columns: readonly string[]
  numbers: string[]
  dates: string[]
  /** `$set` where rows overwrite, else `$setOnInsert`. */
  overwrite: boolean
}

/**
 * What a developer writes in an afternoon: one process, csv-parse, converted cells, an upsert by email a row, 1,000 in
 * an unordered bulkWrite. The last row of an email wins, `new Date` takes 30 February for 1 March, nothing is counted
 * or logged, and after a crash it begins again.
 */
export function bulkWritePeer(
  bench: Bench,
  work: { dataset: SubscriberFile; file: string; overwrite: boolean; before?: SubscriberFile },
): Contender {
  const { dataset, before, file, overwrite } = work
  const named = (type: string) =>
    dataset.customFields.filter(({ field_type }) => field_type === type).map(({ name }) => name)
  return peer(bench, {
    name: 'csv-parse, bulkWrite',
    settings: { batch: 1_000, batches_in_flight: 1, ordered: false, write_concern: 'majority' },
    note: 'the last row of an address wins, 30 February is 1 March; no counts, no logs, nothing after a crash',
    dataset,
    before,
    indexes: [{ key: { email: 1 }, unique: true }],
    leaves: overwrite ? dataset : before,
    prepare: (target) =>
      startProgram({
        target,
        file,
        columns: dataset.columns,
        numbers: named('number'),
        dates: [...named('date'), 'subscribe_time'],
        overwrite,
      }),
  })
}

async function startProgram(order: BulkWriteOrder): Promise<PreparedPeer> {
  const program = fileURLToPath(new URL('./bulk-write-process.ts', import.meta.url))
  const child = fork(program, {
    // Its dates must not depend on the machine's time zone.
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
  const unregister = endOnInterrupt(async () => {
    child.kill()
    await ended
  })
  const answer = async (): Promise<number[]> =>
    Promise.race([once(child, 'message').then(([milliseconds]: number[][]) => milliseconds ?? []), ended])
  await answer()
  return {
    process: await childProcess('importer', () => child.pid),
    do: () => {
      child.send(order)
      return answer()
    },
    end: async () => {
      child.disconnect()
      await ended.catch(() => undefined)
      unregister()
    },
  }
}
