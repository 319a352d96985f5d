import { z } from 'zod'
import { endpoint, permission } from '../../api/endpoint.ts'
import { mailingListIn, noSuchOrganization } from '../../api/scope.ts'
import { keyDoesNotFit, keyNamesNoField, keyOfFullList, keyWhileImporting, nameTaken } from './refusals.ts'
import {
  exampleMailingList,
  fullMailingListView,
  mailingListChange,
  mailingListCreation,
  mailingListQuery,
  mailingListView,
} from './schemas.ts'
import { changeMailingList, createMailingList, listMailingLists } from './service.ts'
import { toView } from './view.ts'

const tag = 'Mailing lists'

function listing(path: string, operationId: string, summary: string) {
  return endpoint({
    method: 'get',
    path,
    operationId,
    summary,
    tag,
    needs: 'any_key',
    query: mailingListQuery,
    reply: {
      data: z.array(z.union([fullMailingListView, mailingListView])),
      paging: 'pages',
      example: [exampleMailingList],
    },
    handle: (call) => listMailingLists(call, call.organizationId, call.query),
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
    record: mailingListIn('id'),
    handle: async ({ record }) => ({ data: toView(record) }),
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
      examples: { 'a list named Newsletter': { mailing_list: { name: 'Newsletter' } } },
      faulty: [{ name: ' ' }, { primary_key_custom_field_id: 5 }],
    },
    reply: { data: mailingListView, example: exampleMailingList },
    refusals: [nameTaken, noSuchOrganization],
    handle: async ({ deps, caller, body }) => ({
      data: toView(await createMailingList(deps, caller, body)),
    }),
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
      examples: { 'subscribers get a choice of format': { mailing_list: { has_format: true } } },
      faulty: [{ name: ' ' }],
    },
    reply: { data: mailingListView, example: { ...exampleMailingList, has_format: true } },
    record: mailingListIn('id'),
    refusals: [nameTaken, keyNamesNoField, keyDoesNotFit, keyOfFullList, keyWhileImporting],
    handle: async ({ deps, caller, record, body }) => ({
      data: toView(await changeMailingList(deps, caller, record, body)),
    }),
  }),
]
