import { z } from 'zod'
import { oldEndpoint as endpoint, permission } from '../../api/endpoint.ts'
import { findMailingList, refuseRemoteList, remoteListRefusal } from '../../api/scope.ts'
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
    async handle(call) {
      const list = await findMailingList(call.deps, call.caller, call.params['mailing_list_id'])
      return listConfirmationForms(call, list, call.query())
    },
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
    },
    reply: { data: confirmationFormView, example: exampleConfirmationForm },
    refusals: {
      invalid_request: remoteListRefusal,
      validation_failed: [
        'name must not be blank',
        'from_email must be an email address',
        'html must hold %%confirmation_url%%',
        'text must hold %%confirmation_url%%',
      ],
    },
    async handle({ deps, caller, params, body }) {
      const list = await findMailingList(deps, caller, params['mailing_list_id'])
      refuseRemoteList(list)
      return { data: toView(await createConfirmationForm(deps, list, body())) }
    },
  }),
]
