import { z } from 'zod'
import { confirmationFormDocument } from '../../../shared/contract/schemas/confirmation.ts'
import { boundedText, nameText, validEmail } from '../../api/fields.ts'
import { shownFields } from '../stored-fields.ts'

/** Confirmation forms in requests and replies. */

export const confirmationFormView = z
  .object({
    id: z.int(),
    ...shownFields(confirmationFormDocument.omit({ _id: true, created_at: true }).shape),
  })
  .meta({ id: 'ConfirmationForm' })
export type ConfirmationFormView = z.infer<typeof confirmationFormView>

const link = '%%confirmation_url%%'
const defaults = {
  subject: 'Please confirm your subscription',
  html: `<p>Please confirm your subscription: <a href="${link}">${link}</a></p>\n<p>If you didn't ask for it, ignore this mail.</p>\n`,
  text: `Please confirm your subscription:\n\n${link}\n\nIf you didn't ask for it, ignore this mail.\n`,
}

/** The link is required: without it the subscription could never be confirmed. */
const content = () =>
  boundedText({ max: 500_000 })
    .refine((text) => text.includes(link), { error: `must hold ${link}` })
    .meta({ pattern: link })

export const confirmationFormCreation = z.object({
  name: nameText(255),
  from_name: nameText(255).nullable().default(null),
  from_email: validEmail().nullable().default(null),
  subject: nameText(998).default(defaults.subject),
  html: content().default(defaults.html),
  text: content().default(defaults.text),
})
export type ConfirmationFormCreation = z.infer<typeof confirmationFormCreation>

export const confirmationFormChange = z
  .object({
    name: nameText(255),
    from_name: nameText(255).nullable(),
    from_email: validEmail().nullable(),
    subject: nameText(998),
    html: content(),
    text: content(),
  })
  .partial()
export type ConfirmationFormChange = z.infer<typeof confirmationFormChange>

export const exampleConfirmationForm: ConfirmationFormView = {
  id: 3,
  mailing_list_id: 12,
  name: 'Welcome',
  from_name: null,
  from_email: null,
  ...defaults,
}
