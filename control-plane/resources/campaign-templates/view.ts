import type { z } from 'zod'
import type {
  CampaignTemplateDocument,
  TemplateContent,
} from '../../../shared/contract/schemas/campaign-template.ts'
import { formatInstant } from '../../../shared/values/time-zone.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { toDispatchView } from './delivery.ts'
import { sameFields } from '../stored-fields.ts'
import { templateSummaryView, type ContentView, type TemplateView } from './schemas.ts'

/** Views of templates, with the names of list and organization, and times in the organization's zone. */

export type TemplateSummary = Pick<
  CampaignTemplateDocument,
  '_id' | 'name' | 'mailing_list_id' | 'organization_id' | 'segmentation_criteria_id'
>

export async function toSummaryViews(
  { database }: ControlPlane,
  documents: TemplateSummary[],
): Promise<z.infer<typeof templateSummaryView>[]> {
  const lists = await database.collections.mailingLists
    .find(
      { _id: { $in: [...new Set(documents.map(({ mailing_list_id }) => mailing_list_id))] } },
      { projection: { name: 1 } },
    )
    .toArray()
  const names = new Map(lists.map(({ _id, name }) => [_id, name]))
  return documents.map((document) => ({
    id: document._id,
    ...sameFields(templateSummaryView, document),
    mailing_list_name: names.get(document.mailing_list_id) ?? '',
  }))
}

export async function toView(
  { database }: ControlPlane,
  document: CampaignTemplateDocument,
): Promise<TemplateView> {
  const { mailingLists, organizations } = database.collections
  const [list, organization] = await Promise.all([
    mailingLists.findOne({ _id: document.mailing_list_id }, { projection: { name: 1 } }),
    organizations.findOne({ _id: document.organization_id }, { projection: { name: 1, time_zone_name: 1 } }),
  ])
  const zoneName = organization?.time_zone_name ?? 'UTC'
  const contents = document.contents.map(toContentView)
  const first = contents[0]
  return {
    id: document._id,
    ...sameFields(templateSummaryView, document),
    mailing_list_name: list?.name ?? '',
    organization_name: organization?.name ?? '',
    segmentation_criteria_name: null,
    segmentation_criteria_remote_sql: document.segmentation_criteria_remote_sql,
    contents,
    content_subject: first?.subject ?? null,
    email_format: first?.format ?? null,
    content_html: first?.html ?? null,
    content_text: first?.text ?? null,
    ...(document.dispatch === null ? {} : { dispatch: toDispatchView(document.dispatch, zoneName) }),
    archived: false,
    content_determined: contents.length === 1,
    template: true,
    created_at: formatInstant(document.created_at, zoneName),
    updated_at: formatInstant(document.updated_at, zoneName),
    custom_dynamic_template_id: document.custom_dynamic_template_id,
    stat_summary: null,
    content_stats: [],
    automatic_winner_selection: null,
    campaign_contents: [],
  }
}

/** Hides the text that the format doesn't send. It stays stored, for a later change of the format. */
function toContentView({ id, name, subject, format, html, text }: TemplateContent): ContentView {
  return {
    id,
    name,
    subject,
    format,
    ...(format === 'text' ? {} : { html }),
    ...(format === 'html' ? {} : { text }),
  }
}
