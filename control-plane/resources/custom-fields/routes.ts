import { z } from 'zod'
import type { CustomFieldDocument } from '../../../shared/contract/schemas/custom-field.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import { endpoint, permission, type RecordOfPath } from '../../api/endpoint.ts'
import { mailingListIn } from '../../api/scope.ts'
import { tokenPagingQuery } from '../../api/token-paging.ts'
import {
  faultySettings,
  fieldsTooLarge,
  isMapped,
  isPrimaryKey,
  keyMustBeRequired,
  nameTaken,
  noCustomField,
  otherType,
  tooManyFields,
} from './refusals.ts'
import { customFieldChange, customFieldCreation, customFieldView, exampleCustomField } from './schemas.ts'
import {
  changeCustomField,
  createCustomField,
  deleteCustomField,
  findCustomField,
  listCustomFields,
} from './service.ts'
import { toView } from './view.ts'

const tag = 'Custom fields'

const listInPath = mailingListIn('mailing_list_id')

/** The list and the field that the path names. */
const fieldInPath: RecordOfPath<{ list: MailingListDocument; field: CustomFieldDocument }> = {
  refusals: [...listInPath.refusals, noCustomField],
  async find(call) {
    const list = await listInPath.find(call)
    return { list, field: await findCustomField(call.deps, list, call.params['id']) }
  },
}

export const customFieldEndpoints = [
  endpoint({
    method: 'get',
    path: '/mailing_lists/:mailing_list_id/custom_fields',
    operationId: 'listCustomFields',
    summary: "The list's custom fields, by id",
    tag,
    needs: 'any_key',
    query: tokenPagingQuery({ perPage: 2000, max: 2000 }),
    reply: { data: z.array(customFieldView), paging: 'pages', example: [exampleCustomField] },
    record: listInPath,
    handle: (call) => listCustomFields(call, call.record, call.query),
  }),
  endpoint({
    method: 'post',
    path: '/mailing_lists/:mailing_list_id/custom_fields',
    operationId: 'createCustomField',
    summary: 'Creates a custom field',
    tag,
    needs: permission('custom_field', 'create'),
    body: {
      wrapper: 'custom_field',
      schema: customFieldCreation,
      examples: {
        'a field with two options': {
          custom_field: {
            name: 'Plan',
            field_type: 'select_single_dropdown',
            options: ['Free', 'Team'],
            default: 'Free',
          },
        },
      },
      faulty: [{ name: ' ' }],
    },
    reply: { data: customFieldView, example: exampleCustomField },
    record: listInPath,
    refusals: [...Object.values(faultySettings), nameTaken, tooManyFields, fieldsTooLarge],
    handle: async ({ deps, caller, record, body }) => ({
      data: toView(await createCustomField(deps, caller, record, body)),
    }),
  }),
  endpoint({
    method: 'get',
    path: '/mailing_lists/:mailing_list_id/custom_fields/:id',
    operationId: 'getCustomField',
    summary: 'One custom field',
    tag,
    needs: 'any_key',
    reply: { data: customFieldView, example: exampleCustomField },
    record: fieldInPath,
    handle: async ({ record: { field } }) => ({ data: toView(field) }),
  }),
  endpoint({
    method: 'put',
    path: '/mailing_lists/:mailing_list_id/custom_fields/:id',
    operationId: 'updateCustomField',
    summary: "Changes the fields that are given; the type can't change",
    tag,
    needs: permission('custom_field', 'update'),
    body: {
      wrapper: 'custom_field',
      schema: customFieldChange,
      isUpdate: true,
      examples: { 'an option is added': { custom_field: { options: ['Free', 'Team', 'Enterprise'] } } },
      faulty: [{ name: ' ' }],
    },
    reply: {
      data: customFieldView,
      example: { ...exampleCustomField, options: ['Free', 'Team', 'Enterprise'] },
    },
    record: fieldInPath,
    refusals: [...Object.values(faultySettings), nameTaken, otherType, keyMustBeRequired, fieldsTooLarge],
    handle: async ({ deps, caller, record: { list, field }, body }) => ({
      data: toView(await changeCustomField(deps, caller, list, field, body)),
    }),
  }),
  endpoint({
    method: 'delete',
    path: '/mailing_lists/:mailing_list_id/custom_fields/:id',
    operationId: 'deleteCustomField',
    summary: "Deletes a custom field with its subscribers' values",
    tag,
    needs: permission('custom_field', 'delete'),
    reply: { data: z.null(), example: null },
    record: fieldInPath,
    refusals: [isPrimaryKey, isMapped],
    async handle({ deps, caller, record: { list, field } }) {
      await deleteCustomField(deps, caller, list, field)
      return { data: null }
    },
  }),
]
