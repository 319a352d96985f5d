import { z } from 'zod'
import { fieldTypes } from '../../../shared/contract/schemas/custom-field.ts'
import { emailFormats, subscriberStatuses } from '../../../shared/contract/schemas/subscriber.ts'
import {
  emailText,
  fieldJson,
  flag,
  instantView,
  ipText,
  oneOf,
  positiveId,
  timeText,
} from '../../api/fields.ts'
import { tokenPagingQuery } from '../../api/token-paging.ts'
import { isHash } from '../../api/validation.ts'

/** The bodies, queries and replies of the subscriber endpoints. */

/** Records on a page. */
export const pageSizes = { perPage: 100, max: 500 }
export const subscriberPage = tokenPagingQuery(pageSizes)

const time = () =>
  timeText().describe("ISO 8601 with `T`; without an offset it is the organization's local time")
const ip = () => ipText().describe('IPv4 or IPv6')

/** Not `z.record`: zod would silently drop a field named `__proto__`. */
export const customFields = () =>
  z.custom<Record<string, unknown>>(isHash, { error: 'must be a hash' }).meta({
    description:
      "values by the field's name; a hash with the key `value` stands for its value; null unsets; all of a subscriber's values have at most 4 MiB together",
    override: { type: 'object', additionalProperties: true },
  })

const values = {
  email: emailText(),
  email_format: oneOf(emailFormats).describe('only used on lists with the format field'),
  status: oneOf(subscriberStatuses),
  subscribe_time: time(),
  subscribe_ip: ip(),
  remove_time: time(),
  remove_ip: ip(),
  confirmed: flag().describe('only used on lists with the confirmed field'),
  confirm_time: time(),
  custom_fields: customFields(),
}

const autoresponderChoice = {
  skip_autoresponders: flag().default(false).describe('queue no autoresponder'),
  autoresponder_filter: z
    .string()
    .optional()
    .describe('only autoresponders whose name matches; `*` stands for any characters'),
  autoresponder_exclude_reacted: flag()
    .default(false)
    .describe('none at all, if one of them is queued for this subscriber already'),
}

export const subscriberCreation = z.object({
  ...z.object(values).partial().shape,
  email: values.email,
  status: values.status.default('active'),
  confirmed: values.confirmed.default(false),
  ...autoresponderChoice,
  confirmation_form_id: positiveId()
    .optional()
    .describe('the subscriber is added when it follows the link in the confirmation mail; `data` is null'),
  apply_custom_field_defaults: flag()
    .default(false)
    .describe('fields without a value here get their defaults'),
})
export type SubscriberCreation = z.infer<typeof subscriberCreation>

const nullTime =
  'null unsets nothing: a stored time stays, and a removed or confirmed subscriber without one gets the time of the request'

export const subscriberUpdate = z.object({
  ...z
    .object({
      ...values,
      subscribe_ip: values.subscribe_ip.nullable(),
      remove_time: values.remove_time.nullable().describe(nullTime),
      remove_ip: values.remove_ip.nullable(),
      confirm_time: values.confirm_time.nullable().describe(nullTime),
    })
    .partial().shape,
  run_autoresponders: flag()
    .default(false)
    .describe('queue the on-subscription autoresponders as if the subscriber had just been created'),
  ...autoresponderChoice,
})
export type SubscriberUpdate = z.infer<typeof subscriberUpdate>

export const unsubscription = z.object({
  token: z.string().describe('from the mail'),
  ip: ip().optional(),
})

const instant = instantView()
const epoch = z.int().describe('the same in whole seconds since 1970')

export const subscriberView = z
  .object({
    id: z.int(),
    mailing_list_id: z.int(),
    email: z.string(),
    created_at: instant,
    created_at_epoch: epoch,
    email_format: z.enum(emailFormats).optional().describe('only on lists with the format field'),
    status: z.enum(subscriberStatuses),
    subscribe_time: instant,
    subscribe_time_epoch: epoch,
    subscribe_ip: z.string().nullable(),
    custom_fields: z
      .record(
        z.string(),
        z.object({ name: z.string(), type: z.enum(fieldTypes), value: fieldJson().nullable() }),
      )
      .describe("all of the list's fields by name"),
    remove_time: instant.nullable(),
    remove_time_epoch: epoch.nullable(),
    remove_ip: z.string().nullable(),
    confirmed: z.boolean().optional().describe('only on lists with the confirmed field, as the next two'),
    confirm_time: instant.nullable().optional(),
    confirm_time_epoch: epoch.nullable().optional(),
  })
  .meta({ id: 'Subscriber' })
export type SubscriberView = z.infer<typeof subscriberView>

export const foundSubscriberView = z
  .object({
    id: z.int(),
    status: z.enum(subscriberStatuses),
    email: z.string(),
    mailing_list: z.object({ id: z.int(), name: z.string() }),
    organization: z
      .object({ id: z.int(), name: z.string() })
      .optional()
      .describe('on the `organizations/...` paths'),
  })
  .meta({ id: 'FoundSubscriber' })

export const removalView = z
  .object({
    subscriber_ids_removed: z.array(z.int()),
    more_remaining: z.boolean().describe('more than 10 had the email: call again'),
  })
  .meta({ id: 'SubscriberRemoval' })

export const exampleSubscriber: SubscriberView = {
  id: 9001,
  mailing_list_id: 12,
  email: 'ann@example.com',
  created_at: '2026-11-21T09:00:00+01:00',
  created_at_epoch: 1_795_248_000,
  status: 'active',
  subscribe_time: '2026-11-21T09:00:00+01:00',
  subscribe_time_epoch: 1_795_248_000,
  subscribe_ip: '192.0.2.7',
  custom_fields: {
    'First name': { name: 'First name', type: 'text', value: 'Ann' },
    Plan: { name: 'Plan', type: 'select_single_dropdown', value: null },
  },
  remove_time: null,
  remove_time_epoch: null,
  remove_ip: null,
}

export const exampleFound: z.infer<typeof foundSubscriberView> = {
  id: 9001,
  status: 'active',
  email: 'ann@example.com',
  mailing_list: { id: 12, name: 'Newsletter' },
}
