import { clock } from '../../../shared/runtime/clock.ts'
import type { CampaignTemplateDocument } from '../../../shared/contract/schemas/campaign-template.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import { comparisonForm } from '../../../shared/values/identity.ts'
import type { RecordOfPath, WholePaging } from '../../api/endpoint.ts'
import { PageReader, type JsonRecords, type PageCall } from '../../api/json-page.ts'
import { pathId, canAccess } from '../../api/scope.ts'
import { nextPageToken, pageStart } from '../../api/token-paging.ts'
import type { RequestError } from '../../api/request-error.ts'
import { refuseAll, mapDuplicateKey } from '../../api/validation.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { deleteTemplateDocument, insertTemplate, updateTemplate } from '../../store/campaign-templates.ts'
import { changedContents, countNewContents } from './contents.ts'
import { changedDispatch } from './delivery.ts'
import { nameTaken, noTemplate, sqlElsewhere, twoSegments } from './refusals.ts'
import type { TemplateChange, TemplateCreation } from './schemas.ts'
import { toSummaryViews, type TemplateSummary } from './view.ts'

const summaryFields = {
  name: 1,
  mailing_list_id: 1,
  organization_id: 1,
  segmentation_criteria_id: 1,
} as const

/** The templates sorted by id. Their contents, which may be large, aren't read. */
export async function listTemplates(
  call: PageCall,
  filter: { mailing_list_id: number } | { organization_id: number },
  { page_token }: { page_token?: string | undefined },
): Promise<{ data: JsonRecords; paging: WholePaging }> {
  const { campaignTemplates } = call.deps.database.collections
  const scope = `templates ${JSON.stringify(filter)}`
  const after = Number(pageStart(call.deps, { page_token }, scope).after ?? 0)
  const reader = new PageReader<TemplateSummary>({
    call,
    max: Number.MAX_SAFE_INTEGER,
    views: (documents) => toSummaryViews(call.deps, documents),
  })
  await reader.read(
    campaignTemplates
      .find<TemplateSummary>({ ...filter, _id: { $gt: after } }, { projection: summaryFields })
      .sort({ _id: 1 }),
  )
  const last = reader.last === null ? null : String(reader.last._id)
  return { data: reader.data, paging: { next_page_token: nextPageToken(call.deps, scope, last) } }
}

/** The template that a path names; one that the caller can't access is not found. */
export const templateInPath: RecordOfPath<CampaignTemplateDocument> = {
  refusals: [noTemplate],
  async find({ deps, caller, params: { template_id: id } }) {
    const found = await deps.database.collections.campaignTemplates.findOne({ _id: pathId(id, noTemplate) })
    if (found === null || !canAccess(caller, found.organization_id)) throw noTemplate(id)
    return found
  },
}

/** A request with the faults that were found in it so far. */
interface TemplateRequest<Body> {
  body: Body
  faults: RequestError[]
}

/** A template without contents, to which a creation is applied as a change. */
function blankTemplate(
  id: number,
  list: MailingListDocument,
  { name }: TemplateCreation,
): CampaignTemplateDocument {
  const now = clock.now()
  return {
    _id: id,
    organization_id: list.organization_id,
    mailing_list_id: list._id,
    name,
    name_key: '',
    segmentation_criteria_id: null,
    segmentation_criteria_remote_sql: null,
    custom_dynamic_template_id: null,
    contents: [],
    dispatch: null,
    revision: -1,
    created_at: now,
    updated_at: now,
  }
}

/** The template as stored. Throws `validation_failed` with all problems, or when the name is taken. */
export async function createTemplate(
  deps: ControlPlane,
  list: MailingListDocument,
  request: TemplateRequest<TemplateCreation>,
): Promise<CampaignTemplateDocument> {
  const { collections } = deps.database
  const { body } = request
  const blank = blankTemplate(await deps.database.ids.allocate('campaign_template'), list, body)
  const document = applyChange(blank, request, await readContext(deps, blank, countNewContents(body)))
  await mapDuplicateKey(nameTaken(document.name), () => insertTemplate(collections, document))
  return document
}

