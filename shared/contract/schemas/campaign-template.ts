import { z } from 'zod'
import { id, instant, integer } from './bson-schema.ts'

export const contentFormats = ['html', 'text', 'both'] as const
export const autowinnerDelayUnits = ['minutes', 'hours', 'days'] as const
export const autowinnerMetrics = [
  'opens_unique',
  'clicks_unique',
  'opens_total',
  'clicks_total',
  'click_to_open_rate',
] as const

/** One of the mails of a split test. Ids are unique over all templates. */
const contentPart = z.object({
  id: id(),
  name: z.string().nullable(),
  subject: z.string().nullable(),
  format: z.enum(contentFormats),
  html: z.string().nullable(),
  text: z.string().nullable(),
})
export type TemplateContent = z.infer<typeof contentPart>

/**
 * Delivery settings of campaigns that are made from the template. Ids and names of external objects are stored as
 * given.
 */
const dispatchPart = z.object({
  virtual_mta_id: integer().nullable(),
  virtual_mta_name: z.string().nullable(),
  bounce_email_user_id: integer().nullable(),
  bounce_email_domain_id: integer().nullable(),
  bounce_email_name: z.string().nullable(),
  bounce_email_email: z.string().nullable(),
  url_domain_id: integer().nullable(),
  url_domain_name: z.string().nullable(),
  url_domain_domain: z.string().nullable(),
  seed_list_id: integer().nullable(),
  seed_list_name: z.string().nullable(),
  special_sending_rule_id: integer().nullable(),
  special_sending_rule_name: z.string().nullable(),
  /** 0 is unlimited. */
  speed: integer().min(0),
  track_opens: z.boolean(),
  track_links: z.boolean(),
  paused: z.boolean(),
  from_name: z.string().nullable(),
  from_email: z.string().nullable(),
  reply_to: z.string().nullable(),
  sender_email: z.string().nullable(),
  begins_at: instant().nullable(),
  autowinner_enabled: z.boolean(),
  /** The percentage that replies show, with one or two decimals. */
  autowinner_percentage: z.string().nullable(),
  autowinner_delay_amount: integer().nullable(),
  autowinner_delay_unit: z.enum(autowinnerDelayUnits).nullable(),
  autowinner_metric: z.enum(autowinnerMetrics).nullable(),
})
export type TemplateDispatch = z.infer<typeof dispatchPart>

/** A template from which campaigns of a list are made. */
export const campaignTemplateDocument = z.object({
  _id: id(),
  organization_id: id(),
  mailing_list_id: id(),
  name: z.string(),
  /** Comparison form of the name, unique among the list's templates. */
  name_key: z.string(),
  segmentation_criteria_id: integer().nullable(),
  /** Only for remote lists. */
  segmentation_criteria_remote_sql: z.string().nullable(),
  custom_dynamic_template_id: integer().nullable(),
  /** Sorted by id. */
  contents: z.array(contentPart),
  /** Null until delivery settings are given. */
  dispatch: dispatchPart.nullable(),
  /** Optimistic lock: a change is written only when the revision is still the one that it read, and raises it. */
  revision: integer().min(0),
  created_at: instant(),
  updated_at: instant(),
})
export type CampaignTemplateDocument = z.infer<typeof campaignTemplateDocument>
