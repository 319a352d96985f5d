import { z } from 'zod'
import {
  autoresponderDefaults,
  autoresponderTriggers,
  delayUnits,
} from '../../../shared/contract/schemas/autoresponder.ts'
import { autoresponderDocument } from '../../../shared/contract/schemas/autoresponder-schema.ts'
import { contentFormats } from '../../../shared/contract/schemas/campaign-template.ts'
import {
  bounceEmailId,
  boundedText,
  flag,
  headerEmail,
  headerText,
  instantView,
  nameText,
  oneOf,
  foreignId,
  foreignName,
  virtualMtaId,
} from '../../api/fields.ts'
import { wholeQuery } from '../../api/token-paging.ts'
import { shownFields } from '../stored-fields.ts'

/** Autoresponders in requests and replies. */

const delays = ['immediately', 'with_delay'] as const

const urls = () =>
  z
    .array(boundedText({ min: 1, max: 10_000 }))
    .max(1_000)
    .nullable()

/** Everything that a request may set. Other fields are read-only, and ignored in requests. */
const settings = {
  name: nameText(255),
  paused: flag(),
  delay: oneOf(delays),
  delay_amount: z.int().min(0),
  delay_time: z.int().min(0).max(23),
  delay_unit: oneOf(delayUnits).nullable(),
  from_email: headerEmail().nullable(),
  from_name: headerText(255).nullable(),
  reply_to: headerEmail().nullable(),
  bounce_email_domain_id: bounceEmailId(),
  bounce_email_user_id: bounceEmailId(),
  url_domain_id: foreignId(),
  virtual_mta_id: virtualMtaId(),
  use_external_delivery_setting: flag(),
  special_sending_rule_id: foreignId(),
  special_sending_rule_name: foreignName(),
  segmentation_criteria_id: foreignId(),
  segmentation_criteria_name: foreignName(),
  track_links: flag(),
  track_opens: flag(),
  trigger: oneOf(autoresponderTriggers),
  trigger_autoresponder_to_click_id: foreignId(),
  trigger_autoresponder_to_click_on_any_url: flag().nullable(),
  trigger_autoresponder_to_click_urls: urls(),
  trigger_autoresponder_to_open_id: foreignId(),
  trigger_autoresponder_to_send_id: foreignId(),
  trigger_campaign_to_click_id: foreignId(),
  trigger_campaign_to_click_on_any_url: flag().nullable(),
  trigger_campaign_to_click_urls: urls(),
  trigger_campaign_to_open_id: foreignId(),
  trigger_include_subscribers_from_import: flag(),
  trigger_run_on_api: flag(),
  content_subject: headerText(998).nullable(),
  content_format: oneOf(contentFormats),
  content_html: z.string().nullable(),
  content_text: z.string().nullable(),
}

export const autoresponderChange = z.object(settings).partial()
export type AutoresponderChange = z.infer<typeof autoresponderChange>

export const autoresponderCreation = autoresponderChange.extend({
  name: settings.name,
  trigger: settings.trigger,
})
export type AutoresponderCreation = z.infer<typeof autoresponderCreation>

export const autoresponderQuery = z.object({
  name: z
    .string()
    .optional()
    .describe('only those whose whole name matches, in any case; `*` stands for any characters'),
  minimal: z.enum(['true', '1', 'false', '0']).optional().describe('`true` or `1`: only `id` and `name`'),
  ...wholeQuery(),
})

export const autoresponderView = z
  .object({
    id: z.int(),
    ...shownFields(
      autoresponderDocument.omit({
        _id: true,
        organization_id: true,
        name_key: true,
        triggered_at: true,
        created_at: true,
      }).shape,
    ),
    paused_at: instantView()
      .nullable()
      .describe("when it was paused, in the organization's time zone; null while it isn't paused"),
    triggered_on: z
      .string()
      .meta({ override: { format: 'date' } })
      .nullable(),
  })
  .meta({ id: 'Autoresponder' })
export type AutoresponderView = z.infer<typeof autoresponderView>

export const minimalAutoresponderView = z
  .object({ id: z.int(), name: z.string() })
  .meta({ id: 'MinimalAutoresponder' })

const { triggered_at: _triggeredAt, ...defaults } = autoresponderDefaults

export const exampleAutoresponder: AutoresponderView = {
  id: 7,
  mailing_list_id: 12,
  name: 'Welcome',
  trigger: 'subscription',
  triggered_on: '2026-01-31',
  ...defaults,
  paused_at: null,
  delay: 'with_delay',
  delay_amount: 1,
  delay_time: 9,
  delay_unit: 'days',
  from_email: 'news@example.com',
  from_name: 'Example Ltd',
  virtual_mta_id: 0,
  content_subject: 'Welcome',
  content_html: '<p>Good to have you.</p>',
  content_text: 'Good to have you.',
}
