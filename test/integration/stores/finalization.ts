import { Readable } from 'node:stream'
import { Registry } from 'prom-client'
import t from 'tap'
import { createEngineMetrics } from '../../../engine/metrics.ts'
import { finalizeImport, finalizeSmallImport } from '../../../engine/stages/finish/finalize-import.ts'
import { noCounts } from '../../../shared/contract/schemas/import.ts'
import { ensureSchema } from '../../../shared/runtime/ensure-schema.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { openStaging } from '../../../shared/storage/staging/open-staging.ts'
import { openUploads } from '../../../shared/storage/uploads/open-uploads.ts'
import { StagedQuota } from '../../../shared/storage/uploads/staged-quota.ts'
import { markLogsPurged } from '../../../shared/store/imports.ts'
import { makeLedger } from '../../../shared/store/ledger.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'
import { gatedDatabase } from '../../helpers/gated-database.ts'
import { noKeys } from '../../helpers/no-keys.ts'
import { putUpload } from '../../helpers/stored-uploads.ts'
import { present } from '../../helpers/present.ts'
import { storedImport } from '../../helpers/stored-import.ts'

const { database: own, folder } = await databaseAndFolder(t)
const log = createLogger({ process: 'test', level: 'silent' })
await ensureSchema(own.db, log)
const { database, gate } = await gatedDatabase(t, own.db.databaseName)
const { collections } = database
const location = { STAGING: 'gridfs', DATA_DIR: folder } as const
const staging = openStaging(location, collections)
const uploads = openUploads(location, database)
const quota = new StagedQuota({ collections, limits: { bytes: Infinity, imports: 10 } })
const context = {
  ...{ database, log, staging, uploads, quota, secrets: noKeys },
  metrics: createEngineMetrics(new Registry()),
}

t.test('an import is finalized again when the reply to the removal of its files is lost', async (t) => {
  const document = storedImport({ _id: 1, state: 'cancelled', finished_at: new Date(), holds_list: true })
  await collections.imports.insertOne(document)
  await staging.write('1/content', Readable.from([Buffer.from('a@example.com\n')]))
  t.equal(await quota.enter(1, 1, 14), 'entered')
  const isCut = gate.watch(({ delete: collection }) => collection === 'blob_pieces', 'cut')
  await t.rejects(finalizeImport(document, context), { name: 'MongoNetworkError' })
  await isCut
  gate.release()
  t.match(await own.collections.imports.findOne({ _id: 1 }), { finalized: false })
  t.equal(await finalizeImport(document, context), true)
  t.match(await own.collections.imports.findOne({ _id: 1 }), { finalized: true })
  t.equal(await own.collections.blobPieces.countDocuments(), 0)
  const ledger = present(await own.collections.ledgers.findOne({ _id: 1 }), 'the ledger')
  t.same(ledger.imports, [])
})

t.test(
  'a small import that is finalized leaves files to the sweep when the reply to their removal is lost',
  async (t) => {
    const callback = { url: 'https://example.com/' }
    for (const document of [storedImport({ _id: 2 }), storedImport({ _id: 3, callback })]) {
      await staging.write(`${document._id}/content`, Readable.from([Buffer.from('a@example.com\n')]))
      const isCut = gate.watch(({ delete: collection }) => collection === 'blob_pieces', 'cut')
      const finalizing = finalizeSmallImport(document, { counts: noCounts(), keptBytes: 0 }, context)
      if (document.callback === null) await finalizing
      else
        await t.rejects(finalizing, { name: 'MongoNetworkError' }, 'one with a callback is finalized again')
      await isCut
      gate.release()
    }
  },
)

t.test('the mark that logs are purged and the quota that they free are written together', async (t) => {
  const organizationId = 6
  const totals = { ...noCounts(), kept_bytes: 40 }
  await own.collections.imports.insertOne(
    storedImport({ _id: 61, organization_id: organizationId, state: 'finished', totals }),
  )
  await makeLedger(own.collections, organizationId)
  await own.collections.ledgers.updateOne({ _id: organizationId }, { $set: { kept: 100 } })
  const isHeld = gate.watch(({ update }) => update === 'ledgers')
  const purged = markLogsPurged(database, 61)
  await isHeld
  t.match(await own.collections.imports.findOne({ _id: 61 }), { logs_purged_at: null })
  gate.release()
  await purged
  t.match(await own.collections.imports.findOne({ _id: 61 }), { logs_purged_at: Date })
  t.match(await own.collections.ledgers.findOne({ _id: organizationId }), { kept: 60 })
})

t.test('an import that ended before its split releases the upload that it had kept', async (t) => {
  const organizationId = 7
  await putUpload(uploads, 'kept.csv', 'a@example.com\n', organizationId)
  const document = storedImport({
    ...{ _id: 71, organization_id: organizationId, state: 'cancelled', finished_at: new Date() },
    source: { type: 'upload_directory', filename: 'kept.csv', url: null },
  })
  await collections.imports.insertOne(document)
  t.not(await uploads.pin({ organizationId, name: 'kept.csv', importId: 71 }), null)
  t.same(await uploads.listPinned(), [71])
  t.equal(await finalizeImport(document, context), true)
  t.same(await uploads.listPinned(), [])
})
