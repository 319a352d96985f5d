import type { ClientSession } from 'mongodb'
import type { z } from 'zod'
import { callerOf, generateKey, hashKey, type Caller } from '../../../shared/api-keys.ts'
import { inTransaction, nextIds } from '../../../shared/database.ts'
import { RequestError } from '../../../shared/errors.ts'
import { roles, type ApiKeyDocument, type Role } from '../../../shared/schemas/api-key.ts'
import { systemOrganizationId } from '../../../shared/schemas/organization.ts'
import type { Permissions, UserDocument } from '../../../shared/schemas/user.ts'
import type { Call } from '../../api/endpoint.ts'
import { missing, pathId, reaches, scopedOrganization } from '../../api/scope.ts'
import type { ControlPlane } from '../../control-plane.ts'
import type { keyChange, keyCreation } from './routes.ts'

/**
 * API keys. Two rules stand over all others: nobody makes, changes or deletes a key that is more than he is himself,
 * and after any change at least one usable system-admin key is left. The second is kept by letting all changes take
 * turns (`credentials_revision`).
 */

export async function findApiKey(
  deps: ControlPlane,
  caller: Caller,
  params: Call<unknown, unknown>['params'],
): Promise<ApiKeyDocument> {
  const scope =
    params['organization_id'] === undefined
      ? null
      : await scopedOrganization(deps, caller, params['organization_id'])
  const key = await deps.database.collections.apiKeys.findOne({ _id: pathId(params['id'], 'API key') })
  if (
    key === null ||
    !reaches(caller, key.organization_id) ||
    (scope !== null && key.organization_id !== scope)
  )
    throw missing('API key', params['id'])
  return key
}

export async function createApiKey(
  deps: ControlPlane,
  caller: Caller,
  organizationId: number,
  given: z.infer<typeof keyCreation>,
) {
  const { collections } = deps.database
  await refuseMoreThanCaller(deps, caller, given)
  const secret = generateKey()
  const document: ApiKeyDocument = {
    _id: await nextIds(collections, 'api_key'),
    organization_id: organizationId,
    ...given,
    key_hash: hashKey(secret, deps.keyHashSecret),
    created_at: new Date(),
  }
  await takingTurns(deps, async (session) => {
    await refuseBadKey(deps, document, session)
    await collections.apiKeys.insertOne(document, { session })
  })
  return { ...(await toView(deps, document)), key: secret }
}

export async function changeApiKey(
  deps: ControlPlane,
  caller: Caller,
  key: ApiKeyDocument,
  readChange: () => z.infer<typeof keyChange>,
) {
  const { collections } = deps.database
  // Before any other rule about it, the body's shape included.
  await refuseMoreThanCaller(deps, caller, key)
  const given = readChange()
  const changed: ApiKeyDocument = {
    ...key,
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
  }
  await refuseMoreThanCaller(deps, caller, changed)
  await takingTurns(deps, async (session) => {
    await refuseBadKey(deps, changed, session)
    const { name, role, active, user_id } = changed
    const { matchedCount } = await collections.apiKeys.updateOne(
      { _id: key._id },
      { $set: { name, role, active, user_id } },
      { session },
    )
    if (matchedCount === 0) throw missing('API key', key._id)
  })
  return toView(deps, changed)
}

export async function deleteApiKey(deps: ControlPlane, caller: Caller, key: ApiKeyDocument): Promise<void> {
  await refuseMoreThanCaller(deps, caller, key)
  await takingTurns(deps, async (session) => {
    const { deletedCount } = await deps.database.collections.apiKeys.deleteOne({ _id: key._id }, { session })
    if (deletedCount === 0) throw missing('API key', key._id)
  })
}

export async function toView(deps: ControlPlane, key: ApiKeyDocument) {
  const { _id, organization_id, name, role, active, user_id } = key
  const inForce = user_id === null ? null : await callerOf(deps.database.collections, key)
  return { id: _id, organization_id, name, role: inForce?.role ?? role, active, user_id }
}

/** A key is as much as its role, or as its user where it belongs to one. */
async function refuseMoreThanCaller(
  deps: ControlPlane,
  caller: Caller,
  key: { role: Role; user_id: number | null },
): Promise<void> {
  const user =
    key.user_id === null ? null : await deps.database.collections.users.findOne({ _id: key.user_id })
  const inForce = user ?? { role: key.role, permissions: {} }
  if (isMoreThan(inForce, caller) || rankOf(key.role) > rankOf(caller.role)) {
    throw new RequestError(
      'not_authorized',
      'nobody makes, changes or deletes an API key that may do more than his own',
      { status: 403 },
    )
  }
}

export function isMoreThan(subject: { role: Role; permissions: Permissions }, caller: Caller): boolean {
  if (rankOf(subject.role) !== rankOf(caller.role)) return rankOf(subject.role) > rankOf(caller.role)
  if (caller.role !== 'standard') return false
  return Object.entries(subject.permissions).some(([key, values]) =>
    values.some((value) => caller.permissions[key]?.includes(value) !== true),
  )
}

/** `roles` lists them from most to least. */
const rankOf = (role: Role): number => roles.length - roles.indexOf(role)

async function refuseBadKey(deps: ControlPlane, key: ApiKeyDocument, session: ClientSession): Promise<void> {
  if (key.role === 'system_admin' && key.organization_id !== systemOrganizationId) {
    throw new RequestError(
      'validation_failed',
      `role can be system_admin only in organization ${systemOrganizationId}`,
    )
  }
  if (key.user_id === null) return
  const user: UserDocument | null = await deps.database.collections.users.findOne(
    { _id: key.user_id },
    { session },
  )
  if (user?.organization_id !== key.organization_id)
    throw new RequestError(
      'validation_failed',
      `user_id names no user of organization ${key.organization_id}`,
    )
}

/** Runs a change of keys or users when no other one runs, and takes it back when it would lock everybody out. */
export async function takingTurns(
  deps: ControlPlane,
  change: (session: ClientSession) => Promise<void>,
): Promise<void> {
  const { client, collections } = deps.database
  await inTransaction(client, async (session) => {
    await collections.installation.updateOne(
      { _id: 'installation' },
      { $inc: { credentials_revision: 1 } },
      { session },
    )
    await change(session)
    if (!(await hasUsableSystemKey(deps, session))) {
      throw new RequestError(
        'validation_failed',
        'this would leave no usable system-admin key: create another one first',
      )
    }
  })
}

async function hasUsableSystemKey(deps: ControlPlane, session: ClientSession): Promise<boolean> {
  const { apiKeys, users } = deps.database.collections
  const keys = apiKeys.find({ organization_id: systemOrganizationId, active: true }, { session })
  for await (const key of keys) {
    if (
      key.user_id === null
        ? key.role === 'system_admin'
        : (await users.findOne({ _id: key.user_id, active: true, role: 'system_admin' }, { session })) !==
          null
    )
      return true
  }
  return false
}
