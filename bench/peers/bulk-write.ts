import { programEnvironment } from '../../shared/runtime/config.ts'
import { columns, customFields, type SubscriberFile } from '../datasets/subscriber-file.ts'
import { childProcesses } from '../processes.ts'
import { startProgram } from '../program.ts'
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
  work: { dataset: SubscriberFile; file: string; overwrite: boolean; before?: SubscriberFile | undefined },
): Contender {
  const { dataset, before, file, overwrite } = work
  const named = (type: string) =>
    customFields.filter(({ field_type }) => field_type === type).map(({ name }) => name)
  const order = {
    file,
    columns,
    numbers: named('number'),
    dates: [...named('date'), 'subscribe_time'],
    overwrite,
  }
  return peer(bench, {
    name: 'csv-parse, bulkWrite',
    note: 'batches of 1,000, one in flight, unordered; the last row of an address wins, 30 February is 1 March; no counts, no logs, nothing after a crash',
    dataset,
    before,
    indexes: [{ key: { email: 1 }, unique: true }],
    leaves: overwrite ? dataset : before,
    prepare: (target) => startImporter({ target, ...order }),
  })
}

async function startImporter(order: BulkWriteOrder): Promise<PreparedPeer> {
  const { pids, send, reply, end } = startProgram<BulkWriteOrder, []>(
    new URL('./bulk-write-process.ts', import.meta.url),
    {
      // Its dates must not depend on the machine's time zone.
      env: programEnvironment({ settings: { TZ: 'UTC' } }),
      execArgv: [...process.execArgv, ...collectorFlags],
    },
  )
  // It is ready.
  await reply()
  return {
    process: await childProcesses('importer', pids),
    do: () => {
      send(order)
      return reply()
    },
    end,
  }
}
