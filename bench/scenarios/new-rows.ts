import { rollcallImport } from '../contenders/rollcall-import.ts'
import { writeSubscriberFile } from '../datasets/subscriber-file.ts'
import { bulkWritePeer } from '../peers/bulk-write.ts'
import { insertManyPeer } from '../peers/insert-many.ts'
import { mongoimportPeers } from '../peers/mongoimport.ts'
import type { Comparison } from '../scenario.ts'

/** New rows into an empty list, whole path: from `begins_at` to `finished`, splitting, dedupe, counts and logs included. */
export const newRows: Comparison = {
  name: 'new-rows',
  summary:
    'new rows through the upload directory, against insertMany of the same documents, mongoimport, and csv-parse with bulkWrite',
  defaultRows: 1_000_000,
  async prepare(context) {
    // Not one row twice: mongoimport writes a group of 500 again, row by row, for each row that is there already.
    const { dataset, file } = await writeSubscriberFile(context, { defects: false })
    return [
      rollcallImport(context, { name: 'rollcall', dataset, file }),
      insertManyPeer(context, dataset),
      ...(await mongoimportPeers(context, { dataset, file, modes: ['insert', 'upsert'] })),
      bulkWritePeer(context, { dataset, file, overwrite: true }),
    ]
  },
}
