import type { ClientSession, Filter } from 'mongodb'
import type { z } from 'zod'
import type { Caller } from '../../../shared/store/api-keys.ts'
import { clock } from '../../../shared/runtime/clock.ts'
import { nextIds } from '../../../shared/runtime/database.ts'
import { RequestError } from '../../../shared/contract/errors.ts'
import { systemOrganizationId } from '../../../shared/contract/schemas/organization.ts'
import type { UserDocument } from '../../../shared/contract/schemas/user.ts'
import { comparisonForm } from '../../../shared/values/identity.ts'
import { requireNotAbove } from '../../api/authorization.ts'
import type { PageCall } from '../../api/json-page.ts'
import { readPage } from '../../api/paging.ts'
import { missing, missingOrganization, pathId, reaches } from '../../api/scope.ts'
import { refuseProblems, mapDuplicateKey, withoutUndefined } from '../../api/validation.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { changeCredentials } from '../credential-changes.ts'
import { hashingFor } from './hashing-slots.ts'
import { hashPassword } from './passwords.ts'
import type { userChange, userCreation, userQuery } from './schemas.ts'
import { toViews } from './view.ts'

/**
 * Users. Changes of them take turns so that the last system admin stays. Emails are unique over the system, by their
 * index. What a caller may ask for at all, the handlers say.
 */

const sortKeys = { full_name: 'full_name_key', email: 'email_key', id: '_id' } as const

/** `organizationId` null means those of all organizations. */
export function listUsers(
  call: PageCall,
  organizationId: number | null,
  { page, per_page, page_token, order_by, ...wanted }: z.infer<typeof userQuery>,
) {
  const conditions: Filter<UserDocument>[] = []
  if (organizationId !== null) conditions.push({ organization_id: organizationId })
  for (const [field, key] of [
    ['full_name', 'full_name_key'],
    ['email', 'email_key'],
  ] as const) {
    const whole = wanted[field]
    const part = wanted[`${field}_contains`]
    if (whole !== undefined) conditions.push({ [key]: comparisonForm(whole.trim()) })
    if (part !== undefined) {
      const place = { $indexOfCP: [`$${key}`, { $literal: comparisonForm(part) }] }
      conditions.push({ $expr: { $gte: [place, 0] } })
    }
  }
  const filter = conditions.length === 0 ? {} : { $and: conditions }
  const key = sortKeys[order_by]
  return readPage(call, call.deps.database.collections.users, filter, {
    query: { page, per_page, page_token },
    scope: `users ${JSON.stringify([organizationId, order_by, wanted])}`,
    sort: key === '_id' ? { _id: 1 } : { [key]: 1, _id: 1 },
    views: (documents) => toViews(call.deps, documents),
  })
}

/** Throws `not_found`, also for one that the caller doesn't reach. */
export async function findUser(
  deps: ControlPlane,
  caller: Caller,
  text: string | undefined,
  session?: ClientSession,
): Promise<UserDocument> {
  const user = await deps.database.collections.users.findOne(
    { _id: pathId(text, 'user') },
    session === undefined ? {} : { session },
  )
  if (user === null || !reaches(caller, user.organization_id)) throw missing('user', text)
  return user
}

type UserCreation = z.infer<typeof userCreation>
type UserChange = z.infer<typeof userChange>

/** Throws `validation_failed` with all that is wrong but the email of another user. */
export async function checkCreation(
  deps: ControlPlane,
  { organizationId: own }: Caller,
  { organization_id: organizationId = own, role, terms_and_conditions_version: terms }: UserCreation,
): Promise<void> {
  refuseProblems([
    ...(await missingOrganization(deps, organizationId)),
    ...misplacedRole(role, organizationId),
    ...termsProblems(deps, terms, null),
  ])
}

/** As checkCreation. */
export function checkChange(deps: ControlPlane, found: UserDocument, given: UserChange): void {
  refuseProblems([
    ...misplacedRole(given.role ?? found.role, found.organization_id),
    ...termsProblems(deps, given.terms_and_conditions_version, found.terms_and_conditions_version),
  ])
}

