import { z } from 'zod'
import { boundedText, flag, positiveId } from '../../../api/fields.ts'
import { isHash } from '../../../api/validation.ts'
import { customFields, exampleSubscriber, subscriberView } from '../schemas.ts'

/** The body and reply of triggering autoresponders for one subscriber. */

/** Null is the same as leaving the key out. The router keeps nulls, since below `custom_fields` they unset values. */
const orNothing = <T extends z.ZodType>(schema: T) =>
  schema.nullish().transform((value) => value ?? undefined)
const flagOrFalse = () =>
  flag()
    .nullish()
    .transform((value) => value ?? false)

/** Not `z.record`, as in `customFields`. Keys and values are checked by `checkTriggering`. */
const replacements = () =>
  z
    .custom<Record<string, unknown>>(isHash, { error: 'must be a hash' })
    .meta({ override: { type: 'object', additionalProperties: { type: 'string' } } })

const keyRules =
  'keys have 1-50 characters, at least one letter or digit among them, and are unique without case, whitespace counting as underscore'

export const triggering = z.object({
  create_missing_subscriber: flagOrFalse().describe(
    'add the subscriber where the list has none with the email in the path; needs subscriber/create too',
  ),
  reactivate_subscriber: flagOrFalse().describe(
    'make a subscriber that is not active active again, instead of refusing',
  ),
  skip_subscription_autoresponders: flagOrFalse().describe(
    'do not trigger the on-subscription autoresponders of a creation by this call',
  ),
  autoresponder_names: orNothing(z.array(boundedText({ max: 1_000 }))).describe(
    'up to 100 names, in which `*` stands for any characters; give these or ids; an empty array counts as left out',
  ),
  autoresponder_ids: orNothing(z.array(positiveId())).describe(
    'up to 100 ids of autoresponders of the list; give these or names; an empty array counts as left out',
  ),
  content_replacement_fields: orNothing(replacements()).describe(
    `texts for this call's mails alone, in place of \`API:key\`; ${keyRules}`,
  ),
  content_replacement_fields_raw: orNothing(replacements()).describe(
    'the same, to be put into the mail without any encoding',
  ),
  custom_fields: orNothing(
    z.object({
      for_all: orNothing(customFields()).describe('values in every case'),
      for_new: orNothing(customFields()).describe(
        'where the subscriber is created; replaces `for_all` key by key',
      ),
      for_active: orNothing(customFields()).describe('where it was active; replaces `for_all` key by key'),
      for_reactivated: orNothing(customFields()).describe(
        'where it is reactivated; replaces `for_all` key by key',
      ),
    }),
  ).describe("values of the subscriber's custom fields, by what the call makes of it"),
})
export type Triggering = z.infer<typeof triggering>

export const triggeredView = z
  .object({
    triggered_autoresponders: z
      .array(
        z.object({
          id: z.int().describe('its id'),
          name: z.string().describe('its name'),
        }),
      )
      .describe('all autoresponders that this call queued a mail of, sorted by id'),
    subscriber: subscriberView.describe('as it is after the call'),
    subscription_result: z
      .enum(['created', 'remained_active', 'reactivated'])
      .describe('what the call made of the subscription'),
  })
  .meta({ id: 'TriggeredAutoresponders' })

export const exampleTriggered: z.infer<typeof triggeredView> = {
  triggered_autoresponders: [{ id: 7, name: 'Order confirmation' }],
  subscriber: exampleSubscriber,
  subscription_result: 'remained_active',
}
