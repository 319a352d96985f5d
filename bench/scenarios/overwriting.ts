import { rollcallImport } from '../contenders/rollcall-import.ts'
import { writeFileTwice } from '../datasets/subscriber-file.ts'
import { bulkWritePeer } from '../peers/bulk-write.ts'
import { mongoimportPeers } from '../peers/mongoimport.ts'
import type { Comparison } from '../scenario.ts'

/** Every row is a subscriber that is there, and gives him other values. */
export const overwriting: Comparison = {
  name: 'overwriting',
  summary:
    'rows that overwrite subscribers, every one of them, against mongoimport and csv-parse with bulkWrite',
  defaultRows: 1_000_000,
  async prepare(context) {
    const { before, dataset, file } = await writeFileTwice(context)
    const peers = { dataset, file, before: before.dataset }
    return [
      rollcallImport(context, {
        name: 'rollcall',
        dataset,
        file,
        before,
        request: { overwrite: true },
        expected: { updated: dataset.rows },
        // Without `overwrite_what` it stays.
        subscribeTimes: before.dataset,
      }),
      ...(await mongoimportPeers(context, { ...peers, modes: ['merge', 'upsert'] })),
      bulkWritePeer(context, { ...peers, overwrite: true }),
    ]
  },
}
