import { openSource, stagedContent } from '../../shared/storage/staging/packed-content.ts'
import { folderStaging } from './folder-staging.ts'
import type { Staging } from '../../shared/storage/staging/staging.ts'

/** The inline content of an import as it was sent, from the staging of a service with `STAGING=disk`. */
export const readStagedContent = (dataFolder: string, importId: number): Promise<Buffer> =>
  readContent(folderStaging(dataFolder), importId)

export async function readContent(staging: Staging, importId: number): Promise<Buffer> {
  const file = await openSource(staging, stagedContent(importId))
  if (file === null) throw new Error(`nothing is staged for import ${importId}`)
  try {
    const bytes = Buffer.alloc(file.size)
    await file.read(bytes, 0)
    return bytes
  } finally {
    await file.close()
  }
}
