import type { ClientSession } from 'mongodb'
import { generateKey, hashKey } from '../../../shared/store/api-keys.ts'
import { clock } from '../../../shared/runtime/clock.ts'
import type { ApiKeyDocument } from '../../../shared/contract/schemas/api-key.ts'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import { systemOrganizationId } from '../../../shared/contract/schemas/organization.ts'
import { prepareFolder, reserveFolder } from '../../../shared/store/upload-folders.ts'
import { requireNotAbove } from '../../api/authorization.ts'
import type { RequestError } from '../../api/request-error.ts'
import type { PageCall } from '../../api/json-page.ts'
import { readPage } from '../../api/paging.ts'
import { pathId, canAccess } from '../../api/scope.ts'
import type { TokenPageQuery } from '../../api/token-paging.ts'
import type { RequestCaller } from '../../api/request-locals.ts'
import { refuseAll, withoutUndefined } from '../../api/validation.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { deleteApiKeyDocument, insertApiKey, updateApiKey } from '../../store/api-keys.ts'
import { changedFields, recordAct, recordChange } from '../audit-events/record.ts'
import { changeCredentials, systemAdminElsewhere } from '../credential-changes.ts'
import {
  isFile,
  moreThanYours,
  noApiKey,
  noSuchUser,
  noUserWithUploads,
  otherCase,
  uploadsOnly,
} from './refusals.ts'
import type { ApiKeyChange, ApiKeyCreation } from './schemas.ts'
import { toView } from './view.ts'

/**
 * API keys. Two rules precede all others: a caller can't create, change or delete a key with more permissions than its
 * own, and every change leaves at least one usable system-admin key.
 */

/** The fields that decide what a key may do. */
type KeyPowers = Pick<ApiKeyDocument, 'role' | 'user_id' | 'organization_id'>

/** The stored fields that a key keeps although a new key couldn't have them. */
type Stored = Pick<ApiKeyDocument, 'user_id' | 'uploads_folder'>
const noKey: Stored = { user_id: null, uploads_folder: null }

/** One page of the organization's keys, by id. */
export const listApiKeys = (call: PageCall, organizationId: number, query: TokenPageQuery) =>
  readPage(
    call,
    call.deps.database.collections.apiKeys,
    { organization_id: organizationId },
    {
      query,
      scope: `API keys of ${organizationId}`,
      sort: { _id: 1 },
      views: (documents) => Promise.all(documents.map((document) => toView(call.deps, document))),
    },
  )

/** Throws as requireCallerNotBelow, checkApiKey and changeCredentials. */
export async function createApiKey(
  deps: ControlPlane,
  caller: RequestCaller,
  organizationId: number,
  creation: ApiKeyCreation,
): Promise<{ document: ApiKeyDocument; secret: string }> {
  const { collections } = deps.database
  const secret = generateKey()
  const { uploads_folder: folder } = creation
  if (folder !== null) await prepareFolder(collections, organizationId)
  const document: ApiKeyDocument = {
    _id: 0,
    organization_id: organizationId,
    ...creation,
    key_hash: hashKey(secret, deps.keyHashSecret),
    created_at: clock.now(),
  }
  document._id = await deps.database.ids.allocate('api_key')
  await changeCredentials(deps, caller, async (session) => {
    await requireCallerNotBelow(deps, caller, document, session)
    await checkApiKey(deps, document, noKey, session)
    await insertApiKey(collections, document, session)
    await recordAct(deps.database, session, caller, { ...audited(document), action: 'created' })
  })
  return { document, secret }
}

/** The key as stored. Throws `not_found` when it was deleted meanwhile, and as createApiKey. */
export async function changeApiKey(
  deps: ControlPlane,
  caller: RequestCaller,
  { _id: id, organization_id: organizationId }: ApiKeyDocument,
  change: ApiKeyChange,
): Promise<ApiKeyDocument> {
  const { collections } = deps.database
  const { role, uploads_folder: folder = null } = change
  if (folder !== null) await prepareFolder(collections, organizationId)
  const requested: Partial<ApiKeyDocument> = withoutUndefined(change)
  const set: Partial<ApiKeyDocument> = {
    ...(role === undefined || role === 'uploads' ? {} : { uploads_folder: null }),
    ...requested,
  }
  return changeCredentials(deps, caller, async (session) => {
    const current = await findApiKey(deps, caller, String(id), organizationId, session)
    await requireCallerNotBelow(deps, caller, current, session)
    const wanted = { ...current, ...set }
    await requireCallerNotBelow(deps, caller, wanted, session)
    await checkApiKey(deps, wanted, current, session)
    if (Object.keys(set).length > 0) await updateApiKey(collections, current._id, set, session)
    const changes = changedFields({ uploads_folder: null, ...current }, requested)
    await recordChange(deps.database, session, caller, { ...audited(wanted), changes })
    return wanted
  })
}

