import { z } from 'zod'
import { boundedText, flag, positiveId } from '../../api/fields.ts'
import { isHash } from '../../api/validation.ts'
import { customFields, exampleSubscriber, subscriberView } from './schemas.ts'

/** What goes into and comes out of triggering autoresponders for one subscriber. */

/** Null is the same as leaving the key out; below `custom_fields` it unsets a value, so nulls are kept until here. */
const orNothing = <T extends z.ZodType>(schema: T) =>
  schema.nullish().transform((value) => value ?? undefined)
const choice = () =>
  flag()
    .nullish()
    .transform((value) => value ?? false)

/** Not a record: see `customFields`. Keys and values are looked at by `readReplacements`. */
const replacements = () =>
  z
    .custom<Record<string, unknown>>(isHash, { error: 'must be a hash' })
    .meta({ override: { type: 'object', additionalProperties: { type: 'string' } } })

const keyRules =
  'keys have 1-50 characters, at least one letter or digit among them, and are unique without case, whitespace counting as underscore'

export const triggering = z.object({
  create_missing_subscriber: choice().describe(
    'add who is not on the list, where the path has an email; needs subscriber/create too',
  ),
  reactivate_subscriber: choice().describe('make who is not active active again, instead of refusing'),
  skip_subscription_autoresponders: choice().describe(
    'hold back the on-subscription autoresponders that a creation by this call would trigger',
  ),
  autoresponder_names: orNothing(z.array(boundedText({ max: 1_000 }))).describe(
    'up to 100 names, `*` standing for any characters; either these or ids, and an empty array is none',
  ),
  autoresponder_ids: orNothing(z.array(positiveId())).describe(
    'up to 100 ids of autoresponders of the list; either these or names, and an empty array is none',
  ),
  content_replacement_fields: orNothing(replacements()).describe(
    `texts for this call's mails alone, in place of \`API:key\`; ${keyRules}`,
  ),
  content_replacement_fields_raw: orNothing(replacements()).describe(
    'the same, to be put into the mail without any encoding',
  ),
  custom_fields: orNothing(
    z.object({
      for_all: orNothing(customFields()).describe('values for whoever is triggered'),
      for_new: orNothing(customFields()).describe('for who is created; goes before `for_all`, key by key'),
      for_active: orNothing(customFields()).describe('for who was active; goes before `for_all`'),
      for_reactivated: orNothing(customFields()).describe('for who is reactivated; goes before `for_all`'),
    }),
  ).describe("values of the subscriber's custom fields, by what becomes of it"),
})
export type Triggering = z.infer<typeof triggering>
export type FieldsBySection = Partial<NonNullable<Triggering['custom_fields']>>

export const triggeredView = z
  .object({
    triggered_autoresponders: z
      .array(
        z.object({
          id: z.int().describe('its id'),
          name: z.string().describe('its name'),
        }),
      )
      .describe('all that this call queued a mail of, by id'),
    subscriber: subscriberView.describe('as it is after the call'),
    subscription_result: z
      .enum(['created', 'remained_active', 'reactivated'])
      .describe('what became of the subscription'),
  })
  .meta({ id: 'TriggeredAutoresponders' })

export const exampleTriggered: z.infer<typeof triggeredView> = {
  triggered_autoresponders: [{ id: 7, name: 'Order confirmation' }],
  subscriber: exampleSubscriber,
  subscription_result: 'remained_active',
}

/** What it alone refuses. */
export const faultyTriggering = {
  invalid_request: [
    'exactly one of autoresponder_names and autoresponder_ids must be given, with one entry at least',
    'subscriber 9001 is bounced, and autoresponders are triggered for active ones only: with reactivate_subscriber it is made active',
    'the key "" of content_replacement_fields must have 1 to 50 characters',
    'the key "a\\u0000" of content_replacement_fields must not hold NUL characters',
    'the key "-" of content_replacement_fields must hold a letter or a digit',
    'the key "Order_number" of content_replacement_fields is the same as "Order number"',
  ],
  not_found: ['mailing list 12 has no autoresponder "Order *"', 'mailing list 12 has no autoresponder 4711'],
  validation_failed: [
    'content_replacement_fields.Order must be a string',
    'content_replacement_fields.Order must not hold NUL characters',
    'content_replacement_fields and content_replacement_fields_raw must have at most 100000 characters together, and have 100001',
    'custom_fields.for_all.Nothing is no custom field of the list',
    'custom_fields.for_all.Plan is given twice',
    'custom_fields.for_all.Plan must be an integer',
    'custom_fields.Plan is required',
    "custom_fields.Plan is required and can't be unset",
  ],
}
