import { z } from 'zod'
import { instantView } from '../../api/fields.ts'

/** Files of the upload directory in replies. */

export const uploadView = z
  .object({
    filename: z
      .string()
      .describe(
        'name in the upload directory; FOLDER/NAME of a file in a folder, of which the keys of the folder see NAME',
      ),
    size: z.int().min(0).nullable().describe('bytes; null where there is only an unfinished upload'),
    modified_at: instantView().describe(
      "when the file was complete, or the time that its sender gave it by FTP; of an unfinished upload, when it was last written; in the organization's time zone",
    ),
    unfinished_size: z
      .int()
      .min(0)
      .nullable()
      .describe('bytes of an unfinished upload of this name, which can be resumed; null without one'),
  })
  .meta({ id: 'Upload' })
export type UploadView = z.infer<typeof uploadView>

export const exampleUpload = {
  filename: 'subscribers.csv',
  size: 48_213,
  modified_at: '2026-11-21T09:00:00+01:00',
  unfinished_size: null,
}

export const exampleFile = 'email\nann@example.com\nbob@example.com\n'