/**
 * The user as stored. Throws `validation_failed` with all that is wrong, or for an email that is taken; 429 and 503 when
 * the password has no turn to be hashed (FairSemaphore); and what changeCredentials throws.
 */
export async function createUser(
  deps: ControlPlane,
  caller: Caller,
  wanted: UserCreation,
  clientGone: AbortSignal,
): Promise<UserDocument> {
  await checkCreation(deps, caller, wanted)
  const { collections } = deps.database
  const {
    organization_id: organizationId = caller.organizationId,
    password1,
    password2: _same,
    ...given
  } = wanted
  const document: UserDocument = {
    _id: await nextIds(collections, 'user'),
    organization_id: organizationId,
    ...given,
    full_name_key: comparisonForm(given.full_name),
    email_key: comparisonForm(given.email),
    permissions: given.permissions as Record<string, string[]>,
    password_hash: await hashPassword(password1, hashingFor(deps, caller, clientGone)),
    password_failures: 0,
    locked_until: null,
    password_tried_at: null,
    created_at: clock.now(),
  }
  await mapDuplicateKey(taken(given.email), () =>
    changeCredentials(deps, caller, (session) => collections.users.insertOne(document, { session })),
  )
  return document
}

/**
 * The user as stored then: what isn't given stays, of the permissions too. Throws `not_found` and 403 when the user has
 * gone meanwhile, or may do more than the caller by now, and as createUser.
 */
export async function changeUser(
  deps: ControlPlane,
  caller: Caller,
  found: UserDocument,
  wanted: UserChange,
  clientGone: AbortSignal,
): Promise<UserDocument> {
  checkChange(deps, found, wanted)
  const { password1, password2: _same, permissions, ...given } = wanted
  const set: Record<string, unknown> = {
    ...withoutUndefined(given),
    ...(given.full_name === undefined ? {} : { full_name_key: comparisonForm(given.full_name) }),
    ...(given.email === undefined ? {} : { email_key: comparisonForm(given.email) }),
    ...(password1 === undefined
      ? {}
      : { password_hash: await hashPassword(password1, hashingFor(deps, caller, clientGone)) }),
  }
  for (const [key, values] of Object.entries(permissions ?? {})) {
    if (values !== undefined) set[`permissions.${key}`] = values
  }
  return mapDuplicateKey(taken(given.email), () =>
    changeCredentials(deps, caller, async (session) => {
      const current = await findUser(deps, caller, String(found._id), session)
      requireNotAbove(current, caller, 'a user')
      if (Object.keys(set).length === 0) return current
      const changed = await deps.database.collections.users.findOneAndUpdate(
        { _id: current._id },
        { $set: set },
        { session, returnDocument: 'after' },
      )
      return changed!
    }),
  )
}

/** Throws `validation_failed` for the caller himself, `not_found` and 403 as changeUser, and as changeCredentials. */
export async function deleteUser(
  deps: ControlPlane,
  caller: Caller,
  { _id: id }: UserDocument,
): Promise<void> {
  const { users } = deps.database.collections
  await changeCredentials(deps, caller, async (session) => {
    const user = await findUser(deps, caller, String(id), session)
    requireNotAbove(user, caller, 'a user')
    if (user._id === caller.userId)
      throw new RequestError('validation_failed', `nobody deletes himself: user ${user._id} is the caller`)
    await users.deleteOne({ _id: user._id }, { session })
  })
}

const misplacedRole = (role: UserDocument['role'], organizationId: number): string[] =>
  role === 'system_admin' && organizationId !== systemOrganizationId
    ? [`role can be system_admin only in organization ${systemOrganizationId}`]
    : []

/** A version that is stored already may stay, also when the terms have been switched off since. */
function termsProblems(
  { settings }: ControlPlane,
  given: number | null | undefined,
  stored: number | null,
): string[] {
  if (given === undefined || given === null || given === stored) return []
  return settings.TERMS_AND_CONDITIONS_VERSION === undefined
    ? ['terms_and_conditions_version can be only null: this service has no terms and conditions to agree to']
    : []
}

const taken = (email: string | undefined): string => `email is taken: there is a user with ${email} already`
