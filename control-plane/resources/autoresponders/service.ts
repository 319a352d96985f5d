import type { ClientSession } from 'mongodb'
import type { z } from 'zod'
import { clock } from '../../../shared/runtime/clock.ts'
import {
  autoresponderDefaults,
  autoresponderTargets,
  type AutoresponderDocument,
} from '../../../shared/contract/schemas/autoresponder.ts'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import { matchWritingImports } from '../../../shared/store/imports.ts'
import { dropAllWithoutContent, dropQueuedReactions } from '../../../shared/store/outbox.ts'
import { comparisonForm } from '../../../shared/values/identity.ts'
import type { RecordOfPath, WholePaging } from '../../api/endpoint.ts'
import { PageReader, type JsonRecords, type PageCall } from '../../api/json-page.ts'
import { localListInPath, pathId } from '../../api/scope.ts'
import { nextPageToken, pageStart } from '../../api/token-paging.ts'
import { refuseAll, withoutUndefined } from '../../api/validation.ts'
import type { ControlPlane } from '../../control-plane.ts'
import {
  deleteAutoresponderDocument,
  insertAutoresponder,
  updateAutoresponder,
} from '../../store/autoresponders.ts'
import { deleteStatistics } from '../../store/delivery.ts'
import { bumpRevisions } from '../../store/mailing-lists.ts'
import { changeList } from '../list-changes.ts'
import { namesToClear } from '../outside-names.ts'
import { globMatcher } from './glob.ts'
import { isTarget, isTriggeredByImport, nameTaken, noAutoresponder } from './refusals.ts'
import { findFaults, impliedByDelay, sizeFaults, triggeredBy } from './rules.ts'
import type { AutoresponderChange, AutoresponderCreation, autoresponderQuery } from './schemas.ts'
import { requireNoCycle, requireTargets } from './targets.ts'
import { viewer } from './view.ts'

/** The list and the autoresponder that a path names. */
export const autoresponderInPath: RecordOfPath<{
  list: MailingListDocument
  autoresponder: AutoresponderDocument
}> = {
  refusals: [...localListInPath.refusals, noAutoresponder],
  async find(call) {
    const list = await localListInPath.find(call)
    const { id } = call.params
    const autoresponder = await call.deps.database.collections.autoresponders.findOne({
      _id: pathId(id, noAutoresponder),
      mailing_list_id: list._id,
    })
    if (autoresponder === null) throw noAutoresponder(id)
    return { list, autoresponder }
  },
}

/** The list's autoresponders, by id; with a glob, only those whose name matches it. */
export async function listAutoresponders(
  call: PageCall,
  list: MailingListDocument,
  { name: glob, minimal, page_token }: z.infer<typeof autoresponderQuery>,
): Promise<{ data: JsonRecords; paging: WholePaging }> {
  const { deps } = call
  const isMinimal = minimal === 'true' || minimal === '1'
  const scope = `autoresponders of list ${list._id} ${JSON.stringify([glob ?? null, isMinimal])}`
  const after = Number(pageStart(deps, { page_token }, scope).after ?? 0)
  const ids = (await findIds(deps, list, glob)).filter((id) => id > after)
  const toView = await viewer(deps, list)
  const reader = new PageReader<AutoresponderDocument>({
    call,
    max: ids.length,
    views: (documents) =>
      documents.map((document) => (isMinimal ? { id: document._id, name: document.name } : toView(document))),
  })
  await reader.read(
    deps.database.collections.autoresponders
      .find({ _id: { $in: ids } }, isMinimal ? { projection: { name: 1 } } : { batchSize: 1 })
      .sort({ _id: 1 }),
  )
  const last = reader.last === null ? null : String(reader.last._id)
  return { data: reader.data, paging: { next_page_token: nextPageToken(deps, scope, last) } }
}

/** Ids of the list's autoresponders, in ascending order; with a glob, only of those whose name matches it. */
async function findIds(
  { database }: ControlPlane,
  list: MailingListDocument,
  glob: string | undefined,
): Promise<number[]> {
  const all = await database.collections.autoresponders
    .find({ mailing_list_id: list._id }, { projection: { name: 1 } })
    .sort({ _id: 1 })
    .toArray()
  const matches = glob === undefined ? () => true : globMatcher(glob)
  return all.filter(({ name }) => matches(name)).map(({ _id }) => _id)
}

/** The autoresponder as stored. Throws `validation_failed` with all problems, or when the name is taken. */
export async function createAutoresponder(
  deps: ControlPlane,
  list: MailingListDocument,
  creation: AutoresponderCreation,
): Promise<AutoresponderDocument> {
  const { collections } = deps.database
  const document = newAutoresponder(await deps.database.ids.allocate('autoresponder'), list, creation)
  await changeList(deps, list._id, nameTaken(document.name), async (session) => {
    await requireTargets(collections, document, session)
    await insertAutoresponder(collections, document, session)
  })
  return document
}

