import t from 'tap'
import { isLeadingEngine } from '../../../engine/store/engines.ts'
import { ensureSchema } from '../../../shared/runtime/ensure-schema.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { keyHashSecret } from '../../../shared/store/api-keys.ts'
import { adoptDataFolderId } from '../../../shared/store/installation.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'

/** Which engine leads, and which mark a folder gets. */

const { database } = await databaseAndFolder(t)
const { collections } = database
await ensureSchema(database.db, createLogger({ process: 'test', level: 'silent' }))

const ago = (seconds: number): Date => new Date(Date.now() - seconds * 1_000)

t.test('the id of the folder is adopted once', async (t) => {
  await keyHashSecret(collections)
  t.equal(await adoptDataFolderId(collections, 'first'), 'first')
  t.equal(await adoptDataFolderId(collections, 'second'), 'first')
})

t.test('of the engines that see their files the one with the smallest number leads', async (t) => {
  await collections.engines.deleteMany({})
  const engine = {
    host: 'h',
    process_id: 1,
    started_at: ago(60),
    session_ids: [],
    lease_until: ago(-60),
    lease_election: null,
  }
  const leaders = async () => {
    const engines = await collections.engines.find().sort({ number: 1 }).toArray()
    const leads = await Promise.all(engines.map(({ _id }) => isLeadingEngine(collections, _id)))
    return engines.map(({ _id }) => _id).filter((_, i) => leads[i])
  }
  await collections.engines.insertMany(
    [0, 1, 2].map((number) => ({
      ...engine,
      ...{ _id: `engine ${number}`, number, dead: number === 0, sees_files: true },
    })),
  )
  t.same(await leaders(), ['engine 1'], 'a dead one does not')
  await collections.engines.updateOne({ number: 1 }, { $set: { sees_files: false } })
  t.same(await leaders(), ['engine 2'])
  await collections.engines.updateOne({ number: 2 }, { $set: { sees_files: false } })
  t.same(await leaders(), ['engine 1'], 'where all miss their files, one leads all the same')
})
