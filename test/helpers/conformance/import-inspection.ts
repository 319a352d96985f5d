import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { uploadFolder } from '../../../shared/storage/uploads/upload-names.ts'
import type { Rows } from './row.ts'
import { creation, creationFailures, onRemoteList } from './subscriber-imports.ts'
import { controlPlaneOrigin } from '../service.ts'

export const importInspectionRows: Rows = {
  inspectSubscriberImport: {
    good: async ({ list }) => ({
      params: { mailing_list_id: (await list()).id },
      body: creation({ column_mapping: null }),
    }),
    failures: {
      'a Remote List': onRemoteList(creation({})),
      ...creationFailures,
      'a packed file without its end': async ({ service, organizationId, list }) => {
        const folder = uploadFolder(service.dataFolder, organizationId)
        await mkdir(folder, { recursive: true })
        await writeFile(path.join(folder, 'odd.csv'), gzipSync('email\nann@example.com\n').subarray(0, 20))
        return {
          sent: {
            params: { mailing_list_id: (await list()).id },
            body: creation({ file_source: { type: 'upload_directory', filename: 'odd.csv' } }),
          },
          code: 'validation_failed',
          message: /"odd.csv" is cut off: its gzip data has no end/,
        }
      },
      'a URL with nothing behind it': async ({ service, list }) => ({
        sent: {
          params: { mailing_list_id: (await list()).id },
          body: creation({
            file_source: {
              type: 'url',
              url: `${controlPlaneOrigin(service)}/subscribers.csv`,
            },
          }),
        },
        code: 'validation_failed',
        message: /status 404/,
      }),
    },
  },
}