/** Throws `validation_failed` with all broken rules between its fields. */
function newAutoresponder(
  id: number,
  list: MailingListDocument,
  creation: AutoresponderCreation,
): AutoresponderDocument {
  const now = clock.now()
  const base: AutoresponderDocument = {
    ...autoresponderDefaults,
    _id: id,
    organization_id: list.organization_id,
    mailing_list_id: list._id,
    name: creation.name,
    name_key: '',
    trigger: creation.trigger,
    created_at: now,
  }
  const document = applyChange(base, creation, now)
  refuseAll(findFaults(document))
  return document
}

/** Throws as newAutoresponder. */
function changedAutoresponder(
  current: AutoresponderDocument,
  change: AutoresponderChange,
): AutoresponderDocument {
  const document = applyChange(current, change, clock.now())
  refuseAll([...findFaults(document), ...sizeFaults(document, current)])
  return document
}

/** The autoresponder as stored. Throws `not_found` when it was deleted meanwhile, and as createAutoresponder. */
export async function changeAutoresponder(
  deps: ControlPlane,
  list: MailingListDocument,
  id: number,
  change: AutoresponderChange,
): Promise<AutoresponderDocument> {
  const { collections } = deps.database
  if (change.content_html !== undefined || change.content_text !== undefined)
    await dropAllWithoutContent(deps.database, id)
  return changeList(deps, list._id, nameTaken(change.name ?? ''), async (session) => {
    const current = await collections.autoresponders.findOne(
      { _id: id, mailing_list_id: list._id },
      { session },
    )
    if (current === null) throw noAutoresponder(id)
    const document = changedAutoresponder(current, change)
    await requireTargets(collections, document, session)
    if (triggeredBy(document)?.id !== triggeredBy(current)?.id) {
      const lists = await requireNoCycle(collections, document, session)
      // changeList has raised the revision of the autoresponder's own list.
      lists.delete(list._id)
      if (lists.size > 0) await bumpRevisions(collections, [...lists], session)
    }
    await updateAutoresponder(collections, document, session)
    return document
  })
}

/**
 * Deletes it with its statistics, and drops its queued reactions; those that a sender has taken stay with the sender. Throws
 * `validation_failed` while another autoresponder or an unfinished import names it.
 */
export async function deleteAutoresponder(
  deps: ControlPlane,
  list: MailingListDocument,
  { _id: id, name }: AutoresponderDocument,
): Promise<void> {
  const { collections } = deps.database
  await changeList(deps, list._id, nameTaken(name), async (session) => {
    await requireUnused(collections, { id, list }, session)
    if (!(await deleteAutoresponderDocument(collections, id, session))) throw noAutoresponder(id)
    await deleteStatistics(collections, id, session)
  })
  // Nothing hands out a reaction without its autoresponder, so a process that dies here leaves none to be sent.
  await dropQueuedReactions(collections, id)
}

async function requireUnused(
  { autoresponders, imports }: Collections,
  { id, list }: { id: number; list: MailingListDocument },
  session: ClientSession,
): Promise<void> {
  const options = { session, projection: { state: 1 } }
  const other = await autoresponders.findOne(
    { $or: autoresponderTargets.map((target) => ({ [target]: id })), _id: { $ne: id } },
    options,
  )
  if (other !== null) throw isTarget(id, other._id)
  const named = [
    'options.autoresponders.api.trigger_new.id',
    'options.autoresponders.api.trigger_updated.id',
    'plan.reactions.delays.autoresponder_id',
  ]
  // The plan of a small import is stored with its end only.
  const mayPlan = {
    plan: null,
    'options.autoresponders.subscription.trigger': true,
    $or: [{ state: 'splitting' as const }, { paused_from: 'splitting' as const }],
  }
  const writer = await imports.findOne(
    { $and: [matchWritingImports(list._id), { $or: [...named.map((path) => ({ [path]: id })), mayPlan] }] },
    options,
  )
  if (writer !== null) throw isTriggeredByImport(id, writer._id, writer.state)
}

const namesById = {
  special_sending_rule_id: ['special_sending_rule_name'],
  segmentation_criteria_id: ['segmentation_criteria_name'],
} as const

/** The whole document after the request. Fields that aren't given stay, unless a given field implies their value. */
function applyChange(
  stored: AutoresponderDocument,
  change: AutoresponderChange,
  now: Date,
): AutoresponderDocument {
  const fields = withoutUndefined(change)
  const next = { ...stored, ...fields }
  return {
    ...next,
    ...namesToClear(namesById, stored, fields),
    ...impliedByDelay(next),
    ...fields,
    name_key: comparisonForm(next.name),
    paused_at: next.paused ? (stored.paused_at ?? now) : null,
  }
}
