import { notFinalizedIndex, type Collections } from '../contract/schemas/collections.ts'

/** What the database knows of the installation's DATA_DIR. */

/** The id of the folder; null until a process has made one. */
export async function readDataFolderId({ installation }: Collections): Promise<string | null> {
  return (await installation.findOne({ _id: 'installation' }))?.data_folder_id ?? null
}

/** Gives the installation its folder's id where it has none, and resolves to the one that it has. */
export async function adoptDataFolderId(collections: Collections, id: string): Promise<string> {
  await collections.installation.updateOne(
    { _id: 'installation', data_folder_id: { $exists: false } },
    { $set: { data_folder_id: id } },
  )
  return (await readDataFolderId(collections))!
}

const maxImports = 1_000

/** Imports of which files must lie in the staging, some of them where there are many. */
export async function listImportsWithStagedFiles({ imports }: Collections): Promise<number[]> {
  const found = await imports
    .find(
      {
        settled: false,
        finished_at: null,
        $or: [{ 'source.type': 'json' }, { staged: { $exists: true } }, { partition: { $ne: null } }],
      },
      { projection: { _id: 1 } },
    )
    .hint(notFinalizedIndex)
    .limit(maxImports)
    .toArray()
  return found.map(({ _id }) => _id)
}
