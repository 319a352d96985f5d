import { ImportError } from '../../shared/errors.ts'
import { stagedSource } from '../../shared/staging/staging.ts'
import { openUpload } from '../../shared/uploads.ts'
import { gunzipUpload, isGzipName } from './gzip.ts'
import type { Source } from './source.ts'

/** Copies a file out of the organization's upload directory: what is done to it later changes nothing. */
export const uploadDirectorySource: Source = async (document, { staging, dataFolder, signal }) => {
  const { filename } = document.source
  const handle = await openUpload(dataFolder, document.organization_id, filename)
  if (handle === null)
    throw new ImportError(
      'source_missing',
      `there is no file ${JSON.stringify(filename)} in the upload directory: upload it and create the import again`,
    )
  try {
    const stream = handle.createReadStream({ autoClose: false, highWaterMark: 1024 * 1024, signal })
    await staging.write(
      stagedSource(document._id),
      isGzipName(filename)
        ? gunzipUpload(stream as AsyncIterable<Buffer>, JSON.stringify(filename))
        : (stream as AsyncIterable<Buffer>),
    )
  } finally {
    await handle.close()
  }
}
