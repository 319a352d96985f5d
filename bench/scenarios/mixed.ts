import { rollcallImport } from '../contenders/rollcall-import.ts'
import { writeSubscriberFile } from '../datasets/subscriber-file.ts'
import { bulkWritePeer } from '../peers/bulk-write.ts'
import { mongoimportPeers } from '../peers/mongoimport.ts'
import type { Comparison } from '../scenario.ts'

/** A file as people have it: a fifth of the rows repeat an address, a twentieth can't be imported. */
export const mixed: Comparison = {
  name: 'mixed',
  summary: 'new rows with 20 % duplicates and 5 % bad ones, against mongoimport and csv-parse with bulkWrite',
  defaultRows: 1_000_000,
  async prepare(context) {
    const defects = { badEmails: 25, badDates: 25, duplicates: 200 }
    const { dataset, file } = await writeSubscriberFile(context, { defects })
    return [
      rollcallImport(context, { name: 'rollcall', dataset, file }),
      ...(await mongoimportPeers(context, { dataset, file, modes: ['insert'] })),
      bulkWritePeer(context, { dataset, file, overwrite: true }),
    ]
  },
}
