import { randomBytes } from 'node:crypto'
import { bootstrapKey, createList, type Json, type Service } from '../service.ts'

/** The folder of each organization's `partnerKey`. */
export const partnerFolder = 'partner'

/** An organization with its keys, and a foreign one, for the conformance rows. Records are made on demand. */
export interface World {
  service: Service
  organizationId: number
  /** Keys: of a system admin, of the organization's admin, of a standard key without a permission. */
  system: string
  admin: string
  keyWithoutPermissions: string
  /** Keys of the role uploads: of the whole directory, and of `partnerFolder` alone. */
  uploadsKey: string
  partnerKey: string
  /** The foreign organization, with its own records, in which rows can be made too. */
  foreign: World
  /** A key of an organization admin of organization 1, where system admins are. */
  adminBesideSystem: () => Promise<string>
  /** A key of a user of the organization who has only this permission. */
  holderOf: (key: string, value: string) => Promise<string>
  /** Posts as the organization's admin and resolves to `data`. */
  post: (path: string, body?: unknown) => Promise<Json>
  list: (options?: { fields?: unknown[]; list?: Record<string, unknown> }) => Promise<Json>
  /** An import of the list that begins in some years. */
  scheduledImport: (listId: number, columns: string[]) => Promise<Json>
  /** A name that no other record has. */
  unique: (kind: string) => string
}

export async function makeWorld(service: Service): Promise<World> {
  // The system admin's own organization has the folder too.
  await service.post('/api_keys', {
    api_key: { name: partnerFolder, role: 'uploads', uploads_folder: partnerFolder },
  })
  const [one, other] = [await worldOf(service), await worldOf(service)] as [World, World]
  one.foreign = other
  other.foreign = one
  return one
}

async function worldOf(service: Service): Promise<Omit<World, 'foreign'>> {
  const { id: organizationId } = await organization(service)
  const keyIn = async (id: number, role: string, uploads_folder?: string): Promise<string> =>
    (await service.post(`/organizations/${id}/api_keys`, { api_key: { name: role, role, uploads_folder } }))
      .key
  const admin = await keyIn(organizationId, 'organization_admin')
  const holders = new Map<string, Promise<string>>()
  const post: World['post'] = async (path, body) => {
    const answer = await service.call('POST', path, body, { key: admin })
    if (answer.body?.success !== true) throw new Error(`POST ${path}: ${answer.status} ${answer.text}`)
    return answer.body.data
  }
  return {
    service,
    organizationId,
    system: bootstrapKey,
    admin,
    keyWithoutPermissions: await keyIn(organizationId, 'standard'),
    uploadsKey: await keyIn(organizationId, 'uploads'),
    partnerKey: await keyIn(organizationId, 'uploads', partnerFolder),
    adminBesideSystem: () => keyIn(1, 'organization_admin'),
    holderOf: (key, value) => {
      const name = `${key}/${value}`
      const holder = holders.get(name) ?? makeHolder(service, organizationId, { [key]: [value] })
      holders.set(name, holder)
      return holder
    },
    post,
    list: ({ fields, list } = {}) => createList({ ...service, post }, fields, list),
    scheduledImport: (listId, columns) =>
      post(`/mailing_lists/${listId}/subscriber_imports`, {
        subscriber_import: {
          begins_at: '2030-01-31T08:00:00Z',
          column_mapping: columns,
          file_source: { type: 'json', content: 'ann@example.com' },
        },
      }),
    unique: (kind) => `${kind} ${randomBytes(5).toString('hex')}`,
  }
}

const organization = (service: Service): Promise<Json> =>
  service.post('/organizations', { organization: { name: `Organization ${randomBytes(4).toString('hex')}` } })

/** Inserts the user directly, so that this needs none of the endpoints that it helps to test. */
async function makeHolder(
  service: Service,
  organizationId: number,
  permissions: Record<string, string[]>,
): Promise<string> {
  const id = 1_000_000 + randomBytes(4).readUInt32BE()
  const user = {
    _id: id,
    organization_id: organizationId,
    full_name: 'Holder',
    full_name_key: 'holder',
    email: `holder-${id}@example.com`,
    email_key: `holder-${id}@example.com`,
    active: true,
    role: 'standard' as const,
    permissions,
    show_quick_tips: true,
    default_preview_recipients: [],
    terms_and_conditions_version: null,
    password_hash: 'none',
    password_failures: 0,
    locked_until: null,
    password_tried_at: null,
    created_at: new Date(),
  }
  await service.collections.users.insertOne(user)
  const created = await service.post(`/organizations/${organizationId}/api_keys`, {
    api_key: { name: 'holder', role: 'standard', user_id: id },
  })
  return created.key
}
