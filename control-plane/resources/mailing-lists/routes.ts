import { z } from 'zod'
import { endpoint, permission } from '../../api/endpoint.ts'
import { findMailingList, missingOrganization } from '../../api/scope.ts'
import { tokenPagingQuery } from '../../api/token-paging.ts'
import { refuseProblems } from '../../api/validation.ts'
import { exampleMailingList, mailingListChange, mailingListCreation, mailingListView } from './schemas.ts'
import { changeMailingList, createMailingList, listMailingLists } from './service.ts'
import { toView } from './view.ts'

const tag = 'Mailing lists'

const takenName = 'name "Newsletter" is taken by another mailing list of the organization'

function listing(path: string, operationId: string, summary: string) {
  return endpoint({
    method: 'get',
    path,
    operationId,
    summary,
    tag,
    needs: 'any_key',
    query: tokenPagingQuery({ perPage: 2000, max: 2000 }),
    reply: { data: z.array(mailingListView), paging: 'pages', example: [exampleMailingList] },
    handle: (call) => listMailingLists(call, call.organizationId, call.query()),
  })
}

export const mailingListEndpoints = [
  listing('/mailing_lists', 'listMailingLists', "The organization's mailing lists, by id"),
  listing(
    '/organizations/:organization_id/mailing_lists',
    'listMailingListsOfOrganization',
    'The mailing lists of one organization, by id',
  ),
  endpoint({
    method: 'get',
    path: '/mailing_lists/:id',
    operationId: 'getMailingList',
    summary: 'One mailing list',
    tag,
    needs: 'any_key',
    reply: { data: mailingListView, example: exampleMailingList },
    refusals: { not_found: 'there is no mailing list 4711' },
    async handle({ deps, caller, params }) {
      return { data: toView(await findMailingList(deps, caller, params['id'])) }
    },
  }),
  endpoint({
    method: 'post',
    path: '/mailing_lists',
    operationId: 'createMailingList',
    summary: 'Creates a mailing list',
    tag,
    needs: permission('mailing_list', 'create'),
    scope: 'own_organization_or_given',
    body: {
      wrapper: 'mailing_list',
      schema: mailingListCreation,
      forSystemAdmins: ['organization_id'],
      example: { mailing_list: { name: 'Newsletter' } },
    },
    reply: { data: mailingListView, example: exampleMailingList },
    refusals: {
      validation_failed: [
        'name must not be blank',
        takenName,
        'primary_key_custom_field_id names no custom field of the list, which has none yet: set it when the field is there',
        'organization_id: there is no organization 4711',
      ],
    },
    async examine({ deps, caller }, { organization_id: organizationId = caller.organizationId }) {
      refuseProblems(await missingOrganization(deps, organizationId))
    },
    async handle({ deps, caller, body }) {
      return { data: toView(await createMailingList(deps, caller, body())) }
    },
  }),
  endpoint({
    method: 'put',
    path: '/mailing_lists/:id',
    operationId: 'updateMailingList',
    summary: 'Changes the fields that are given; the primary key only while the list is empty',
    tag,
    needs: permission('mailing_list', 'update'),
    body: {
      wrapper: 'mailing_list',
      schema: mailingListChange,
      isUpdate: true,
      example: { mailing_list: { has_format: true } },
    },
    reply: { data: mailingListView, example: { ...exampleMailingList, has_format: true } },
    refusals: {
      not_found: 'there is no mailing list 4711',
      validation_failed: [
        'name must not be blank',
        takenName,
        'primary_key_custom_field_id names no custom field of list 12',
        'primary_key_custom_field_id must name a required field of type text or number',
        'primary_key_custom_field_id can be changed only while the list is empty',
        "primary_key_custom_field_id can't be changed while import 4711 of the list is unfinished",
      ],
    },
    async handle({ deps, caller, params, body }) {
      const list = await findMailingList(deps, caller, params['id'])
      return { data: toView(await changeMailingList(deps, list, body())) }
    },
  }),
]
