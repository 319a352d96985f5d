import { gzipSync } from 'node:zlib'
import { noTable, unreadableSource } from '../../../control-plane/resources/import-inspection/refusals.ts'
import { controlPlaneOrigin } from '../service.ts'
import { storedUploads } from '../stored-uploads.ts'
import type { Rows, Sent } from './row.ts'
import { creation, refusedCreations } from './subscriber-imports.ts'
import type { World } from './world.ts'

/** An inspection of an upload with this content. */
async function inspectionOf(content: Buffer, { service, organizationId, list }: World): Promise<Sent> {
  await storedUploads(service, organizationId).put('odd.csv', content)
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
    refusals: [
      ...refusedCreations,
      async (world) => ({
        sent: await inspectionOf(gzipSync('email\nann@example.com\n').subarray(0, 20), world),
        refused: unreadableSource.upload_directory(
          '"odd.csv" is cut off: its gzip data has no end; transfer the whole file again',
        ),
      }),
      async (world) => ({
        sent: await inspectionOf(Buffer.from('%PDF-1.7\n'), world),
        refused: noTable(
          'the file is a PDF document, and imports read tables as text: convert it, save it as CSV UTF-8 and import that file',
        ),
      }),
      async ({ service, list }) => {
        const url = `${controlPlaneOrigin(service)}/subscribers.csv`
        return {
          sent: {
            params: { mailing_list_id: (await list()).id },
            body: creation({ file_source: { type: 'url', url } }),
          },
          refused: unreadableSource.url(`${url} answered with status 404, expected 200`),
        }
      },
    ],
  },
}
