import { rollcallImport } from '../contenders/rollcall-import.ts'
import { writeSubscriberFile } from '../datasets/subscriber-file.ts'
import { bulkWritePeer } from '../peers/bulk-write.ts'
import { insertManyPeer } from '../peers/insert-many.ts'
import { mongoimportPeers } from '../peers/mongoimport.ts'
import type { Comparison } from '../scenario.ts'

/** 60 columns: the eight of the other files, and 13 texts, numbers, dates and booleans each. */
export const wide: Comparison = {
  name: 'wide',
  summary:
    'new rows of 60 columns, against insertMany of the same documents, mongoimport, and csv-parse with bulkWrite',
  defaultRows: 200_000,
  async prepare(context) {
    const { dataset, file } = await writeSubscriberFile(context, { extraColumns: 52, defects: false })
    return [
      rollcallImport(context, { name: 'rollcall', dataset, file }),
      insertManyPeer(context, dataset),
      ...(await mongoimportPeers(context, { dataset, file, modes: ['insert'] })),
      bulkWritePeer(context, { dataset, file, overwrite: true }),
    ]
  },
}
