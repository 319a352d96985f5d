import { rollcallImport } from '../contenders/rollcall-import.ts'
import { writeSubscriberFile } from '../datasets/subscriber-file.ts'
import { startFileServer } from '../load/file-server.ts'
import type { Comparison } from '../scenario.ts'

/** The whole path of a file that lies in the upload directory, and of one that has to be fetched first. */
export const doors: Comparison = {
  name: 'doors',
  summary: 'new rows from the upload directory, from a URL, and from a URL whose server packs them',
  defaultRows: 1_000_000,
  async prepare(context) {
    const { dataset, file } = await writeSubscriberFile(context)
    const { url } = await startFileServer(file)
    const fromUrl = (name: string, path: string) =>
      rollcallImport(context, {
        name,
        dataset,
        file,
        URL_IMPORT_ALLOW: '127.0.0.1',
        request: { file_source: { type: 'url', url: `${url}/${path}/rows.csv` } },
      })
    return [
      rollcallImport(context, { name: 'upload directory', dataset, file }),
      fromUrl('URL', 'plain'),
      fromUrl('URL, gzip', 'packed'),
    ]
  },
}
