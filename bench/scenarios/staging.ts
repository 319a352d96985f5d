import { rollcallImport } from '../contenders/rollcall-import.ts'
import { writeSubscriberFile } from '../datasets/subscriber-file.ts'
import type { Comparison } from '../scenario.ts'

/** What it costs that uploads and staged files lie in the database, where processes share no folder. */
export const staging: Comparison = {
  name: 'staging',
  summary: 'new rows through the upload directory, uploads and staged files on disk and in the database',
  defaultRows: 200_000,
  async prepare(context) {
    const { dataset, file } = await writeSubscriberFile(context)
    return (['disk', 'gridfs'] as const).map((STAGING) =>
      rollcallImport(context, { name: STAGING, dataset, file, STAGING }),
    )
  },
}
