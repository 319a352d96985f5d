import { generateKey, hashKey } from '../../shared/store/api-keys.ts'
import { clock } from '../../shared/runtime/clock.ts'
import type { Database } from '../../shared/runtime/database.ts'
import { inTransaction } from '../../shared/runtime/transactions.ts'
import { isDuplicateKey } from '../../shared/runtime/driver-errors.ts'
import { byService, type AuditEventDocument } from '../../shared/contract/schemas/audit-event.ts'
import type { ApiKeyDocument } from '../../shared/contract/schemas/api-key.ts'
import { systemOrganizationId } from '../../shared/contract/schemas/organization.ts'
import { insertApiKey } from './api-keys.ts'
import { insertAuditEvent } from './audit-events.ts'
import { raiseCredentialsRevision } from './revisions.ts'

/** Makes system-admin keys where no key is known that the API would accept. */

/**
 * Gives a database without an organization the system organization and the first system-admin key. Resolves to the key
 * if this call generated it, else to null, because a key from a setting is already known. Of several control planes
 * that start at once, only one does this.
 */
export async function bootstrap(
  database: Database,
  options: { configuredKey: string | undefined; keyHashSecret: Uint8Array },
): Promise<string | null> {
  const { collections } = database
  if ((await collections.organizations.findOne({}, { projection: { _id: 1 } })) !== null) return null
  const key = options.configuredKey ?? generateKey()
  const createdAt = clock.now()
  await collections.counters.updateOne(
    { _id: 'organization' },
    { $max: { next: systemOrganizationId + 1 } },
    { upsert: true },
  )
  const keyId = await database.ids.allocate('api_key')
  const eventId = await database.ids.allocate('audit_event')
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
      const keyHash = hashKey(key, options.keyHashSecret)
      const document = systemAdminKey(keyId, 'First key', keyHash, createdAt)
      await insertApiKey(collections, document, session)
      await insertAuditEvent(collections, keyCreated(document, eventId), session)
    })
  } catch (error) {
    if (isDuplicateKey(error)) return null
    throw error
  }
  return options.configuredKey === undefined ? key : null
}

/**
 * Creates a system-admin key for an installation whose keys are lost, and resolves to it. Access to the database is
 * permission enough, because it allows every other write too.
 */
export async function recoverKey(database: Database, keyHashSecret: Uint8Array): Promise<string> {
  const { collections } = database
  const key = generateKey()
  const id = await database.ids.allocate('api_key')
  const eventId = await database.ids.allocate('audit_event')
  await inTransaction(database, async (session) => {
    await raiseCredentialsRevision(collections, session)
    const keyHash = hashKey(key, keyHashSecret)
    const document = systemAdminKey(id, 'Recovered key', keyHash, clock.now())
    await insertApiKey(collections, document, session)
    await insertAuditEvent(collections, keyCreated(document, eventId), session)
  })
  return key
}

const keyCreated = (key: ApiKeyDocument, eventId: number): AuditEventDocument => ({
  _id: eventId,
  organization_id: key.organization_id,
  occurred_at: key.created_at,
  action: 'created',
  record_type: 'api_key',
  record_id: key._id,
  record_name: key.name,
  ...byService,
  address: null,
  changes: [],
})

const systemAdminKey = (_id: number, name: string, key_hash: Buffer, created_at: Date): ApiKeyDocument => ({
  _id,
  organization_id: systemOrganizationId,
  name,
  role: 'system_admin',
  active: true,
  user_id: null,
  key_hash,
  created_at,
})
