import { randomUUID } from 'node:crypto'
import { clock } from '../../../shared/runtime/clock.ts'
import { inTransaction } from '../../../shared/runtime/transactions.ts'
import type { OrganizationDocument } from '../../../shared/contract/schemas/organization.ts'
import { wakeUp } from '../../../shared/store/wake-up.ts'
import { enforceLimit } from '../../../shared/store/subscriber-quota.ts'
import type { RecordOfPath } from '../../api/endpoint.ts'
import type { PageCall } from '../../api/json-page.ts'
import { readPage } from '../../api/paging.ts'
import { noOrganization, pathId, canAccess } from '../../api/scope.ts'
import type { TokenPageQuery } from '../../api/token-paging.ts'
import type { RequestCaller } from '../../api/request-locals.ts'
import { withoutUndefined } from '../../api/validation.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { insertOrganization, updateOrganization } from '../../store/organizations.ts'
import { changedFields, recordAct, recordChange } from '../audit-events/record.ts'
import type { OrganizationChange, OrganizationCreation } from './schemas.ts'
import { toView } from './view.ts'

/** One page of the organizations that the caller can access, by id. */
export function listOrganizations(call: PageCall, query: TokenPageQuery) {
  const filter = call.caller.role === 'system_admin' ? {} : { _id: call.caller.organizationId }
  return readPage(call, call.deps.database.collections.organizations, filter, {
    query,
    scope: `organizations ${JSON.stringify(filter)}`,
    sort: { _id: 1 },
    views: (documents) => documents.map(toView),
  })
}

/** The organization that the path names, where the caller can access it. */
export const organizationInPath: RecordOfPath<OrganizationDocument> = {
  refusals: [noOrganization],
  async find({ deps, caller, params: { id: text } }) {
    const id = pathId(text, noOrganization)
    const organization = canAccess(caller, id)
      ? await deps.database.collections.organizations.findOne({ _id: id })
      : null
    if (organization === null) throw noOrganization(text)
    return organization
  },
}

/** The organization as stored. */
export async function createOrganization(
  { database }: ControlPlane,
  caller: RequestCaller,
  creation: OrganizationCreation,
): Promise<OrganizationDocument> {
  const { collections } = database
  const document: OrganizationDocument = {
    _id: await database.ids.allocate('organization'),
    ...creation,
    places_revision: 0,
    created_at: clock.now(),
  }
  await inTransaction(database, async (session) => {
    await insertOrganization(collections, document, session)
    await recordAct(database, session, caller, { ...audited(document), action: 'created' })
  })
  return document
}

/**
 * The organization as stored. A new limit is in force for all writes that begin after this has resolved. Throws
 * `not_found` when the organization was deleted meanwhile.
 */
export async function changeOrganization(
  deps: ControlPlane,
  caller: RequestCaller,
  { _id }: OrganizationDocument,
  change: OrganizationChange,
): Promise<OrganizationDocument> {
  const { collections } = deps.database
  const changeId = randomUUID()
  const changesLimit = change.subscriber_limit !== undefined
  const set = { ...withoutUndefined(change), ...(changesLimit ? { limit_change: changeId } : {}) }
  const changed = await inTransaction(deps.database, async (session) => {
    const current = await collections.organizations.findOne({ _id }, { session })
    if (current === null || Object.keys(set).length === 0) return current
    await updateOrganization(collections, _id, set, session)
    const result = { ...current, ...set }
    const changes = changedFields(current, change)
    await recordChange(deps.database, session, caller, { ...audited(result), changes })
    return result
  })
  if (changesLimit) {
    await enforceLimit(deps, { organizationId: _id, change: changeId })
    await wakeUp(collections, { reason: 'imports' })
  }
  if (changed === null) throw noOrganization(_id)
  return changed
}

const audited = (organization: OrganizationDocument) => ({
  recordType: 'organization' as const,
  record: { _id: organization._id, organization_id: organization._id },
  name: organization.name,
})
