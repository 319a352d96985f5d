import type { ClientSession } from 'mongodb'
import { generateKey, hashKey, type Caller } from '../../../shared/store/api-keys.ts'
import { clock } from '../../../shared/runtime/clock.ts'
import { nextIds } from '../../../shared/runtime/database.ts'
import type { ApiKeyDocument, Role } from '../../../shared/contract/schemas/api-key.ts'
import { systemOrganizationId } from '../../../shared/contract/schemas/organization.ts'
import { requireNotAbove } from '../../api/authorization.ts'
import type { PageCall } from '../../api/json-page.ts'
import { readPage } from '../../api/paging.ts'
import { missing, pathId, reaches } from '../../api/scope.ts'
import type { TokenPageQuery } from '../../api/token-paging.ts'
import { refuseProblems, withoutUndefined } from '../../api/validation.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { changeCredentials } from '../credential-changes.ts'
import type { ApiKeyChange, ApiKeyCreation } from './schemas.ts'

/**
 * API keys. Two rules stand over all others: nobody makes, changes or deletes a key that is more than he is himself,
 * and after any change at least one usable system-admin key is left.
 */

type KeyOwner = 'role' | 'user_id' | 'organization_id'

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
      views: (documents) => toViews(call.deps, documents),
    },
  )

/** Throws 403 for more than the caller may do, `validation_failed` for the user or the role, and as changeCredentials. */
export async function createApiKey(
  deps: ControlPlane,
  caller: Caller,
  organizationId: number,
  given: ApiKeyCreation,
): Promise<{ document: ApiKeyDocument; secret: string }> {
  const { collections } = deps.database
  const secret = generateKey()
  const document: ApiKeyDocument = {
    _id: 0,
    organization_id: organizationId,
    ...given,
    key_hash: hashKey(secret, deps.keyHashSecret),
    created_at: clock.now(),
  }
  document._id = await nextIds(collections, 'api_key')
  await changeCredentials(deps, caller, async (session) => {
    await refuseMoreThanCaller(deps, caller, document, session)
    await checkApiKey(deps, document, null, session)
    await collections.apiKeys.insertOne(document, { session })
  })
  return { document, secret }
}

/** The key as stored then. Throws `not_found` when it has gone meanwhile, and as createApiKey. */
export async function changeApiKey(
  deps: ControlPlane,
  caller: Caller,
  { _id: id, organization_id: organizationId }: ApiKeyDocument,
  given: ApiKeyChange,
): Promise<ApiKeyDocument> {
  const { collections } = deps.database
  const set: Partial<ApiKeyDocument> = withoutUndefined(given)
  return changeCredentials(deps, caller, async (session) => {
    const current = await findApiKey(deps, caller, String(id), organizationId, session)
    await refuseMoreThanCaller(deps, caller, current, session)
    const wanted = { ...current, ...set }
    await refuseMoreThanCaller(deps, caller, wanted, session)
    await checkApiKey(deps, wanted, current.user_id, session)
    if (Object.keys(set).length > 0)
      await collections.apiKeys.updateOne({ _id: current._id }, { $set: set }, { session })
    return wanted
  })
}

/** Throws as findApiKey and changeCredentials, and 403 for more than the caller may do. */
export async function deleteApiKey(
  deps: ControlPlane,
  caller: Caller,
  id: string | undefined,
  organizationId: number | null,
): Promise<void> {
  await changeCredentials(deps, caller, async (session) => {
    const key = await findApiKey(deps, caller, id, organizationId, session)
    await refuseMoreThanCaller(deps, caller, key, session)
    await deps.database.collections.apiKeys.deleteOne({ _id: key._id }, { session })
  })
}

/** Throws `not_found`; `organizationId` null means any that the caller reaches. */
export async function findApiKey(
  { database }: ControlPlane,
  caller: Caller,
  id: string | undefined,
  organizationId: number | null,
  session?: ClientSession,
): Promise<ApiKeyDocument> {
  const key = await database.collections.apiKeys.findOne(
    { _id: pathId(id, 'API key') },
    session === undefined ? {} : { session },
  )
  if (
    key === null ||
    !reaches(caller, key.organization_id) ||
    (organizationId !== null && key.organization_id !== organizationId)
  )
    throw missing('API key', id)
  return key
}

export const toView = async (deps: ControlPlane, key: ApiKeyDocument) => (await toViews(deps, [key]))[0]!

export async function toViews({ database }: ControlPlane, keys: ApiKeyDocument[]) {
  const userIds = [...new Set(keys.map((key) => key.user_id).filter((id) => id !== null))]
  const users =
    userIds.length === 0
      ? []
      : await database.collections.users
          .find({ _id: { $in: userIds } }, { projection: { role: 1 } })
          .toArray()
  const userRoles = new Map<number | null, Role>(users.map((user) => [user._id, user.role]))
  return keys.map(({ _id, organization_id, name, role, active, user_id }) => ({
    id: _id,
    organization_id,
    name,
    role: userRoles.get(user_id) ?? role,
    active,
    user_id,
  }))
}

/**
 * Throws 403: a key is as much as its user, where it belongs to one, and as its own role, which it has again without
 * him.
 */
export async function refuseMoreThanCaller(
  { database }: ControlPlane,
  caller: Caller,
  key: Pick<ApiKeyDocument, KeyOwner>,
  session?: ClientSession,
): Promise<void> {
  requireNotAbove({ role: key.role, permissions: {} }, caller, 'an API key')
  if (key.user_id === null) return
  // Whether a user of another organization exists is nobody's business; he is refused as no user of this one.
  const user = await database.collections.users.findOne(
    { _id: key.user_id, organization_id: key.organization_id },
    session === undefined ? {} : { session },
  )
  if (user !== null) requireNotAbove(user, caller, 'an API key')
}

/**
 * Throws `validation_failed` for a role or a user that the key can't have. The user of a key may be gone by now; what is
 * left of it can still be renamed or switched off.
 */
export async function checkApiKey(
  { database }: ControlPlane,
  { role, user_id: userId, organization_id: organizationId }: Pick<ApiKeyDocument, KeyOwner>,
  storedUserId: number | null,
  session?: ClientSession,
): Promise<void> {
  const problems: string[] = []
  if (role === 'system_admin' && organizationId !== systemOrganizationId)
    problems.push(`role can be system_admin only in organization ${systemOrganizationId}`)
  if (userId !== null && userId !== storedUserId) {
    const user = await database.collections.users.findOne(
      { _id: userId, organization_id: organizationId },
      { ...(session === undefined ? {} : { session }), projection: { _id: 1 } },
    )
    if (user === null) problems.push(`user_id names no user of organization ${organizationId}`)
  }
  refuseProblems(problems)
}
