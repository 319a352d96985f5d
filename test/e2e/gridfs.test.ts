import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import { columns, customFields, SubscriberFile } from '../../bench/datasets/subscriber-file.ts'
import { Engines } from '../helpers/engines.ts'
import { FtpSession } from '../helpers/ftp-session.ts'
import { createList, importEnd, startService, until, type Json } from '../helpers/service.ts'

/** A control plane, an FTP server and an engine that share nothing but the database, as on three machines. */

/** A file that is larger than one write to the database. */
const file = new SubscriberFile({ rows: 12_000, seed: 31 })
const text = [...file.text()].join('')

const service = await startService(t, ['control-plane'], { STAGING: 'gridfs' })
const folders: string[] = [service.dataFolder]
async function folderOfItsOwn(): Promise<{ DATA_DIR: string }> {
  const folder = await mkdtemp(path.join(tmpdir(), 'rollcall-apart-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  folders.push(folder)
  return { DATA_DIR: folder }
}
const ftp = await service.start('ftp', await folderOfItsOwn())
const web = createServer((_request, response) => response.end(text))
await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve))
t.teardown(() => web.close())

async function begin(file_source: Json): Promise<Json> {
  const list = await createList(service, [...customFields])
  return service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: { column_mapping: columns, file_source },
  })
}

const isDone = {
  state: 'finished',
  error_message: null,
  stats: { number_of_records: 12_000, subscribers: file.expectedCounts() },
}

const engineElsewhere = async (crashAt?: string) => {
  const settings = { ...service.settings, ...(await folderOfItsOwn()) }
  const engines = new Engines(t, { ...service, settings })
  return { engines, engine: await engines.start(crashAt) }
}

t.test('an upload is imported although engines die that split it and that import it', async (t) => {
  const session = await FtpSession.open(ftp.ready.ftp!)
  t.match(await session.upload('STOR rows.csv', text), /^226 /)
  session.close()
  const { id } = await begin({ type: 'upload_directory', filename: 'rows.csv' })
  const points = [
    'findAndModify blob_pieces after 1',
    'update imports "state":"importing" before 1',
    'update import_chunks next_record > commitTransaction after 3',
  ]
  for (const point of points) {
    const { engines, engine } = await engineElsewhere(point)
    await engine.ended
    await engines.endLeaseOf(engine)
  }
  await engineElsewhere()
  t.match(await importEnd(service, id, 60_000), isDone)
})

t.test('URLs and inline content are staged in the database too', async (t) => {
  const url = `http://127.0.0.1:${(web.address() as { port: number }).port}/rows.csv`
  const created = [await begin({ type: 'json', content: text }), await begin({ type: 'url', url })]
  for (const { id, file_source } of created)
    t.match(await importEnd(service, id, 60_000), isDone, file_source.type)
})

t.test('only the upload is left, and no folder has any file', async (t) => {
  await until(
    'clearing up',
    async () => [
      await service.collections.imports.countDocuments({ finalized: false }),
      await service.collections.blobPieces.countDocuments({ blob: /^staging/ }),
      await service.collections.uploads.countDocuments({ pinned_by: { $ne: [] } }),
    ],
    (left) => left.every((count) => count === 0),
  )
  t.equal(await service.collections.uploads.countDocuments(), 1)
  for (const folder of folders) t.same(await readdir(folder), [], folder)
})
