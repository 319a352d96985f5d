import { createReadStream } from 'node:fs'
import type { Database } from '../../shared/runtime/database.ts'
import type { StagingLocation } from '../../shared/storage/staging/open-staging.ts'
import { openUploads } from '../../shared/storage/uploads/open-uploads.ts'
import { newUploadToken } from '../../shared/storage/uploads/upload-names.ts'

/** Puts a file into the first organization's upload directory, as the FTP server does. */
export async function placeUpload(
  file: string,
  location: StagingLocation,
  database: Pick<Database, 'sessions' | 'collections'>,
  name = 'rows.csv',
): Promise<void> {
  const directory = openUploads(location, database).directory(1)
  await directory.prepare()
  const options = { name, token: newUploadToken(), wasLeft: false, keep: 0 }
  const upload = await directory.takeUp(options)
  for await (const piece of createReadStream(file)) await upload.write(piece as Buffer)
  await upload.prepare()
  await upload.publish()
  await upload.close()
}
