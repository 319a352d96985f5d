import type { ClientSession } from 'mongodb'
import type { Caller } from '../../shared/store/api-keys.ts'
import { inTransaction } from '../../shared/runtime/transactions.ts'
import { invalid } from '../api/refusal.ts'
import { RequestError } from '../api/request-error.ts'
import { systemOrganizationId } from '../../shared/contract/schemas/organization.ts'
import type { ControlPlane } from '../control-plane.ts'
import { raiseCredentialsRevision } from '../store/revisions.ts'

export const systemAdminElsewhere = invalid(
  `role can be system_admin only in organization ${systemOrganizationId}`,
)
export const noSystemKeyLeft = invalid(
  'this would leave no usable system-admin key: create another one first',
)
export const noSystemUserLeft = invalid(
  'this would leave no active system-admin user: create another one first',
)

/**
 * Runs a change of API keys or users in a transaction that conflicts with other such changes. The change is undone when it
 * would lock out all system admins. It must leave a usable system-admin key, and an active system-admin user where there
 * was one; otherwise this throws `validation_failed`. The caller's key is read again inside, so that a key that was just
 * revoked can't create a successor; that throws 401. `change` reads in the session what it depends on, and may run several
 * times.
 *
 * Without a common write two changes that each delete one of the last two system-admin keys would both commit (write
 * skew). With one for each organization a key of organization 1 that is being revoked could make a key in another one.
 */
export async function changeCredentials<T>(
  deps: ControlPlane,
  caller: Caller,
  change: (session: ClientSession) => Promise<T>,
): Promise<T> {
  const { collections } = deps.database
  const changed = await inTransaction(deps.database, async (session) => {
    await raiseCredentialsRevision(collections, session)
    await refuseRevoked(deps, caller, session)
    const hadSystemUser = await hasSystemUser(deps, session)
    const result = await change(session)
    if (!(await hasUsableSystemKey(deps, session))) throw noSystemKeyLeft()
    if (hadSystemUser && !(await hasSystemUser(deps, session))) throw noSystemUserLeft()
    return result
  })
  deps.callers.clear()
  return changed
}

/** Throws 401 unless key and user are still active, with the role that they had when the request was authenticated. */
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

/** A key without a user has a role of its own; a user's key has the user's role. */
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
