import { z } from 'zod'
import { nextIds } from '../../../shared/database.ts'
import type { ConfirmationFormDocument } from '../../../shared/schemas/confirmation.ts'
import { endpoint, permission } from '../../api/endpoint.ts'
import { boundedText, nameText, pagingQuery, validEmail } from '../../api/fields.ts'
import { readPage } from '../../api/paging.ts'
import { findMailingList, refuseRemoteList, remoteListRefusal } from '../../api/scope.ts'

const tag = 'Confirmation forms'

const view = z
  .object({
    id: z.int(),
    mailing_list_id: z.int(),
    name: z.string(),
    from_name: z.string().nullable(),
    from_email: z.string().nullable(),
    subject: z.string(),
    html: z.string().describe('`%%confirmation_url%%` stands for the link, here and in `text`'),
    text: z.string(),
  })
  .meta({ id: 'ConfirmationForm' })

const link = '%%confirmation_url%%'
const standard = {
  subject: 'Please confirm your subscription',
  html: `<p>Please confirm your subscription: <a href="${link}">${link}</a></p>\n<p>If you didn't ask for it, ignore this mail.</p>\n`,
  text: `Please confirm your subscription:\n\n${link}\n\nIf you didn't ask for it, ignore this mail.\n`,
}

/** Without the link nobody could ever confirm. */
const content = (fallback: string) =>
  boundedText({ most: 500_000 })
    .refine((text) => text.includes(link), { error: `must hold ${link}` })
    .meta({ pattern: link })
    .default(fallback)

const formCreation = z.object({
  name: nameText(255),
  from_name: nameText(255).nullable().default(null),
  from_email: validEmail().nullable().default(null),
  subject: nameText(998).default(standard.subject),
  html: content(standard.html),
  text: content(standard.text),
})

const example = {
  id: 3,
  mailing_list_id: 12,
  name: 'Welcome',
  from_name: null,
  from_email: null,
  ...standard,
}
const path = '/mailing_lists/:mailing_list_id/confirmation_forms'

export const confirmationFormEndpoints = [
  endpoint({
    method: 'get',
    path,
    operationId: 'listConfirmationForms',
    summary: "The list's confirmation forms, by id",
    tag,
    needs: 'any_key',
    query: z.object(pagingQuery({ perPage: 2000, most: 2000 })),
    reply: { data: z.array(view), paging: 'pages', example: [example] },
    async handle({ deps, caller, params, query }) {
      const list = await findMailingList(deps, caller, params['mailing_list_id'])
      const { documents, paging } = await readPage(
        deps.database.collections.confirmationForms,
        { mailing_list_id: list._id },
        { ...query(), sort: { _id: 1 } },
      )
      return { data: documents.map(toView), paging }
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
      schema: formCreation,
      example: { confirmation_form: { name: 'Welcome' } },
    },
    reply: { data: view, example },
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
      const { collections } = deps.database
      const list = await findMailingList(deps, caller, params['mailing_list_id'])
      refuseRemoteList(list)
      const document: ConfirmationFormDocument = {
        ...body(),
        _id: await nextIds(collections, 'confirmation_form'),
        mailing_list_id: list._id,
        created_at: new Date(),
      }
      await collections.confirmationForms.insertOne(document)
      return { data: toView(document) }
    },
  }),
]

function toView(form: ConfirmationFormDocument): z.infer<typeof view> {
  const { _id, created_at: _at, ...rest } = form
  return { id: _id, ...rest }
}
