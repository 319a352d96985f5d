import { columns, customFields, type SubscriberFile } from '../../bench/datasets/subscriber-file.ts'
import { createList, until, type Json, type Service } from './service.ts'
import { storedUploads } from './stored-uploads.ts'

/** Creates a list, writes the file into the upload directory of account 1 and begins its import; the import's view. */
export async function beginLargeImport(service: Service, file: SubscriberFile): Promise<Json> {
  const list = await createList(service, [...customFields])
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
