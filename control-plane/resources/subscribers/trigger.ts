import type { z } from 'zod'
import type { Caller } from '../../../shared/store/api-keys.ts'
import { clock } from '../../../shared/runtime/clock.ts'
import { isDuplicateKey, nextIds } from '../../../shared/runtime/database.ts'
import { RequestError } from '../../../shared/contract/errors.ts'
import type { SubscriberDocument } from '../../../shared/contract/schemas/subscriber.ts'
import type { RequestedReactions } from '../../store/requested-reactions.ts'
import {
  changed,
  changeSubscriber,
  filterOf,
  insertSubscriber,
  type SubscriberAddress,
  type SubscriberChange,
} from '../../store/subscribers.ts'
import { refuseUnless } from '../../api/authorization.ts'
import { permission } from '../../api/endpoint.ts'
import { missing } from '../../api/scope.ts'
import { refuseProblems, mapDuplicateKey } from '../../api/validation.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { parseBodyAfterLookup, changeOf, refuseUnlessOne } from './change.ts'
import { addressOf } from './find.ts'
import { readGiven } from './given-values.ts'
import { findSubscriberList, type SubscriberList } from './list-context.ts'
import { newSubscriber } from './new-subscriber.ts'
import { retryOnListChange, refuseWrite, takenIdentity, takenProblem } from './outcomes.ts'
import { readReplacements, type Replacements } from './replacements.ts'
import { subscriberCreation } from './schemas.ts'
import { chooseAutoresponders, onSubscriptionOf, type Chosen } from './trigger-choice.ts'
import { readSections, type FieldSections } from './trigger-fields.ts'
import type { Triggering, triggeredView } from './trigger-schemas.ts'
import { toView } from './view.ts'

type Triggered = z.infer<typeof triggeredView>

/** Beside what the call itself needs. */
export const needOfCreation = permission('subscriber', 'create')

/**
 * Queues a mail of each autoresponder that is named or has the id, for one subscriber, whatever its trigger. The
 * subscriber's change, or its creation, and the mails come about together or not at all. Throws `not_found` (list,
 * subscriber, autoresponder), `multiple_records_found`, `not_authorized` for a creation that the caller has no right to,
 * `invalid_request`, `requested_too_many`, `validation_failed`, and what `retryOnListChange` throws.
 */
export async function triggerAutoresponders(
  deps: ControlPlane,
  caller: Caller,
  path: { listText: string | undefined; subscriberText: string },
  { body, documentAsSent }: { body: () => Triggering; documentAsSent: () => unknown },
): Promise<Triggered> {
  return retryOnListChange(async () => {
    const context = await findSubscriberList(deps, caller, path.listText)
    const address = addressOf(context.list, path.subscriberText)
    if (address === null) throw missing('subscriber', path.subscriberText)
    const mayCreate = typeof address === 'string' || 'emailKey' in address
    const read = () => readTriggering(body(), context)
    const asked = await parseBodyAfterLookup(read, async () => {
      if (!mayCreate || !asksToCreate(documentAsSent()))
        await refuseUnlessOne(deps, address, path.subscriberText)
    })
    const chosen = await chooseAutoresponders(deps.database, context.list._id, asked.given)
    const call: TriggerCall = { deps, context, address, shown: path.subscriberText, chosen, ...asked }
    const result = await triggerExisting(call)
    if (result !== 'missing') return result
    if (!mayCreate || !asked.given.create_missing_subscriber) throw missing('subscriber', path.subscriberText)
    refuseUnless(caller, needOfCreation)
    return createAndTrigger(call)
  })
}

/** Throws what is wrong with a call, as far as it doesn't depend on the subscriber and the autoresponders. */
export function readTriggering(
  given: Triggering,
  context: SubscriberList,
): Pick<TriggerCall, 'given' | 'replacements' | 'sections'> {
  const problems: string[] = []
  const replacements = readReplacements(given, problems)
  refuseUnlessEither(given)
  const sections = readSections(given.custom_fields ?? {}, { context, problems })
  refuseProblems(problems)
  return { given, replacements, sections }
}

interface TriggerCall {
  deps: ControlPlane
  context: SubscriberList
  address: SubscriberAddress
  /** What the path names it by. */
  shown: string
  given: Triggering
  replacements: Replacements
  sections: FieldSections
  chosen: Chosen[]
}

