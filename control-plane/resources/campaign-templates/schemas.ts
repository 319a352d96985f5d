import { z } from 'zod'
import {
  autowinnerDelayUnits,
  autowinnerMetrics,
  campaignTemplateDocument,
  contentFormats,
} from '../../../shared/contract/schemas/campaign-template.ts'
import {
  flag,
  headerEmail,
  headerText,
  instantView,
  nameText,
  oneOf,
  foreignId,
  foreignName,
  virtualMtaId,
  positiveId,
  timeText,
} from '../../api/fields.ts'
import { shownFields } from '../stored-fields.ts'
import { dispatchDefaults, toDispatchView } from './delivery.ts'

/** Campaign templates in requests and replies. */

export const maxContents = 100

/** In a new content null is the same as a missing key; for a stored one see contents.ts. */
const contentEntry = z.object({
  id: positiveId().nullable().optional(),
  name: nameText(255).nullable().optional(),
  subject: headerText(998).nullable().optional(),
  format: oneOf(contentFormats).nullable().optional(),
  html: z.string().nullable().optional(),
  text: z.string().nullable().optional(),
  _destroy: flag().nullable().optional(),
})
export type ContentEntry = z.infer<typeof contentEntry>

const percentagePattern = /^\d{1,3}(?:\.\d{1,2})?$/
const percentageExpectation =
  'must be a percentage from 0 to 100 with at most 2 decimals, as a number or as a string'

/** A text that may have blanks around it; `pattern` is for the OpenAPI description. */
const patternedText = (pattern: string) =>
  z.string().meta({ override: { pattern: String.raw`^\s*${pattern}\s*$` } })

/** Becomes a text with one or two decimals, the form in which it is stored and shown. */
const percentage = () =>
  z
    .union([z.number().min(0).max(100), patternedText(String.raw`\d{1,3}(\.\d{1,2})?`)], {
      error: percentageExpectation,
    })
    .transform(String)
    .refine((text) => percentagePattern.test(text.trim()) && Number(text) <= 100, {
      error: percentageExpectation,
    })
    .transform((text) => (Number.isInteger(Number(text)) ? `${Number(text)}.0` : String(Number(text))))

const bounceEmailPattern = /^([1-9]\d{0,14})@([1-9]\d{0,14})$/

/** `<user_id>@<domain_id>`; a blank one becomes null, which means the general setting. */
const bounceEmail = () =>
  patternedText(String.raw`([1-9]\d{0,14}@[1-9]\d{0,14})?`).transform((text, context) => {
    if (text.trim() === '') return null
    const match = bounceEmailPattern.exec(text.trim())
    if (match !== null) return { userId: Number(match[1]), domainId: Number(match[2]) }
    context.addIssue({ code: 'custom', message: 'must be written as <user_id>@<domain_id>, such as 3@7' })
    return z.NEVER
  })

export const dispatchAttributes = z
  .object({
    virtual_mta_id: virtualMtaId(),
    virtual_mta_name: foreignName(),
    bounce_email_id: bounceEmail().nullable(),
    bounce_email_name: foreignName(),
    bounce_email_email: foreignName(),
    url_domain_id: foreignId(),
    url_domain_name: foreignName(),
    url_domain_domain: foreignName(),
    seed_list_id: foreignId(),
    seed_list_name: foreignName(),
    special_sending_rule_id: foreignId(),
    special_sending_rule_name: foreignName(),
    speed: z.int().min(0),
    track_opens: flag(),
    track_links: flag(),
    paused: flag(),
    from_name: headerText(255).nullable(),
    from_email: headerEmail().nullable(),
    reply_to: headerEmail().nullable(),
    sender_email: headerEmail().nullable(),
    begins_at: timeText()
      .nullable()
      .describe("ISO 8601 with `T`; without an offset it is the organization's local time"),
    autowinner_enabled: flag(),
    autowinner_percentage: percentage().nullable(),
    autowinner_delay_amount: z.int().min(0).nullable(),
    autowinner_delay_unit: oneOf(autowinnerDelayUnits).nullable(),
    autowinner_metric: oneOf(autowinnerMetrics).nullable(),
  })
  .partial()
export type DispatchAttributes = z.infer<typeof dispatchAttributes>

/** Fields of a single content, replaced by `contents`. */
const deprecated = { deprecated: true }

