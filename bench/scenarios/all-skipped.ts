import { rollcallImport } from '../contenders/rollcall-import.ts'
import { writeFileTwice } from '../datasets/subscriber-file.ts'
import { bulkWritePeer } from '../peers/bulk-write.ts'
import { mongoimportPeers } from '../peers/mongoimport.ts'
import type { Comparison } from '../scenario.ts'

/** Every row is a subscriber that is there, and none is to be overwritten: the file that comes every night. */
export const allSkipped: Comparison = {
  name: 'all-skipped',
  summary:
    'rows that are all there and stay as they are, against new rows, mongoimport, and csv-parse with bulkWrite',
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
        expected: { skipped_overwrite: dataset.rows },
        leaves: before.dataset,
      }),
      rollcallImport(context, { name: 'rollcall, new rows', dataset, file }),
      ...(await mongoimportPeers(context, { ...peers, modes: ['insert'] })),
      bulkWritePeer(context, { ...peers, overwrite: false }),
    ]
  },
}
