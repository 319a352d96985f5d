import { generateKey, hashKey } from '../../shared/store/api-keys.ts'
import { clock } from '../../shared/runtime/clock.ts'
import { inTransaction, type Database } from '../../shared/runtime/database.ts'
import { systemOrganizationId } from '../../shared/contract/schemas/organization.ts'

/**
 * Creates a system-admin key for an installation whose keys are lost, and resolves to it. Access to the database is
 * permission enough, because it allows every other write too.
 */
export async function recoverKey(database: Database, keyHashSecret: Uint8Array): Promise<string> {
  const { collections } = database
  const key = generateKey()
  const id = await database.ids.allocate('api_key')
  await inTransaction(database, async (session) => {
    await collections.installation.updateOne(
      { _id: 'installation' },
      { $inc: { credentials_revision: 1 } },
      { session },
    )
    await collections.apiKeys.insertOne(
      {
        _id: id,
        organization_id: systemOrganizationId,
        name: 'Recovered key',
        role: 'system_admin',
        active: true,
        user_id: null,
        key_hash: hashKey(key, keyHashSecret),
        created_at: clock.now(),
      },
      { session },
    )
  })
  return key
}
