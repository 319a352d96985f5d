import { z } from 'zod'
import { inTransaction, nextIds } from '../../../shared/database.ts'
import type { OrganizationDocument } from '../../../shared/schemas/organization.ts'
import { ring } from '../../../shared/store/doorbell.ts'
import { enforceLimit } from '../../../shared/store/places.ts'
import { isTimeZone } from '../../../shared/values/time-zone.ts'
import { endpoint } from '../../api/endpoint.ts'
import { nameText, pagingQuery } from '../../api/fields.ts'
import { readPage } from '../../api/paging.ts'
import { missing, pathId, reaches } from '../../api/scope.ts'
import { withoutUndefined } from '../../api/validation.ts'

const tag = 'Organizations'

const view = z
  .object({
    id: z.int(),
    name: z.string(),
    time_zone_name: z
      .string()
      .describe('IANA name; times without an offset are read in this zone, all times are shown in it'),
    subscriber_limit: z
      .int()
      .nullable()
      .describe('most active subscribers over all lists; null is unlimited'),
  })
  .meta({ id: 'Organization' })

const example = { id: 2, name: 'Example Ltd', time_zone_name: 'Europe/Berlin', subscriber_limit: null }

const zoneName = z
  .string()
  .refine(isTimeZone, { error: 'must be the IANA name of a time zone, such as Europe/Berlin' })
const limit = z.int().min(0).nullable()
const query = z.object(pagingQuery({ perPage: 2000, most: 2000 }))
const creation = z.object({
  name: nameText(255),
  time_zone_name: zoneName.default('UTC'),
  subscriber_limit: limit.default(null),
})
const change = z.object({ name: nameText(255), time_zone_name: zoneName, subscriber_limit: limit }).partial()
const faultyFields = [
  'name must not be blank',
  'time_zone_name must be the IANA name of a time zone, such as Europe/Berlin',
]

export const organizationEndpoints = [
  endpoint({
    method: 'get',
    path: '/organizations',
    operationId: 'listOrganizations',
    summary: 'All organizations, by id; others than system admins see their own',
    tag,
    needs: 'any_key',
    scope: 'own_organization_or_all',
    query,
    reply: { data: z.array(view), paging: 'pages', example: [example] },
    async handle({ deps, caller, query: readQuery }) {
      const filter = caller.role === 'system_admin' ? {} : { _id: caller.organizationId }
      const { documents, paging } = await readPage(deps.database.collections.organizations, filter, {
        ...readQuery(),
        sort: { _id: 1 },
      })
      return { data: documents.map(toView), paging }
    },
  }),
  endpoint({
    method: 'get',
    path: '/organizations/:id',
    operationId: 'getOrganization',
    summary: 'One organization',
    tag,
    needs: 'any_key',
    refusals: { not_found: 'there is no organization 4711' },
    reply: { data: view, example },
    async handle({ deps, caller, params }) {
      const id = pathId(params['id'], 'organization')
      const organization = reaches(caller, id)
        ? await deps.database.collections.organizations.findOne({ _id: id })
        : null
      if (organization === null) throw missing('organization', params['id'])
      return { data: toView(organization) }
    },
  }),
  endpoint({
    method: 'post',
    path: '/organizations',
    operationId: 'createOrganization',
    summary: 'Creates an organization',
    tag,
    needs: 'system_admin',
    scope: 'all_organizations',
    body: {
      wrapper: 'organization',
      schema: creation,
      example: { organization: { name: 'Example Ltd', time_zone_name: 'Europe/Berlin' } },
    },
    reply: { data: view, example },
    refusals: { validation_failed: faultyFields },
    async handle({ deps, body }) {
      const { collections } = deps.database
      const given = body()
      const document: OrganizationDocument = {
        _id: await nextIds(collections, 'organization'),
        ...given,
        places_revision: 0,
        created_at: new Date(),
      }
      await collections.organizations.insertOne(document)
      return { data: toView(document) }
    },
  }),
  endpoint({
    method: 'put',
    path: '/organizations/:id',
    operationId: 'updateOrganization',
    summary: 'Changes the fields that are given',
    tag,
    needs: 'system_admin',
    body: {
      wrapper: 'organization',
      schema: change,
      isUpdate: true,
      example: { organization: { subscriber_limit: 100_000 } },
    },
    reply: { data: view, example: { ...example, subscriber_limit: 100_000 } },
    refusals: { not_found: 'there is no organization 4711', validation_failed: faultyFields },
    async handle({ deps, params, body }) {
      const { client, collections } = deps.database
      const id = pathId(params['id'], 'organization')
      if ((await collections.organizations.findOne({ _id: id }, { projection: { _id: 1 } })) === null)
        throw missing('organization', params['id'])
      const given = body()
      const set = withoutUndefined(given)
      const organization = await inTransaction(client, async (session) => {
        if (Object.keys(set).length > 0)
          await collections.organizations.updateOne({ _id: id }, { $set: set }, { session })
        return collections.organizations.findOne({ _id: id }, { session })
      })
      if (set['subscriber_limit'] !== undefined) {
        await enforceLimit(collections, id)
        await ring(collections, 'limit')
      }
      return { data: toView(organization!) }
    },
  }),
]

function toView(organization: OrganizationDocument): z.infer<typeof view> {
  const { _id, name, time_zone_name, subscriber_limit } = organization
  return { id: _id, name, time_zone_name, subscriber_limit }
}
