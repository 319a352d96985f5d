import { columns, customFields, type SubscriberFile } from '../../bench/datasets/subscriber-file.ts'
import { lockRow } from './locked-row.ts'
import { createList, until, type Json, type Service } from './service.ts'
import { storedUploads } from './stored-uploads.ts'

/** Creates a list, writes the file into the upload directory of account 1 and begins its import; the import's view. */
export const beginLargeImport = async (service: Service, file: SubscriberFile): Promise<Json> =>
  beginImport(service, await createList(service, [...customFields]), file)

/** Begins a large import in which every chunk has locked rows, so that none ends before `letGo` or a minute is over. */
export async function beginHeldImport(service: Service, file: SubscriberFile) {
  const list = await createList(service, [...customFields])
  const rows = Array.from({ length: 200 }, (_, i) => Math.floor((i * file.rows) / 200))
  const keys = rows.map((row) => `${list.id}:${file.emailOf(file.firstRow(row))}`)
  const letGo = await lockRow(service, ...keys)
  return { id: (await beginImport(service, list, file)).id as number, letGo }
}

async function beginImport(service: Service, list: Json, file: SubscriberFile): Promise<Json> {
  await storedUploads(service).put('large.csv', Buffer.concat([...file.bytes()]))
  return service.post(`/mailing_lists/${list.id}/subscriber_imports`, {
    subscriber_import: {
      column_mapping: columns,
      file_source: { type: 'upload_directory', filename: 'large.csv' },
    },
  })
}

/** Waits until this number of rows is imported. Resolves to the import's view. */
export const someRowsIn = (service: Service, id: number, minRows: number): Promise<Json> =>
  until(
    `${minRows} rows`,
    () => service.get(`/subscriber_imports/${id}`),
    (view) => view.stats.records_imported >= minRows,
  )
