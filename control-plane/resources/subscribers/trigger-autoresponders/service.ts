import type { z } from 'zod'
import type { SubscriberDocument } from '../../../../shared/contract/schemas/subscriber.ts'
import { refuseUnless } from '../../../api/authorization.ts'
import type { Call, RecordOfPath } from '../../../api/endpoint.ts'
import { isHash } from '../../../api/validation.ts'
import type { ControlPlane } from '../../../control-plane.ts'
import type { RequestedReactions } from '../../../store/requested-reactions.ts'
import {
  referenceFilter,
  changeSubscriber,
  insertSubscriber,
  type SubscriberReference,
  type SubscriberChange,
} from '../../../store/subscribers.ts'
import { newSubscriber } from '../create/service.ts'
import { noSubscriber } from '../refusals.ts'
import { subscriberCreation } from '../schemas.ts'
import {
  readSubscriberPath,
  refuseUnlessOne,
  writeRefusal,
  writeToList,
  type NamedSubscriber,
} from '../service.ts'
import { planChange, readUpdate, subscriberInPath } from '../update/service.ts'
import { toView } from '../view.ts'
import { checkTriggering, type CheckedTriggering } from './check-body.ts'
import { findNamed, findOnSubscription, type Triggered } from './choice.ts'
import { needOfCreation, notActive } from './refusals.ts'
import type { Triggering, triggeredView } from './schemas.ts'

type TriggeredView = z.infer<typeof triggeredView>

/** The subscriber that the path names. One that the body wants created may be missing, and is not looked for. */
export const subscriberToTrigger: RecordOfPath<NamedSubscriber> = {
  refusals: subscriberInPath.refusals,
  async find(call) {
    const found = await readSubscriberPath(call)
    const { reference, text } = found
    if (!hasEmail(reference) || !wantsCreation(call.document))
      await refuseUnlessOne(call.deps, reference, text)
    return found
  },
}

const hasEmail = (reference: SubscriberReference): boolean =>
  typeof reference === 'string' || 'emailKey' in reference

const wantsCreation = (document: unknown): boolean =>
  isHash(document) && document['create_missing_subscriber'] === true

/**
 * Queues a mail of each autoresponder that the body names, whatever its trigger, for one subscriber. The change or
 * creation of the subscriber and the mails are one transaction. Throws `not_found` (subscriber, autoresponder),
 * `multiple_records_found`, `not_authorized` for a creation without the permission, `invalid_request`,
 * `requested_too_many`, `validation_failed`, and 503 where the list keeps changing.
 */
export function triggerAutoresponders(
  call: Call<unknown, Triggering, NamedSubscriber>,
): Promise<TriggeredView> {
  const { deps, caller, body } = call
  const findAgain = () => subscriberToTrigger.find(call)
  return writeToList(call.record, findAgain, async (found) => {
    const { context, reference, text } = found
    const checked = checkTriggering(body, context)
    const named = await findNamed(deps.database, context.list._id, body)
    const request: TriggerRequest = { deps, ...found, named, ...checked }
    const result = await triggerExisting(request)
    if (result !== 'missing') return result
    if (!hasEmail(reference) || !body.create_missing_subscriber) throw noSubscriber(text)
    refuseUnless(caller, needOfCreation)
    return createAndTrigger(request)
  })
}

interface TriggerRequest extends NamedSubscriber, CheckedTriggering {
  deps: ControlPlane
  named: Triggered[]
}

async function triggerExisting(request: TriggerRequest): Promise<TriggeredView | 'missing' | 'try_again'> {
  const { deps, context, reference, text, named, body, sections } = request
  const { list } = context
  const updates = {
    active: readUpdate({ custom_fields: sections.for_active }, context),
    reactivated: readUpdate({ status: 'active', custom_fields: sections.for_reactivated }, context),
  }
  const decide = (existing: SubscriberDocument): SubscriberChange => {
    if (existing.status === 'active') return planChange(existing, updates.active)
    if (body.reactivate_subscriber) return planChange(existing, updates.reactivated)
    throw notActive(existing.id, existing.status)
  }
  const result = await changeSubscriber(deps.database, {
    organizationId: list.organization_id,
    reference,
    decide,
    listRevision: list.revision,
    reactions: await planTriggered(request, named),
  })
  if (result.outcome === 'list_changed') return 'try_again'
  if (result.outcome === 'missing') return result.outcome
  if (result.outcome !== 'done') throw writeRefusal(result.outcome, text)
  const { before, after } = result
  return {
    triggered_autoresponders: viewsOf(named),
    subscriber: toView(after, context),
    subscription_result: before.status === 'active' ? 'remained_active' : 'reactivated',
  }
}

/** `try_again`: the list has changed, or another request has just added the subscriber. */
async function createAndTrigger(request: TriggerRequest): Promise<TriggeredView | 'try_again'> {
  const { deps, context, reference, text, named, body, sections } = request
  const { database } = deps
  const { list } = context
  const creation = subscriberCreation.parse({ email: text, custom_fields: sections.for_new })
  const subscriber = newSubscriber(creation, context)
  const onSubscription = body.skip_subscription_autoresponders ? [] : await findOnSubscription(deps, list._id)
  const byId = new Map(
    [...named, ...onSubscription].map((autoresponder) => [autoresponder._id, autoresponder]),
  )
  const triggered = [...byId.values()].sort((a, b) => a._id - b._id)
  const [id, reactions] = await Promise.all([
    database.ids.allocate('subscriber'),
    planTriggered(request, triggered),
  ])
  const document: SubscriberDocument = { ...subscriber, id }
  const outcome = await insertSubscriber(database, list.organization_id, document, {
    listRevision: list.revision,
    reactions,
  })
  if (outcome === 'list_changed') return 'try_again'
  if (outcome === 'identity_exists') {
    // Where the email isn't the identity, a subscriber with another email may have it.
    const added = await database.collections.subscribers.findOne(referenceFilter(reference), {
      projection: { _id: 1 },
    })
    if (added !== null || context.primaryKey === null) return 'try_again'
  }
  if (outcome !== 'done') throw writeRefusal(outcome, text)
  return {
    triggered_autoresponders: viewsOf(triggered),
    subscriber: toView(document, context),
    subscription_result: 'created',
  }
}

async function planTriggered(
  { deps: { database }, context: { zone }, replacements }: TriggerRequest,
  autoresponders: Triggered[],
): Promise<RequestedReactions> {
  return {
    autoresponders,
    zone,
    firstId: await database.ids.allocate('reaction', autoresponders.length),
    excludeReacted: false,
    ...replacements,
  }
}

const viewsOf = (autoresponders: Triggered[]): TriggeredView['triggered_autoresponders'] =>
  autoresponders.map(({ _id: id, name }) => ({ id, name }))
