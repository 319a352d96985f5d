import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { uploadFolder } from '../../../shared/storage/uploads/upload-names.ts'
import { controlPlaneOrigin } from '../service.ts'
import type { Rows, Sent } from './row.ts'
import { creation, creationFailures, onRemoteList } from './subscriber-imports.ts'
import type { World } from './world.ts'

/** An inspection of an upload with this content. */
async function inspectionOf(content: Buffer, { service, organizationId, list }: World): Promise<Sent> {
  const folder = uploadFolder(service.dataFolder, organizationId)
  await mkdir(folder, { recursive: true })
  await writeFile(path.join(folder, 'odd.csv'), content)
  return {
    params: { mailing_list_id: (await list()).id },
    body: creation({ file_source: { type: 'upload_directory', filename: 'odd.csv' } }),
  }
}

export const importInspectionRows: Rows = {
  inspectSubscriberImport: {
    good: async ({ list }) => ({
      params: { mailing_list_id: (await list()).id },
      body: creation({ column_mapping: null }),
    }),
    failures: {
      'a Remote List': onRemoteList(creation({})),
      ...creationFailures,
      'a packed file that is cut off': async (world) => ({
        sent: await inspectionOf(gzipSync('email\nann@example.com\n').subarray(0, 20), world),
        code: 'validation_failed',
        message: /"odd.csv" is cut off: its gzip data has no end/,
      }),
      'a file that is no table': async (world) => ({
        sent: await inspectionOf(Buffer.from('%PDF-1.7\n'), world),
        code: 'validation_failed',
        message: /a PDF document/,
      }),
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
