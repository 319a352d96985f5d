import type { z } from 'zod'
import type {
  CampaignTemplateDocument,
  TemplateContent,
} from '../../../shared/contract/schemas/campaign-template.ts'
import { formatInstant } from '../../../shared/values/time-zone.ts'
import type { WholePaging } from '../../api/endpoint.ts'
import { PageReader, type JsonRecords, type PageCall } from '../../api/json-page.ts'
import { nextPageToken, pageStart } from '../../api/token-paging.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { toDispatchView } from './delivery.ts'
import type { ContentView, templateSummaryView, TemplateView } from './schemas.ts'

/** Views of templates, with the names of list and organization, and times in the organization's zone. */

const summaryFields = {
  name: 1,
  mailing_list_id: 1,
  organization_id: 1,
  segmentation_criteria_id: 1,
} as const
type Summary = Pick<CampaignTemplateDocument, '_id' | keyof typeof summaryFields>

/** The templates sorted by id. Their contents, which may be large, aren't read. */
export async function summaries(
  call: PageCall,
  filter: { mailing_list_id: number } | { organization_id: number },
  { page_token }: { page_token?: string | undefined },
): Promise<{ data: JsonRecords; paging: WholePaging }> {
  const { campaignTemplates } = call.deps.database.collections
  const scope = `templates ${JSON.stringify(filter)}`
  const after = Number(pageStart(call.deps, { page_token }, scope).after ?? 0)
  const reader = new PageReader<Summary>({
    call,
    max: Number.MAX_SAFE_INTEGER,
    views: (documents) => summaryViews(call.deps, documents),
  })
  await reader.read(
    campaignTemplates
      .find<Summary>({ ...filter, _id: { $gt: after } }, { projection: summaryFields })
      .sort({ _id: 1 }),
  )
  const last = reader.last === null ? null : String(reader.last._id)
  return { data: reader.data, paging: { next_page_token: nextPageToken(call.deps, scope, last) } }
}

async function summaryViews(
  { database }: ControlPlane,
  documents: Summary[],
): Promise<z.infer<typeof templateSummaryView>[]> {
  const lists = await database.collections.mailingLists
    .find(
      { _id: { $in: [...new Set(documents.map(({ mailing_list_id }) => mailing_list_id))] } },
      { projection: { name: 1 } },
    )
    .toArray()
  const names = new Map(lists.map(({ _id, name }) => [_id, name]))
  return documents.map(({ _id, name, mailing_list_id, organization_id, segmentation_criteria_id }) => ({
    id: _id,
    name,
    mailing_list_id,
    mailing_list_name: names.get(mailing_list_id) ?? '',
    organization_id,
    segmentation_criteria_id,
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
    name: document.name,
    mailing_list_id: document.mailing_list_id,
    mailing_list_name: list?.name ?? '',
    organization_id: document.organization_id,
    organization_name: organization?.name ?? '',
    segmentation_criteria_id: document.segmentation_criteria_id,
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
