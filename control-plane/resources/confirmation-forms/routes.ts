import { z } from 'zod'
import { endpoint, permission } from '../../api/endpoint.ts'
import { localListInPath, mailingListIn } from '../../api/scope.ts'
import { tokenPagingQuery } from '../../api/token-paging.ts'
import { confirmationFormCreation, confirmationFormView, exampleConfirmationForm } from './schemas.ts'
import { createConfirmationForm, listConfirmationForms } from './service.ts'
import { toView } from './view.ts'

const tag = 'Confirmation forms'
const path = '/mailing_lists/:mailing_list_id/confirmation_forms'

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
      example: { confirmation_form: { name: 'Welcome' } },
      faulty: [{ name: ' ' }, { from_email: 'nobody' }, { html: 'Hello' }, { text: 'Hello' }],
    },
    reply: { data: confirmationFormView, example: exampleConfirmationForm },
    record: localListInPath,
    handle: async ({ deps, record, body }) => ({
      data: toView(await createConfirmationForm(deps, record, body)),
    }),
  }),
]
