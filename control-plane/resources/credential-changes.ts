import type { ClientSession } from 'mongodb'
import type { Caller } from '../../shared/store/api-keys.ts'
import { inTransaction } from '../../shared/runtime/database.ts'
import { RequestError } from '../../shared/contract/errors.ts'
import { systemOrganizationId } from '../../shared/contract/schemas/organization.ts'
import type { ControlPlane } from '../control-plane.ts'

/**
 * Runs a change of keys or users when no other one runs (`credentials_revision`), and takes it back when it would lock
 * everybody out: a usable system-admin key is left after it, and an active system-admin user where there was one.
 * `change` reads what it decides by in the session; it may run several times. The caller's own key is read again in
 * it: one that was revoked, here or by another control plane, can't make itself a successor. Throws `validation_failed`
 * for the one, 401 for the other, and as inTransaction.
 */
export async function changeCredentials<T>(
  deps: ControlPlane,
  caller: Caller,
  change: (session: ClientSession) => Promise<T>,
): Promise<T> {
  const { collections } = deps.database
  const changed = await inTransaction(deps.database, async (session) => {
    await collections.installation.updateOne(
      { _id: 'installation' },
      { $inc: { credentials_revision: 1 } },
      { session },
    )
    await refuseRevoked(deps, caller, session)
    const hadSystemUser = await hasSystemUser(deps, session)
    const result = await change(session)
    if (!(await hasUsableSystemKey(deps, session)))
      throw new RequestError(
        'validation_failed',
        'this would leave no usable system-admin key: create another one first',
      )
    if (hadSystemUser && !(await hasSystemUser(deps, session)))
      throw new RequestError(
        'validation_failed',
        'this would leave no active system-admin user: create another one first',
      )
    return result
  })
  deps.callers.forget()
  return changed
}

/** The key must still be there and active, as must its user, and be as much as it was when it was looked up. */
async function refuseRevoked(
  { database }: ControlPlane,
  { keyId, userId, role }: Caller,
  session: ClientSession,
): Promise<void> {
  const { apiKeys, users } = database.collections
  const key = await apiKeys.findOne({ _id: keyId, user_id: userId, active: true }, { session })
  const user = userId === null ? null : await users.findOne({ _id: userId, active: true }, { session })
  const roleNow = userId === null ? key?.role : user?.role
  if (key !== null && roleNow === role) return
  throw new RequestError('not_authorized', 'the API key was revoked or changed meanwhile', {
    status: 401,
    headers: { 'WWW-Authenticate': 'Basic realm="svc"' },
  })
}

const activeSystemAdmin = { role: 'system_admin', active: true } as const

async function hasSystemUser({ database }: ControlPlane, session: ClientSession): Promise<boolean> {
  const { users } = database.collections
  return (await users.findOne(activeSystemAdmin, { session, projection: { _id: 1 } })) !== null
}

/** A key of nobody by its own role, a user's key by the user's. */
async function hasUsableSystemKey({ database }: ControlPlane, session: ClientSession): Promise<boolean> {
  const { apiKeys, users } = database.collections
  const active = { organization_id: systemOrganizationId, active: true }
  const options = { session, projection: { _id: 1 } }
  if ((await apiKeys.findOne({ ...active, user_id: null, role: 'system_admin' }, options)) !== null)
    return true
  for await (const user of users.find(activeSystemAdmin, options)) {
    if ((await apiKeys.findOne({ ...active, user_id: user._id }, options)) !== null) return true
  }
  return false
}
