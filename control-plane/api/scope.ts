import type { Caller } from '../../shared/store/api-keys.ts'
import { invalid, notFound, refusal, type Refusal } from './refusal.ts'
import type { RequestError } from './request-error.ts'
import type { MailingListDocument } from '../../shared/contract/schemas/mailing-list.ts'
import type { ControlPlane } from '../control-plane.ts'
import type { RecordOfPath } from './endpoint.ts'

/**
 * Which records a caller can access. A record of another organization is `not_found`, so that its existence isn't
 * revealed. A system admin can access every record by its id.
 */

export const basePath = '/svc/api/v2'

/** Parses an id in a path. Throws `noRecord` for a text that can't be an id, because it names no record. */
export function pathId(text: string | undefined, noRecord: Refusal<[id: unknown]>): number {
  if (text === undefined || !/^[1-9]\d{0,15}$/.test(text) || !Number.isSafeInteger(Number(text)))
    throw noRecord(text)
  return Number(text)
}

export const noOrganization = notFound('organization')
export const noMailingList = notFound('mailing list')

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
  const id = pathId(text, noOrganization)
  if (id === caller.organizationId) return id
  if (!canAccess(caller, id) || !(await organizationExists(deps, id))) throw noOrganization(text)
  return id
}

/** Finds the mailing list that a path names. Throws `not_found`, also when the caller can't access it. */
async function findMailingList(
  deps: ControlPlane,
  caller: Caller,
  text: string | undefined,
): Promise<MailingListDocument> {
  const id = pathId(text, noMailingList)
  const list = await deps.reads.list(id)
  if (list === null || !canAccess(caller, list.organization_id)) throw noMailingList(text)
  return list
}

/** The mailing list that a path names in a parameter. */
export const mailingListIn = (parameter: 'id' | 'mailing_list_id'): RecordOfPath<MailingListDocument> => ({
  refusals: [noMailingList],
  find: ({ deps, caller, params }) => findMailingList(deps, caller, params[parameter]),
})

/** Imports, autoresponders and subscribers live only on lists of this service. */
export const isRemoteList = refusal(
  'invalid_request',
  (id: number) => `mailing list ${id} is a Remote List, which has no subscribers here`,
  12,
)

export function refuseRemoteList(list: MailingListDocument): void {
  if (list.is_remote_list) throw isRemoteList(list._id)
}

/** The mailing list that a path names, which must not be a Remote List. */
export const localListInPath: RecordOfPath<MailingListDocument> = {
  refusals: [noMailingList, isRemoteList],
  async find({ deps, caller, params }) {
    const list = await findMailingList(deps, caller, params['mailing_list_id'])
    refuseRemoteList(list)
    return list
  },
}

/** An organization that a body names isn't there. One in a path is `not_found` instead. */
export const noSuchOrganization = invalid(
  (id: number) => `organization_id: there is no organization ${id}`,
  4711,
)

/** The refusal of an organization that a body names and that isn't there; none when it is. */
export async function missingOrganization(deps: ControlPlane, id: number): Promise<RequestError[]> {
  return (await organizationExists(deps, id)) ? [] : [noSuchOrganization(id)]
}

const organizationExists = async ({ database }: ControlPlane, id: number): Promise<boolean> =>
  (await database.collections.organizations.findOne({ _id: id }, { projection: { _id: 1 } })) !== null
