import { generateKey, hashKey } from '../../shared/store/api-keys.ts'
import { clock } from '../../shared/runtime/clock.ts'
import { inTransaction, type Database } from '../../shared/runtime/database.ts'
import { isDuplicateKey } from '../../shared/runtime/driver-errors.ts'
import { systemOrganizationId } from '../../shared/contract/schemas/organization.ts'

/**
 * Gives a database without an organization the system organization and the first system-admin key. Resolves to the key
 * if this call generated it, else to null, because a key from a setting is already known. Of several control planes
 * that start at once, only one does this.
 */
export async function bootstrap(
  database: Database,
  options: { givenKey: string | undefined; keyHashSecret: Uint8Array },
): Promise<string | null> {
  const { collections } = database
  if ((await collections.organizations.findOne({}, { projection: { _id: 1 } })) !== null) return null
  const key = options.givenKey ?? generateKey()
  const createdAt = clock.now()
  await collections.counters.updateOne(
    { _id: 'organization' },
    { $max: { next: systemOrganizationId + 1 } },
    { upsert: true },
  )
  const keyId = await database.ids.allocate('api_key')
  try {
    await inTransaction(database, async (session) => {
      const organization = {
        _id: systemOrganizationId,
        name: 'System',
        time_zone_name: 'UTC',
        subscriber_limit: null,
        places_revision: 0,
        created_at: createdAt,
      }
      await collections.organizations.insertOne(organization, { session })
      const document = {
        organization_id: systemOrganizationId,
        name: 'First key',
        role: 'system_admin' as const,
        active: true,
        user_id: null,
      }
      await collections.apiKeys.insertOne(
        { _id: keyId, ...document, key_hash: hashKey(key, options.keyHashSecret), created_at: createdAt },
        { session },
      )
    })
  } catch (error) {
    if (isDuplicateKey(error)) return null
    throw error
  }
  return options.givenKey === undefined ? key : null
}