/**
 * The template as stored. An optimistic lock: when another change was written since the document was read, this change
 * is applied again to the new document. Each retry means that another change succeeded, so the loop ends. Throws
 * `not_found` when the template was deleted meanwhile, and as createTemplate.
 */
export async function changeTemplate(
  deps: ControlPlane,
  found: CampaignTemplateDocument,
  request: TemplateRequest<TemplateChange>,
): Promise<CampaignTemplateDocument> {
  const { collections } = deps.database
  const context = await readContext(deps, found, countNewContents(request.body))
  let current = found
  for (;;) {
    const { revision } = current
    const changed = applyChange(current, request, context)
    const isWritten = await mapDuplicateKey(nameTaken(changed.name), () =>
      updateTemplate(collections, changed, revision),
    )
    if (isWritten) return changed
    const reread = await collections.campaignTemplates.findOne({ _id: changed._id })
    if (reread === null) throw noTemplate(changed._id)
    current = reread
  }
}

/** Throws `not_found` when it was deleted meanwhile. */
export async function deleteTemplate(
  { database }: ControlPlane,
  { _id }: CampaignTemplateDocument,
): Promise<void> {
  if (!(await deleteTemplateDocument(database.collections, _id))) throw noTemplate(_id)
}

/** What a change depends on besides the document and the request. */
interface ChangeContext {
  now: Date
  zoneName: string
  isRemoteList: boolean
  firstContentId: number
}

async function readContext(
  { database, reads }: ControlPlane,
  { organization_id, mailing_list_id }: CampaignTemplateDocument,
  newContents: number,
): Promise<ChangeContext> {
  const { collections } = database
  const [zoneName, list, firstContentId] = await Promise.all([
    reads.timeZone(organization_id),
    collections.mailingLists.findOne({ _id: mailing_list_id }),
    newContents === 0 ? 0 : database.ids.allocate('campaign_content', newContents),
  ])
  return { now: clock.now(), zoneName, isRemoteList: list?.is_remote_list === true, firstContentId }
}

/** The whole document after the request. Throws `validation_failed` with all problems of the request. */
function applyChange(
  stored: CampaignTemplateDocument,
  { body: change, faults }: TemplateRequest<TemplateChange>,
  { now, zoneName, isRemoteList, firstContentId }: ChangeContext,
): CampaignTemplateDocument {
  const problems = [...faults, ...segmentFaults(change, isRemoteList)]
  const contents = changedContents(stored.contents, change, firstContentId, problems)
  const dispatch = changedDispatch(stored.dispatch, change.dispatch_attributes, zoneName, problems)
  refuseAll(problems)
  const { name = stored.name, custom_dynamic_template_id = stored.custom_dynamic_template_id } = change
  return {
    ...stored,
    name,
    name_key: comparisonForm(name),
    ...changedSegment(stored, change),
    custom_dynamic_template_id,
    contents,
    dispatch,
    revision: stored.revision + 1,
    updated_at: now,
  }
}

type Segment = Pick<CampaignTemplateDocument, 'segmentation_criteria_id' | 'segmentation_criteria_remote_sql'>

function segmentFaults(change: TemplateChange, isRemoteList: boolean): RequestError[] {
  const faults: RequestError[] = []
  const sql = change.segmentation_criteria_remote_sql ?? null
  if (sql !== null && !isRemoteList) faults.push(sqlElsewhere())
  if (sql !== null && (change.segmentation_criteria_id ?? null) !== null) faults.push(twoSegments())
  return faults
}

/** A template has at most one segment: a given one replaces a stored one of the other kind. */
function changedSegment(stored: Segment, change: TemplateChange): Segment {
  const { segmentation_criteria_id: id, segmentation_criteria_remote_sql: sql } = change
  if (id !== undefined && id !== null)
    return { segmentation_criteria_id: id, segmentation_criteria_remote_sql: null }
  if (sql !== undefined && sql !== null)
    return { segmentation_criteria_id: null, segmentation_criteria_remote_sql: sql }
  return {
    segmentation_criteria_id: id === null ? null : stored.segmentation_criteria_id,
    segmentation_criteria_remote_sql: sql === null ? null : stored.segmentation_criteria_remote_sql,
  }
}
