import type { ClientSession, Filter } from 'mongodb'
import type { z } from 'zod'
import { clock } from '../../../shared/runtime/clock.ts'
import type { RequestError } from '../../api/request-error.ts'
import { systemOrganizationId } from '../../../shared/contract/schemas/organization.ts'
import type { UserDocument } from '../../../shared/contract/schemas/user.ts'
import { visibleEmail } from '../../../shared/values/email.ts'
import { comparisonForm } from '../../../shared/values/identity.ts'
import { requireNotAbove } from '../../api/authorization.ts'
import type { RecordOfPath } from '../../api/endpoint.ts'
import type { PageCall } from '../../api/json-page.ts'
import { readPage } from '../../api/paging.ts'
import { missingOrganization, pathId, canAccess } from '../../api/scope.ts'
import type { RequestCaller } from '../../api/request-locals.ts'
import { refuseAll, mapDuplicateKey, withoutUndefined } from '../../api/validation.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { clearLockout, deleteUserDocument, insertUser, updateUser } from '../../store/users.ts'
import { changedFields, recordAct, recordChange } from '../audit-events/record.ts'
import { changeCredentials, systemAdminElsewhere } from '../credential-changes.ts'
import { hashingSlot, hashPassword, isPassword } from './passwords.ts'
import { emailTaken, moreThanYours, noTerms, noUser, ownUser } from './refusals.ts'
import { byPermissionKey, type userChange, type userCreation, type userQuery } from './schemas.ts'
import { toViews } from './view.ts'

/**
 * Users. Their changes are serialized by changeCredentials, so that the last system admin stays. Emails are unique over
 * the installation, by an index. The routes check what a caller may ask for.
 */

const sortKeys = { full_name: 'full_name_key', email: 'email_key', id: '_id' } as const

/** One page of users. Null for `organizationId`: the users of all organizations. */
export function listUsers(
  call: PageCall,
  organizationId: number | null,
  { page, per_page, page_token, order_by, ...filters }: z.infer<typeof userQuery>,
) {
  const conditions: Filter<UserDocument>[] = []
  if (organizationId !== null) conditions.push({ organization_id: organizationId })
  for (const [field, key] of [
    ['full_name', 'full_name_key'],
    ['email', 'email_key'],
  ] as const) {
    const whole = filters[field]
    const part = filters[`${field}_contains`]
    if (whole !== undefined)
      conditions.push({
        [key]: comparisonForm(field === 'email' ? visibleEmail(whole.trim()) : whole.trim()),
      })
    if (part !== undefined) {
      const position = { $indexOfCP: [`$${key}`, { $literal: comparisonForm(part) }] }
      conditions.push({ $expr: { $gte: [position, 0] } })
    }
  }
  const filter = conditions.length === 0 ? {} : { $and: conditions }
  const key = sortKeys[order_by]
  return readPage(call, call.deps.database.collections.users, filter, {
    query: { page, per_page, page_token },
    scope: `users ${JSON.stringify([organizationId, order_by, filters])}`,
    sort: key === '_id' ? { _id: 1 } : { [key]: 1, _id: 1 },
    views: (documents) => toViews(call.deps, documents),
  })
}

/** Throws `not_found`, also when the caller can't access the user. */
async function findUser(
  deps: ControlPlane,
  caller: RequestCaller,
  text: string | undefined,
  session?: ClientSession,
): Promise<UserDocument> {
  const user = await deps.database.collections.users.findOne(
    { _id: pathId(text, noUser) },
    session === undefined ? {} : { session },
  )
  if (user === null || !canAccess(caller, user.organization_id)) throw noUser(text)
  return user
}

/** The user that the path names. */
export const userInPath: RecordOfPath<UserDocument> = {
  refusals: [noUser],
  find: ({ deps, caller, params }) => findUser(deps, caller, params['id']),
}

type UserCreation = z.infer<typeof userCreation>
type UserChange = z.infer<typeof userChange>

/**
 * The user as stored. Throws `validation_failed` with all problems, or when the email is taken. Throws as
 * changeCredentials too, and 429 or 503 when the password can't be hashed now.
 */
export async function createUser(
  deps: ControlPlane,
  caller: RequestCaller,
  wanted: UserCreation,
  clientGone: AbortSignal,
): Promise<UserDocument> {
  const { collections } = deps.database
  const {
    organization_id: organizationId = caller.organizationId,
    password1,
    password2: _repeated,
    ...fields
  } = wanted
  refuseAll([
    ...(await missingOrganization(deps, organizationId)),
    ...roleProblems(fields.role, organizationId),
    ...termsProblems(deps, fields.terms_and_conditions_version, null),
  ])
  const document: UserDocument = {
    _id: await deps.database.ids.allocate('user'),
    organization_id: organizationId,
    ...fields,
    full_name_key: comparisonForm(fields.full_name),
    email_key: comparisonForm(fields.email),
    permissions: withoutUndefined(fields.permissions),
    password_hash: await hashPassword(password1, hashingSlot(deps, caller, clientGone)),
    password_failures: 0,
    locked_until: null,
    password_tried_at: null,
    created_at: clock.now(),
  }
  await mapDuplicateKey(emailTaken(fields.email), () =>
    changeCredentials(deps, caller, async (session) => {
      await insertUser(collections, document, session)
      await recordAct(deps.database, session, caller, { ...audited(document), action: 'created' })
    }),
  )
  return document
}

