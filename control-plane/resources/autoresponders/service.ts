import type { ClientSession } from 'mongodb'
import { clock } from '../../../shared/clock.ts'
import { nextIds } from '../../../shared/database.ts'
import { autoresponderDefaults, type AutoresponderDocument } from '../../../shared/schemas/autoresponder.ts'
import type { MailingListDocument } from '../../../shared/schemas/mailing-list.ts'
import { ring } from '../../../shared/store/doorbell.ts'
import { comparisonForm } from '../../../shared/values/identity.ts'
import { missing, pathId } from '../../api/scope.ts'
import { refuseProblems, withoutUndefined } from '../../api/validation.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { takingTurnsOnList } from '../list-changes.ts'
import { namesToForget } from '../outside-names.ts'
import { globMatcher } from './glob.ts'
import { faultsOf, impliedByDelay, triggeredBy } from './rules.ts'
import type { AutoresponderChange, AutoresponderCreation } from './schemas.ts'
import { refuseMissingTargets, refuseRing } from './targets.ts'

/** Throws `not_found` where the list has none with that id. */
export async function findAutoresponder(
  { database }: ControlPlane,
  list: MailingListDocument,
  text: string | undefined,
): Promise<AutoresponderDocument> {
  const found = await database.collections.autoresponders.findOne({
    _id: pathId(text, 'autoresponder'),
    mailing_list_id: list._id,
  })
  if (found === null) throw missing('autoresponder', text)
  return found
}

/** The list's autoresponders, by id; only those whose name the glob matches, where there is one. */
export async function listAutoresponders(
  deps: ControlPlane,
  list: MailingListDocument,
  glob: string | undefined,
): Promise<AutoresponderDocument[]> {
  const named = await autoresponderNames(deps, list, glob)
  return deps.database.collections.autoresponders
    .find({ _id: { $in: named.map(({ id }) => id) } })
    .sort({ _id: 1 })
    .toArray()
}

/** Ids and names of the list's autoresponders, by id; only those whose name the glob matches, where there is one. */
export async function autoresponderNames(
  { database }: ControlPlane,
  list: MailingListDocument,
  glob: string | undefined,
): Promise<{ id: number; name: string }[]> {
  const all = await database.collections.autoresponders
    .find({ mailing_list_id: list._id }, { projection: { name: 1 } })
    .sort({ _id: 1 })
    .toArray()
  const matches = glob === undefined ? () => true : globMatcher(glob)
  return all.filter(({ name }) => matches(name)).map(({ _id, name }) => ({ id: _id, name }))
}

/** The autoresponder as stored. Throws `validation_failed` with all that is wrong, or for a name that is taken. */
export async function createAutoresponder(
  deps: ControlPlane,
  list: MailingListDocument,
  given: AutoresponderCreation,
): Promise<AutoresponderDocument> {
  const { collections } = deps.database
  const now = clock.now()
  const unnamed: AutoresponderDocument = {
    ...autoresponderDefaults,
    _id: await nextIds(collections, 'autoresponder'),
    organization_id: list.organization_id,
    mailing_list_id: list._id,
    name: given.name,
    name_key: '',
    trigger: given.trigger,
    created_at: now,
  }
  const document = changedBy(unnamed, given, now)
  refuseProblems(faultsOf(document))
  await takingTurnsOnList(deps, list._id, taken(document.name), async (session) => {
    await refuseMissingTargets(collections, document, session)
    await collections.autoresponders.insertOne(document, { session })
  })
  return document
}

/** The autoresponder as stored then. Throws `not_found` when it has gone meanwhile, and as createAutoresponder. */
export async function changeAutoresponder(
  deps: ControlPlane,
  list: MailingListDocument,
  id: number,
  given: AutoresponderChange,
): Promise<AutoresponderDocument> {
  const { collections } = deps.database
  const now = clock.now()
  const changed = await takingTurnsOnList(deps, list._id, taken(given.name), async (session) => {
    const current = await collections.autoresponders.findOne(
      { _id: id, mailing_list_id: list._id },
      { session },
    )
    if (current === null) throw missing('autoresponder', id)
    const document = changedBy(current, given, now)
    refuseProblems(faultsOf(document))
    await refuseMissingTargets(collections, document, session)
    if (triggeredBy(document)?.id !== triggeredBy(current)?.id)
      await raiseRevisions(deps, await refuseRing(collections, document, session), list, session)
    const { _id, ...fields } = document
    await collections.autoresponders.updateOne({ _id }, { $set: fields }, { session })
    return document
  })
  if (given.paused === false) await ring(collections, 'an autoresponder goes on')
  return changed
}

async function raiseRevisions(
  { database }: ControlPlane,
  listIds: Set<number>,
  { _id: raisedAlready }: MailingListDocument,
  session: ClientSession,
): Promise<void> {
  const others = [...listIds].filter((id) => id !== raisedAlready)
  if (others.length === 0) return
  await database.collections.mailingLists.updateMany(
    { _id: { $in: others } },
    { $inc: { revision: 1 } },
    { session },
  )
}

const taken = (name: string | undefined): string =>
  `name ${JSON.stringify(name)} is taken by another autoresponder of the list`

const namesById = {
  special_sending_rule_id: ['special_sending_rule_name'],
  segmentation_criteria_id: ['segmentation_criteria_name'],
} as const

/** The whole document as the request leaves it: what isn't given stays, but for what goes with something else. */
function changedBy(
  stored: AutoresponderDocument,
  given: AutoresponderChange,
  now: Date,
): AutoresponderDocument {
  const asGiven = withoutUndefined(given) as Partial<AutoresponderDocument>
  const next = { ...stored, ...asGiven }
  return {
    ...next,
    ...(namesToForget(namesById, stored, asGiven) as Partial<AutoresponderDocument>),
    ...impliedByDelay(next),
    ...asGiven,
    name_key: comparisonForm(next.name),
    paused_at: next.paused ? (stored.paused_at ?? now) : null,
  }
}
