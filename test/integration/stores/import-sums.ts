import t from 'tap'
import { recordFromKeys } from '../../../shared/contract/record-from-keys.ts'
import { ensureSchema } from '../../../shared/runtime/ensure-schema.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { furtherCounts, noCounts, type FaultCount } from '../../../shared/contract/schemas/import.ts'
import { readSums, sumImport } from '../../../shared/store/chunks.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'
import { storedChunk } from '../../helpers/stored-import.ts'

/** What an import's chunks say together. */

const fault = (kind: string, column: number | null, rows: number, record: number): FaultCount => ({
  ...{ kind, column, field_id: null, rows },
  first: { record, example: column === null ? null : `cell of ${record}` },
})
const failed = (count: number) => ({ ...noCounts(), failed: count })

t.test('faults are summed over the chunks, and the first row of all gives the example', async (t) => {
  const { database } = await databaseAndFolder(t)
  const { collections } = database
  await ensureSchema(database.db, createLogger({ process: 'test', level: 'silent' }))
  await collections.chunks.insertMany([
    storedChunk(1, 0, { counts: failed(4), faults: [fault('blank', 0, 3, 90), fault('nul', null, 1, 50)] }),
    storedChunk(1, 1, { counts: failed(2) }),
    storedChunk(1, 2, {
      counts: failed(9),
      faults: [
        fault('blank', 0, 1, 8),
        fault('blank', 1, 1, 7),
        fault('wrong_value', 0, 6, 9),
        fault('nul', null, 1, 60),
      ],
    }),
    storedChunk(2, 0, { counts: failed(1), faults: [fault('of a later version', null, 1, 3)] }),
  ])
  const ofFirst = {
    counts: { ...failed(15), ...recordFromKeys(furtherCounts, () => 0) },
    faults: [
      fault('wrong_value', 0, 6, 9),
      fault('blank', 0, 4, 8),
      fault('nul', null, 2, 50),
      fault('blank', 1, 1, 7),
    ],
  }
  t.same(await sumImport(collections, 1), ofFirst)
  const sums = await readSums(
    collections,
    [
      { _id: 1, number_of_records: 1, totals: null },
      { _id: 2, number_of_records: 1, totals: null },
      { _id: 3, number_of_records: 1, totals: null },
      { _id: 4, number_of_records: 1, totals: failed(2) },
      { _id: 5, number_of_records: 1, totals: failed(2), faults: [fault('nul', null, 2, 1)] },
    ],
    { withFaults: true },
  )
  t.same(sums.get(1), ofFirst)
  t.match(sums.get(2)?.faults, [{ kind: 'of a later version' }])
  t.same(sums.get(3), { counts: noCounts(), faults: [] })
  t.same(sums.get(4), { counts: failed(2), faults: [] })
  t.same(sums.get(5)?.faults, [fault('nul', null, 2, 1)])
  const counts = await readSums(collections, [{ _id: 1, number_of_records: 1, totals: null }], {
    withFaults: false,
  })
  t.same(counts.get(1), { counts: ofFirst.counts, faults: [] })
})
