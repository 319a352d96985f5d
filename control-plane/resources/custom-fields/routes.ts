import { z } from 'zod'
import { endpoint, permission } from '../../api/endpoint.ts'
import { findMailingList } from '../../api/scope.ts'
import { tokenPagingQuery } from '../../api/token-paging.ts'
import { customFieldChange, customFieldCreation, customFieldView, exampleCustomField } from './schemas.ts'
import {
  changeCustomField,
  createCustomField,
  deleteCustomField,
  fieldsTooLarge,
  findCustomField,
  listCustomFields,
  changedField,
  newField,
} from './service.ts'
import { toView } from './view.ts'

const tag = 'Custom fields'

const faultySettings = [
  'name must not be blank',
  'name "Email" is that of a built-in column',
  'name can\'t be "__proto__"',
  'name "Plan" is taken by another custom field of the list',
  'options must have at least 1 entry for a field of type select_single_dropdown',
  'options are not possible for a field of type text',
  'options must differ by more than case',
  'minimum_length and maximum_length are not possible for a field of type number',
  'minimum_value and maximum_value are not possible for a field of type text',
  'minimum_length must not be more than maximum_length',
  'minimum_value must not be more than maximum_value',
  'default must be an integer',
]

/** The other settings depend on these keys: with a fault in one of them, the others can't be checked. */
const decisiveKeys: ReadonlySet<string> = new Set(['field_type', 'options'])

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
    async handle(call) {
      const list = await findMailingList(call.deps, call.caller, call.params['mailing_list_id'])
      return listCustomFields(call, list, call.query())
    },
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
      example: {
        custom_field: {
          name: 'Plan',
          field_type: 'select_single_dropdown',
          options: ['Free', 'Team'],
          default: 'Free',
        },
      },
    },
    reply: { data: customFieldView, example: exampleCustomField },
    refusals: {
      validation_failed: [
        ...faultySettings,
        'mailing list 12 has 500 custom fields, and at most 500 are possible',
        fieldsTooLarge(12),
      ],
    },
    async examine({ deps, caller, params }, creation, faultyKeys) {
      const list = await findMailingList(deps, caller, params['mailing_list_id'])
      if (faultyKeys.isDisjointFrom(decisiveKeys)) newField(0, list, creation)
    },
    async handle({ deps, caller, params, body }) {
      const list = await findMailingList(deps, caller, params['mailing_list_id'])
      return { data: toView(await createCustomField(deps, list, body())) }
    },
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
      example: { custom_field: { options: ['Free', 'Team', 'Enterprise'] } },
    },
    reply: {
      data: customFieldView,
      example: { ...exampleCustomField, options: ['Free', 'Team', 'Enterprise'] },
    },
    refusals: {
      not_found: 'there is no custom field 4711',
      validation_failed: [
        ...faultySettings,
        "field_type can't be changed",
        'required must be true for the primary key of the list',
        fieldsTooLarge(12),
      ],
    },
    async examine({ deps, caller, params }, change, faultyKeys) {
      const list = await findMailingList(deps, caller, params['mailing_list_id'])
      const field = await findCustomField(deps, list, params['id'])
      if (faultyKeys.isDisjointFrom(decisiveKeys)) changedField(field, change)
    },
    async handle({ deps, caller, params, body }) {
      const list = await findMailingList(deps, caller, params['mailing_list_id'])
      const field = await findCustomField(deps, list, params['id'])
      return { data: toView(await changeCustomField(deps, list, field, body())) }
    },
  }),
  endpoint({
    method: 'delete',
    path: '/mailing_lists/:mailing_list_id/custom_fields/:id',
    operationId: 'deleteCustomField',
    summary: "Deletes a custom field with its subscribers' values",
    tag,
    needs: permission('custom_field', 'delete'),
    reply: { data: z.null(), example: null },
    refusals: {
      not_found: 'there is no custom field 4711',
      validation_failed: [
        "custom field 31 is the primary key of the list and can't be deleted",
        'custom field 31 is mapped by import 4711, which is unfinished: wait for it, or cancel it',
      ],
    },
    async handle({ deps, caller, params }) {
      const list = await findMailingList(deps, caller, params['mailing_list_id'])
      await deleteCustomField(deps, list, await findCustomField(deps, list, params['id']))
      return { data: null }
    },
  }),
]