const audited = (key: ApiKeyDocument) => ({ recordType: 'api_key' as const, record: key, name: key.name })

/** Throws as findApiKey, requireCallerNotBelow and changeCredentials. */
export async function deleteApiKey(
  deps: ControlPlane,
  caller: RequestCaller,
  { _id: id, organization_id: organizationId }: ApiKeyDocument,
): Promise<void> {
  await changeCredentials(deps, caller, async (session) => {
    const key = await findApiKey(deps, caller, String(id), organizationId, session)
    await requireCallerNotBelow(deps, caller, key, session)
    await deleteApiKeyDocument(deps.database.collections, key._id, session)
    await recordAct(deps.database, session, caller, { ...audited(key), action: 'deleted' })
  })
}

/** Throws `not_found`. Null for `organizationId`: a key of any organization that the caller can access. */
export async function findApiKey(
  { database }: ControlPlane,
  caller: RequestCaller,
  id: string | undefined,
  organizationId: number | null,
  session?: ClientSession,
): Promise<ApiKeyDocument> {
  const key = await database.collections.apiKeys.findOne(
    { _id: pathId(id, noApiKey) },
    session === undefined ? {} : { session },
  )
  if (
    key === null ||
    !canAccess(caller, key.organization_id) ||
    (organizationId !== null && key.organization_id !== organizationId)
  )
    throw noApiKey(id)
  return key
}

/**
 * Throws 403 when the key may do more than the caller. Both its user's role and its own role count, because it gets its
 * own role back when the user is deleted.
 */
export async function requireCallerNotBelow(
  { database }: ControlPlane,
  caller: RequestCaller,
  key: KeyPowers,
  session?: ClientSession,
): Promise<void> {
  requireNotAbove({ role: key.role, permissions: {} }, caller, moreThanYours)
  if (key.user_id === null) return
  // Only users of the key's organization: another result would reveal whether a user of another organization exists.
  const user = await database.collections.users.findOne(
    { _id: key.user_id, organization_id: key.organization_id },
    session === undefined ? {} : { session },
  )
  if (user !== null) requireNotAbove(user, caller, moreThanYours)
}

/**
 * Throws `validation_failed` for a role, a user or a folder that the key can't have. The stored user isn't checked: a key
 * whose user was deleted can still be renamed or deactivated.
 */
async function checkApiKey(
  { database }: ControlPlane,
  key: ApiKeyDocument,
  stored: Stored,
  session: ClientSession,
): Promise<void> {
  const { role, user_id: userId, organization_id: organizationId, uploads_folder: folder = null } = key
  const problems: RequestError[] = []
  if (role === 'system_admin' && organizationId !== systemOrganizationId)
    problems.push(systemAdminElsewhere())
  if (userId !== null && userId !== stored.user_id) {
    const user = await database.collections.users.findOne(
      { _id: userId, organization_id: organizationId },
      { session, projection: { _id: 1 } },
    )
    if (user === null) problems.push(noSuchUser(organizationId))
  }
  if (role === 'uploads' && userId !== null) problems.push(noUserWithUploads())
  if (role !== 'uploads' && folder !== null) problems.push(uploadsOnly())
  else if (folder !== null && folder !== stored.uploads_folder)
    problems.push(...(await folderProblems(database.collections, key, folder, session)))
  refuseAll(problems)
}

async function folderProblems(
  collections: Collections,
  { _id, organization_id: organizationId }: ApiKeyDocument,
  folder: string,
  session: ClientSession,
): Promise<RequestError[]> {
  const others = await collections.apiKeys
    .find(
      { organization_id: organizationId, _id: { $ne: _id }, uploads_folder: folder },
      { session, collation: withoutCase, projection: { uploads_folder: 1 } },
    )
    .toArray()
  const inOtherCase = others.flatMap(({ uploads_folder: other }) =>
    typeof other === 'string' && other !== folder ? [other] : [],
  )
  const isFree = await reserveFolder(collections, session, organizationId, folder)
  return [
    ...inOtherCase.slice(0, 1).map((other) => otherCase(folder, other)),
    ...(isFree ? [] : [isFile(folder)]),
  ]
}

const withoutCase = { locale: 'en', strength: 2 }
