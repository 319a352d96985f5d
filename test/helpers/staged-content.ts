import { randomBytes } from 'node:crypto'
import { openSource, stagedContent, withContent } from '../../shared/storage/staging/packed-content.ts'
import { folderStaging } from './folder-staging.ts'
import { present } from './present.ts'
import type { Service } from './service.ts'
import type { Staging } from '../../shared/storage/staging/staging.ts'

/** Content with it is a file: packed, it is too large for the import's document. */
export const unpackableText = randomBytes(100_000).toString('base64')

/** The inline content of an import as it was sent, from its document or the staging of a service with `STAGING=disk`. */
export async function readStagedContent(
  { dataFolder, collections }: Service,
  importId: number,
): Promise<Buffer> {
  const document = present(await collections.imports.findOne({ _id: importId }), 'the import')
  return readContent(withContent(folderStaging(dataFolder), document), importId)
}

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