/**
 * The user as stored. Fields that aren't given stay, and so do permission keys. Throws as createUser; `not_found` when
 * the user was deleted meanwhile, and 403 when the user may now do more than the caller.
 */
export async function changeUser(
  deps: ControlPlane,
  caller: RequestCaller,
  found: UserDocument,
  wanted: UserChange,
  clientGone: AbortSignal,
): Promise<UserDocument> {
  refuseAll([
    ...roleProblems(wanted.role ?? found.role, found.organization_id),
    ...termsProblems(deps, wanted.terms_and_conditions_version, found.terms_and_conditions_version),
  ])
  const { password1, password2: _repeated, permissions, ...fields } = wanted
  const slot = hashingSlot(deps, caller, clientGone)
  const hasNewPassword = password1 !== undefined && !(await isPassword(password1, found.password_hash, slot))
  const set: Record<string, unknown> = {
    ...withoutUndefined(fields),
    ...(fields.full_name === undefined ? {} : { full_name_key: comparisonForm(fields.full_name) }),
    ...(fields.email === undefined ? {} : { email_key: comparisonForm(fields.email) }),
    ...(hasNewPassword ? { password_hash: await hashPassword(password1, slot) } : {}),
  }
  for (const [key, values] of Object.entries(permissions ?? {})) {
    if (values !== undefined) set[`permissions.${key}`] = values
  }
  return mapDuplicateKey(emailTaken(fields.email ?? found.email), () =>
    changeCredentials(deps, caller, async (session) => {
      const current = await findUser(deps, caller, String(found._id), session)
      requireNotAbove(current, caller, moreThanYours)
      if (Object.keys(set).length === 0) return current
      const changed = await updateUser(deps.database.collections, current._id, set, session)
      if (changed === null) throw noUser(current._id)
      const permissionsBefore = { ...byPermissionKey(() => []), ...current.permissions }
      const changes = [
        ...changedFields(current, fields),
        ...(changedFields(permissionsBefore, permissions ?? {}).length > 0 ? ['permissions'] : []),
        ...(hasNewPassword ? ['password'] : []),
      ]
      await recordChange(deps.database, session, caller, { ...audited(changed), changes })
      return changed
    }),
  )
}

/** Throws `validation_failed` for the caller's own user, and `not_found` and 403 as changeUser. */
export async function deleteUser(
  deps: ControlPlane,
  caller: RequestCaller,
  { _id: id }: UserDocument,
): Promise<void> {
  await changeCredentials(deps, caller, async (session) => {
    const user = await findUser(deps, caller, String(id), session)
    requireNotAbove(user, caller, moreThanYours)
    if (user._id === caller.userId) throw ownUser(user._id)
    await deleteUserDocument(deps.database.collections, user._id, session)
    await recordAct(deps.database, session, caller, { ...audited(user), action: 'deleted' })
  })
}

/** Resolves to whether the user was locked out. Throws `not_found` and 403 as changeUser. */
export function endLockout(
  deps: ControlPlane,
  caller: RequestCaller,
  { _id: id }: UserDocument,
): Promise<boolean> {
  return changeCredentials(deps, caller, async (session) => {
    const locked = await findUser(deps, caller, String(id), session)
    requireNotAbove(locked, caller, moreThanYours)
    const wasLocked = await clearLockout(deps.database.collections, locked._id, session)
    if (wasLocked) await recordAct(deps.database, session, caller, { ...audited(locked), action: 'updated' })
    return wasLocked
  })
}

const audited = (user: UserDocument) => ({
  recordType: 'user' as const,
  record: user,
  name: user.full_name,
})

const roleProblems = (role: UserDocument['role'], organizationId: number): RequestError[] =>
  role === 'system_admin' && organizationId !== systemOrganizationId ? [systemAdminElsewhere()] : []

/** A stored version may stay when the terms have been removed from the settings. */
function termsProblems(
  { settings }: ControlPlane,
  version: number | null | undefined,
  stored: number | null,
): RequestError[] {
  if (version === undefined || version === null || version === stored) return []
  return settings.TERMS_AND_CONDITIONS_VERSION === undefined ? [noTerms()] : []
}
