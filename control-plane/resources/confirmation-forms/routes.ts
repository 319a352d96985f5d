import { z } from 'zod'
import { endpoint, permission } from '../../api/endpoint.ts'
import { localListInPath, mailingListIn } from '../../api/scope.ts'
import { tokenPagingQuery } from '../../api/token-paging.ts'
import {
  confirmationFormChange,
  confirmationFormCreation,
  confirmationFormView,
  exampleConfirmationForm,
} from './schemas.ts'
import {
  changeConfirmationForm,
  createConfirmationForm,
  deleteConfirmationForm,
  formInPath,
  listConfirmationForms,
} from './service.ts'
import { toView } from './view.ts'

const { html, text } = exampleConfirmationForm

const tag = 'Confirmation forms'
const path = '/mailing_lists/:mailing_list_id/confirmation_forms'

/** Keys whose values only the schema refuses. */
const faultyKeys = [{ name: ' ' }, { from_email: 'nobody' }, { html: 'Hello' }, { text: 'Hello' }]

export const confirmationFormEndpoints = [
  endpoint({
    method: 'get',
    path,
    operationId: 'listConfirmationForms',
    summary: "The list's confirmation forms, by id",
    tag,
    needs: 'any_key',
    query: tokenPagingQuery({ perPage: 2000, max: 2000 }),
    reply: { data: z.array(confirmationFormView), paging: 'pages', example: [exampleConfirmationForm] },
    record: mailingListIn('mailing_list_id'),
    handle: (call) => listConfirmationForms(call, call.record, call.query),
  }),
  endpoint({
    method: 'post',
    path,
    operationId: 'createConfirmationForm',
    summary: 'Creates a confirmation form: the mail that asks a new subscriber to confirm',
    tag,
    needs: permission('web_form', 'create'),
    body: {
      wrapper: 'confirmation_form',
      schema: confirmationFormCreation,
      examples: { 'a form with the standard texts': { confirmation_form: { name: 'Welcome' } } },
      faulty: faultyKeys,
    },
    reply: { data: confirmationFormView, example: exampleConfirmationForm },
    record: localListInPath,
    handle: async ({ deps, record, body }) => ({
      data: toView(await createConfirmationForm(deps, record, body)),
    }),
  }),
  endpoint({
    method: 'get',
    path: `${path}/:id`,
    operationId: 'getConfirmationForm',
    summary: 'One confirmation form',
    tag,
    needs: 'any_key',
    reply: { data: confirmationFormView, example: exampleConfirmationForm },
    record: formInPath,
    handle: async ({ record }) => ({ data: toView(record) }),
  }),
  endpoint({
    method: 'put',
    path: `${path}/:id`,
    operationId: 'updateConfirmationForm',
    summary: 'Changes the fields that are given; mails that are taken from now on have the new texts',
    tag,
    needs: permission('web_form', 'update'),
    body: {
      wrapper: 'confirmation_form',
      schema: confirmationFormChange,
      isUpdate: true,
      examples: {
        'subject and texts are replaced': { confirmation_form: { subject: 'Welcome', html, text } },
      },
      faulty: faultyKeys,
    },
    reply: { data: confirmationFormView, example: { ...exampleConfirmationForm, subject: 'Welcome' } },
    record: formInPath,
    handle: async ({ deps, record, body }) => ({
      data: toView(await changeConfirmationForm(deps, record, body)),
    }),
  }),
  endpoint({
    method: 'delete',
    path: `${path}/:id`,
    operationId: 'deleteConfirmationForm',
    summary: 'Deletes a confirmation form; its pending confirmations then show the neutral page',
    tag,
    needs: permission('web_form', 'delete'),
    reply: { data: z.null(), example: null },
    record: formInPath,
    async handle({ deps, record }) {
      await deleteConfirmationForm(deps, record)
      return { data: null }
    },
  }),
]