const settings = {
  name: nameText(255),
  segmentation_criteria_id: foreignId(),
  segmentation_criteria_remote_sql: z.string().nullable(),
  custom_dynamic_template_id: foreignId(),
  contents: z.array(contentEntry).max(maxContents),
  content_subject: headerText(998).nullable().meta(deprecated),
  email_format: oneOf(contentFormats).meta(deprecated),
  content_html: z.string().nullable().meta(deprecated),
  content_text: z.string().nullable().meta(deprecated),
  dispatch_attributes: dispatchAttributes.nullable(),
}
export const templateChange = z.object(settings).partial()
export type TemplateChange = z.infer<typeof templateChange>

export const templateCreation = templateChange.extend({ name: settings.name })
export type TemplateCreation = z.infer<typeof templateCreation>

export const templateSummaryView = z
  .object({
    id: z.int(),
    name: z.string(),
    mailing_list_id: z.int(),
    mailing_list_name: z.string(),
    organization_id: z.int(),
    segmentation_criteria_id: z.int().nullable(),
  })
  .meta({ id: 'CampaignTemplateSummary' })

const instant = instantView()
const stored = campaignTemplateDocument.shape

export const dispatchView = z
  .object({
    state: z.literal('idle'),
    state_description: z.string(),
    ...shownFields(stored.dispatch.unwrap().shape),
    virtual_mta_type: z.literal('default_route').nullable(),
    bounce_email_id: z.string().nullable(),
    seed_lists: z.array(z.object({ id: z.int(), name: z.string().nullable() })),
    begins_at: instant.nullable(),
    started_at: instant.nullable(),
    finished_at: instant.nullable(),
  })
  .meta({ id: 'CampaignTemplateDispatch' })
export type DispatchView = z.infer<typeof dispatchView>

const contentView = z
  .object({
    ...shownFields(stored.contents.element.shape),
    html: z.string().nullable().optional(),
    text: z.string().nullable().optional(),
  })
  .meta({ id: 'CampaignTemplateContent' })
export type ContentView = z.infer<typeof contentView>

export const templateView = z
  .object({
    ...templateSummaryView.shape,
    organization_name: z.string(),
    segmentation_criteria_name: z.null(),
    segmentation_criteria_remote_sql: z.string().nullable(),
    contents: z.array(contentView),
    content_subject: z.string().nullable().meta(deprecated),
    email_format: z.enum(contentFormats).nullable().meta(deprecated),
    content_html: z.string().nullable().meta(deprecated),
    content_text: z.string().nullable().meta(deprecated),
    dispatch: dispatchView.optional(),
    archived: z.boolean(),
    content_determined: z.boolean(),
    template: z.literal(true),
    created_at: instant,
    updated_at: instant,
    custom_dynamic_template_id: z.int().nullable(),
    stat_summary: z.null(),
    content_stats: z.array(z.unknown()),
    automatic_winner_selection: z.null(),
    campaign_contents: z.array(z.unknown()),
  })
  .meta({ id: 'CampaignTemplate' })
export type TemplateView = z.infer<typeof templateView>

export const exampleTemplate: TemplateView = {
  id: 4,
  name: 'Monthly news',
  mailing_list_id: 12,
  mailing_list_name: 'Newsletter',
  organization_id: 2,
  organization_name: 'Example Ltd',
  segmentation_criteria_id: null,
  segmentation_criteria_name: null,
  segmentation_criteria_remote_sql: null,
  contents: [
    { id: 9, name: 'Plain', subject: 'News', format: 'text', text: 'What is new' },
    { id: 10, name: 'Pictures', subject: 'News!', format: 'html', html: '<p>What is new</p>' },
  ],
  content_subject: 'News',
  email_format: 'text',
  content_html: null,
  content_text: 'What is new',
  dispatch: toDispatchView(
    {
      ...dispatchDefaults,
      virtual_mta_id: 0,
      bounce_email_user_id: 3,
      bounce_email_domain_id: 7,
      from_name: 'Example Ltd',
      from_email: 'news@example.com',
      autowinner_enabled: true,
      autowinner_percentage: '25.0',
      autowinner_delay_amount: 90,
      autowinner_delay_unit: 'minutes',
      autowinner_metric: 'opens_unique',
    },
    'Europe/Berlin',
  ),
  archived: false,
  content_determined: false,
  template: true,
  created_at: '2026-01-31T12:00:00+01:00',
  updated_at: '2026-02-01T12:00:00+01:00',
  custom_dynamic_template_id: null,
  stat_summary: null,
  content_stats: [],
  automatic_winner_selection: null,
  campaign_contents: [],
}
