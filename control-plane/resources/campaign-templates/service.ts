import type { Caller } from '../../../shared/store/api-keys.ts'
import { clock } from '../../../shared/runtime/clock.ts'
import { nextIds } from '../../../shared/runtime/database.ts'
import type { CampaignTemplateDocument } from '../../../shared/contract/schemas/campaign-template.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import { comparisonForm } from '../../../shared/values/identity.ts'
import { missing, pathId, reaches } from '../../api/scope.ts'
import { refuseProblems, mapDuplicateKey } from '../../api/validation.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { changedContents, newContentsIn } from './contents.ts'
import { changedDispatch } from './delivery.ts'
import type { TemplateChange, TemplateCreation } from './schemas.ts'

/** Throws `not_found`, also for one that the caller doesn't reach. */
export async function findTemplate(
  { database }: ControlPlane,
  caller: Caller,
  text: string | undefined,
): Promise<CampaignTemplateDocument> {
  const found = await database.collections.campaignTemplates.findOne({
    _id: pathId(text, 'template'),
  })
  if (found === null || !reaches(caller, found.organization_id)) throw missing('template', text)
  return found
}

/** A request, and what is wrong with it before its values are looked at. */
export interface GivenTemplate<Given> {
  given: Given
  faults: string[]
}

/** Of a list, with nothing in it yet. */
export function blankTemplate(
  list: MailingListDocument,
  { name }: TemplateCreation,
): CampaignTemplateDocument {
  const now = clock.now()
  return {
    _id: 0,
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

/** Throws `validation_failed` with all that is wrong but the name of another template. */
export async function checkTemplate(
  deps: ControlPlane,
  stored: CampaignTemplateDocument,
  request: GivenTemplate<TemplateChange>,
): Promise<void> {
  changedBy(stored, request, await circumstancesOf(deps, stored, 0))
}

/** The template as stored. Throws as checkTemplate, or for a name that is taken. */
export async function createTemplate(
  deps: ControlPlane,
  list: MailingListDocument,
  request: GivenTemplate<TemplateCreation>,
): Promise<CampaignTemplateDocument> {
  const { collections } = deps.database
  const { given } = request
  const blank = {
    ...blankTemplate(list, given),
    _id: await nextIds(collections, 'campaign_template'),
  }
  const document = changedBy(blank, request, await circumstancesOf(deps, blank, newContentsIn(given)))
  await mapDuplicateKey(taken(document.name), () => collections.campaignTemplates.insertOne(document))
  return document
}

/**
 * The change is made of the document that was read, and written only over that one: where another change came between,
 * it is made anew of what that one left. Each time somebody's change has succeeded, so this comes to an end. Throws
 * `not_found` when it has gone meanwhile, and as createTemplate.
 */
export async function changeTemplate(
  deps: ControlPlane,
  found: CampaignTemplateDocument,
  request: GivenTemplate<TemplateChange>,
): Promise<CampaignTemplateDocument> {
  const { campaignTemplates } = deps.database.collections
  const circumstances = await circumstancesOf(deps, found, newContentsIn(request.given))
  let current = found
  for (;;) {
    const { _id, ...fields } = changedBy(current, request, circumstances)
    const { matchedCount } = await mapDuplicateKey(taken(fields.name), () =>
      campaignTemplates.updateOne({ _id, revision: current.revision }, { $set: fields }),
    )
    if (matchedCount === 1) return { _id, ...fields }
    const again = await campaignTemplates.findOne({ _id })
    if (again === null) throw missing('template', _id)
    current = again
  }
}

/** What a change depends on besides the document and the request. */
interface Circumstances {
  now: Date
  zoneName: string
  isRemoteList: boolean
  firstContentId: number
}

async function circumstancesOf(
  { database }: ControlPlane,
  { organization_id, mailing_list_id }: CampaignTemplateDocument,
  newContents: number,
): Promise<Circumstances> {
  const { collections } = database
  const [organization, list, firstContentId] = await Promise.all([
    collections.organizations.findOne({ _id: organization_id }),
    collections.mailingLists.findOne({ _id: mailing_list_id }),
    newContents === 0 ? 0 : nextIds(collections, 'campaign_content', newContents),
  ])
  return {
    now: clock.now(),
    zoneName: organization?.time_zone_name ?? 'UTC',
    isRemoteList: list?.is_remote_list === true,
    firstContentId,
  }
}

/** The whole document as the request leaves it. Throws what is wrong with the request. */
function changedBy(
  stored: CampaignTemplateDocument,
  { given, faults }: GivenTemplate<TemplateChange>,
  { now, zoneName, isRemoteList, firstContentId }: Circumstances,
): CampaignTemplateDocument {
  const { contents, faults: contentFaults } = changedContents(stored.contents, given, firstContentId)
  const { dispatch, faults: dispatchFaults } = changedDispatch(
    stored.dispatch,
    given.dispatch_attributes,
    zoneName,
  )
  refuseProblems([...faults, ...segmentFaults(given, isRemoteList), ...contentFaults, ...dispatchFaults])
  const name = given.name ?? stored.name
  return {
    ...stored,
    name,
    name_key: comparisonForm(name),
    ...segmentOf(stored, given),
    custom_dynamic_template_id:
      given.custom_dynamic_template_id === undefined
        ? stored.custom_dynamic_template_id
        : given.custom_dynamic_template_id,
    contents,
    dispatch,
    revision: stored.revision + 1,
    updated_at: now,
  }
}

type Segment = Pick<CampaignTemplateDocument, 'segmentation_criteria_id' | 'segmentation_criteria_remote_sql'>

function segmentFaults(given: TemplateChange, isRemoteList: boolean): string[] {
  const faults: string[] = []
  const sql = given.segmentation_criteria_remote_sql ?? null
  if (sql !== null && !isRemoteList)
    faults.push('segmentation_criteria_remote_sql is possible only on Remote Lists')
  if (sql !== null && (given.segmentation_criteria_id ?? null) !== null)
    faults.push(
      'segmentation_criteria_id and segmentation_criteria_remote_sql say the same: only one of them may be given',
    )
  return faults
}

/** There is one segment or none: the one that is given replaces the other kind. */
function segmentOf(stored: Segment, given: TemplateChange): Segment {
  const { segmentation_criteria_id: id, segmentation_criteria_remote_sql: sql } = given
  if (id !== undefined && id !== null)
    return { segmentation_criteria_id: id, segmentation_criteria_remote_sql: null }
  if (sql !== undefined && sql !== null)
    return { segmentation_criteria_id: null, segmentation_criteria_remote_sql: sql }
  return {
    segmentation_criteria_id: id === null ? null : stored.segmentation_criteria_id,
    segmentation_criteria_remote_sql: sql === null ? null : stored.segmentation_criteria_remote_sql,
  }
}

const taken = (name: string): string =>
  `name ${JSON.stringify(name)} is taken by another template of the list`
