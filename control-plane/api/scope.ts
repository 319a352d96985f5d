import type { Caller } from '../../shared/store/api-keys.ts'
import { RequestError } from './request-error.ts'
import type { MailingListDocument } from '../../shared/contract/schemas/mailing-list.ts'
import type { ControlPlane } from '../control-plane.ts'

/**
 * Which records a caller can access. A record of another organization is `not_found`, so that its existence isn't
 * revealed. A system admin can access every record by its id.
 */

export const basePath = '/svc/api/v2'

/** Parses an id in a path. Throws `not_found` for a text that can't be an id, because it names no record. */
export function pathId(text: string | undefined, what: string): number {
  if (text === undefined || !/^[1-9]\d{0,15}$/.test(text) || !Number.isSafeInteger(Number(text)))
    throw missing(what, text)
  return Number(text)
}

export const missing = (what: string, id: unknown): RequestError =>
  new RequestError('not_found', `there is no ${what} ${String(id)}`)

export function canAccess(caller: Caller, organizationId: number): boolean {
  return caller.role === 'system_admin' || caller.organizationId === organizationId
}

/**
 * Resolves to the organization in a path such as /organizations/:organization_id/..., or without one to the caller's
 * own. Throws `not_found`.
 */
export async function scopedOrganization(
  deps: ControlPlane,
  caller: Caller,
  text: string | undefined,
): Promise<number> {
  if (text === undefined) return caller.organizationId
  const id = pathId(text, 'organization')
  if (id === caller.organizationId) return id
  if (!canAccess(caller, id) || !(await organizationExists(deps, id))) throw missing('organization', text)
  return id
}

/** Finds the mailing list that a path names. Throws `not_found`, also when the caller can't access it. */
export async function findMailingList(
  deps: ControlPlane,
  caller: Caller,
  text: string | undefined,
): Promise<MailingListDocument> {
  const id = pathId(text, 'mailing list')
  const list = await deps.database.collections.mailingLists.findOne({ _id: id })
  if (list === null || !canAccess(caller, list.organization_id)) throw missing('mailing list', text)
  return list
}

/** Throws `invalid_request`: imports, autoresponders and subscribers live only on lists of this service. */
export function refuseRemoteList(list: MailingListDocument): void {
  if (list.is_remote_list) throw new RequestError('invalid_request', remoteList(list._id))
}

const remoteList = (id: number): string =>
  `mailing list ${id} is a Remote List, which has no subscribers here`

/** The message of `refuseRemoteList`, for the API description. */
export const remoteListRefusal = remoteList(12)

/** Checks that an organization in a body exists. One in a path is `not_found` instead. */
export async function missingOrganization(deps: ControlPlane, id: number): Promise<string[]> {
  return (await organizationExists(deps, id)) ? [] : [`organization_id: there is no organization ${id}`]
}

const organizationExists = async ({ database }: ControlPlane, id: number): Promise<boolean> =>
  (await database.collections.organizations.findOne({ _id: id }, { projection: { _id: 1 } })) !== null
