import { notFinalizedIndex, type Collections } from '../contract/schemas/collections.ts'

/** What the database stores about DATA_DIR of the installation. */

/** The id of the folder; null until a process has created one. */
export async function readDataFolderId({ installation }: Collections): Promise<string | null> {
  return (await installation.findOne({ _id: 'installation' }))?.data_folder_id ?? null
}

/** Stores the id of the folder where there is none, and resolves to the stored id. */
export async function adoptDataFolderId(collections: Collections, id: string): Promise<string> {
  await collections.installation.updateOne(
    { _id: 'installation', data_folder_id: { $exists: false } },
    { $set: { data_folder_id: id } },
  )
  const stored = await readDataFolderId(collections)
  if (stored === null) throw new Error('the document of the installation was removed')
  return stored
}

const maxImports = 1_000

/** Up to `maxImports` imports that must have staged files. */
export async function listImportsWithStagedFiles({ imports }: Collections): Promise<number[]> {
  const found = await imports
    .find(
      {
        finalized: false,
        finished_at: null,
        $or: [
          { 'source.type': 'json', content: { $exists: false } },
          { staged: { $exists: true } },
          { partition: { $ne: null } },
        ],
      },
      { projection: { _id: 1 } },
    )
    .hint(notFinalizedIndex)
    .limit(maxImports)
    .toArray()
  return found.map(({ _id }) => _id)
}