type Attempt = { done: Triggered } | 'again'

/** An empty array is none: nobody asks for nothing on purpose. */
function refuseUnlessEither({ autoresponder_names: names = [], autoresponder_ids: ids = [] }: Triggering) {
  if (names.length > 0 === ids.length > 0)
    throw new RequestError(
      'invalid_request',
      'exactly one of autoresponder_names and autoresponder_ids must be given, with one entry at least',
    )
}

const asksToCreate = (document: unknown): boolean =>
  (document as { create_missing_subscriber?: unknown } | null | undefined)?.create_missing_subscriber === true

async function triggerExisting(call: TriggerCall): Promise<Attempt | 'missing'> {
  const { deps, context, address, shown, given, sections, chosen } = call
  const { list } = context
  const values = {
    active: readGiven({ custom_fields: sections.for_active }, { context, problems: [] }),
    reactivated: readGiven({ custom_fields: sections.for_reactivated }, { context, problems: [] }),
  }
  let after: SubscriberDocument | undefined
  let wasActive = true
  const change = (existing: SubscriberDocument): SubscriberChange => {
    wasActive = existing.status === 'active'
    if (!wasActive && !given.reactivate_subscriber)
      throw new RequestError(
        'invalid_request',
        `subscriber ${existing.id} is ${existing.status}, and autoresponders are triggered for active ones only: with reactivate_subscriber it is made active`,
      )
    const changes = changeOf({
      existing,
      given: wasActive ? {} : { status: 'active' },
      values: wasActive ? values.active : values.reactivated,
      context,
      now: clock.now(),
      problems: [],
    })
    after = changed(existing, changes)
    return changes
  }
  const options = { listRevision: list.revision, reactions: await reactionsOf(call, chosen) }
  const outcome = await mapDuplicateKey(takenIdentity, () =>
    changeSubscriber(deps.database, list.organization_id, address, change, options),
  )
  if (outcome === 'list_changed') return 'again'
  if (outcome === 'missing') return 'missing'
  refuseWrite(outcome, shown)
  const result = wasActive ? 'remained_active' : 'reactivated'
  return { done: viewOf(chosen, toView(after!, context), result) }
}

/** Of two calls for one missing subscriber, the one that comes second finds it there and begins anew. */
async function createAndTrigger(call: TriggerCall): Promise<Attempt> {
  const { deps, context, address, shown, given, sections, chosen } = call
  const { list } = context
  const creation = subscriberCreation.parse({ email: shown, custom_fields: sections.for_new })
  const planned = newSubscriber(creation, context)
  const answering = given.skip_subscription_autoresponders
    ? chosen
    : [...chosen, ...(await onSubscriptionOf(deps.database, list._id))]
  const all = [
    ...new Map(answering.map((autoresponder) => [autoresponder._id, autoresponder])).values(),
  ].sort((a, b) => a._id - b._id)
  const [id, reactions] = await Promise.all([
    nextIds(deps.database.collections, 'subscriber'),
    reactionsOf(call, all),
  ])
  const document: SubscriberDocument = { ...planned, id }
  try {
    const options = { listRevision: list.revision, reactions }
    const outcome = await insertSubscriber(deps.database, list.organization_id, document, options)
    if (outcome === 'list_changed') return 'again'
    refuseWrite(outcome, shown)
  } catch (error) {
    if (!isDuplicateKey(error)) throw error
    // Where the email isn't the identity, somebody with another one may have it.
    const isThere = await deps.database.collections.subscribers.findOne(filterOf(address), {
      projection: { _id: 1 },
    })
    if (isThere === null && context.primaryKey !== null) throw takenProblem()
    return 'again'
  }
  return { done: viewOf(all, toView(document, context), 'created') }
}

async function reactionsOf(
  { deps: { database }, context: { zone }, replacements }: TriggerCall,
  autoresponders: Chosen[],
): Promise<RequestedReactions> {
  return {
    autoresponders,
    zone,
    firstId: await nextIds(database.collections, 'reaction', autoresponders.length),
    excludeReacted: false,
    ...replacements,
  }
}

const viewOf = (
  chosen: Chosen[],
  subscriber: Triggered['subscriber'],
  result: Triggered['subscription_result'],
): Triggered => ({
  triggered_autoresponders: chosen.map(({ _id: id, name }) => ({ id, name })),
  subscriber,
  subscription_result: result,
})
