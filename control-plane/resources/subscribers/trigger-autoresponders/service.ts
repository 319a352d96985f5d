import type { z } from 'zod'
import type { Caller } from '../../../../shared/store/api-keys.ts'
import { RequestError } from '../../../api/request-error.ts'
import type { SubscriberDocument } from '../../../../shared/contract/schemas/subscriber.ts'
import { refuseUnless } from '../../../api/authorization.ts'
import { permission } from '../../../api/endpoint.ts'
import { missing } from '../../../api/scope.ts'
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
import { subscriberCreation } from '../schemas.ts'
import {
  findSubscriberList,
  refuseUnlessOne,
  requireReference,
  listKeepsChanging,
  maxListReads,
  writeRefusal,
  type SubscriberList,
} from '../service.ts'
import { planChange, readUpdate } from '../update/service.ts'
import { toView } from '../view.ts'
import { checkTriggering, type CheckedTriggering } from './check-body.ts'
import { findNamed, findOnSubscription, type Triggered } from './choice.ts'
import type { Triggering, triggeredView } from './schemas.ts'

type TriggeredView = z.infer<typeof triggeredView>

/** The permission that a creation needs, in addition to the endpoint's. */
export const needOfCreation = permission('subscriber', 'create')

/**
 * Queues a mail of each autoresponder that the body names, whatever its trigger, for one subscriber. The change or
 * creation of the subscriber and the mails are one transaction. Throws `not_found` (list, subscriber, autoresponder),
 * `multiple_records_found`, `not_authorized` for a creation without the permission, `invalid_request`,
 * `requested_too_many`, `validation_failed`, and 503 where the list keeps changing.
 */
export async function triggerAutoresponders(
  deps: ControlPlane,
  caller: Caller,
  path: { listText: string | undefined; subscriberText: string },
  { parseBody, documentAsSent }: { parseBody: () => Triggering; documentAsSent: () => unknown },
): Promise<TriggeredView> {
  const { subscriberText } = path
  for (let reads = 0; reads < maxListReads; reads += 1) {
    const context = await findSubscriberList(deps, caller, path.listText)
    const reference = requireReference(context.list, subscriberText)
    const hasEmail = typeof reference === 'string' || 'emailKey' in reference
    let checked: CheckedTriggering
    try {
      checked = checkTriggering(parseBody(), context)
    } catch (error) {
      // A missing subscriber is reported before a faulty body, unless the body wants it created.
      if (!hasEmail || !wantsCreation(documentAsSent()))
        await refuseUnlessOne(deps, reference, subscriberText)
      throw error
    }
    const named = await findNamed(deps.database, context.list._id, checked.body)
    const request: TriggerRequest = { deps, context, reference, subscriberText, named, ...checked }
    const result = await triggerExisting(request)
    if (result === 'list_changed') continue
    if (result !== 'missing') return result
    if (!hasEmail || !checked.body.create_missing_subscriber) throw missing('subscriber', subscriberText)
    refuseUnless(caller, needOfCreation)
    const created = await createAndTrigger(request)
    if (created !== 'try_again') return created
  }
  throw listKeepsChanging()
}

interface TriggerRequest extends CheckedTriggering {
  deps: ControlPlane
  context: SubscriberList
  reference: SubscriberReference
  /** How the path names the subscriber. */
  subscriberText: string
  named: Triggered[]
}

const wantsCreation = (document: unknown): boolean =>
  isHash(document) && document['create_missing_subscriber'] === true

async function triggerExisting(request: TriggerRequest): Promise<TriggeredView | 'missing' | 'list_changed'> {
  const { deps, context, reference, subscriberText, named, body, sections } = request
  const { list } = context
  const updates = {
    active: readUpdate({ custom_fields: sections.for_active }, context),
    reactivated: readUpdate({ status: 'active', custom_fields: sections.for_reactivated }, context),
  }
  const decide = (existing: SubscriberDocument): SubscriberChange => {
    if (existing.status === 'active') return planChange(existing, updates.active)
    if (body.reactivate_subscriber) return planChange(existing, updates.reactivated)
    throw new RequestError(
      'invalid_request',
      `subscriber ${existing.id} is ${existing.status}, and autoresponders are triggered for active ones only: with reactivate_subscriber it is made active`,
    )
  }
  const result = await changeSubscriber(deps.database, {
    organizationId: list.organization_id,
    reference,
    decide,
    listRevision: list.revision,
    reactions: await planTriggered(request, named),
  })
  if (result.outcome === 'missing' || result.outcome === 'list_changed') return result.outcome
  if (result.outcome !== 'done') throw writeRefusal(result.outcome, subscriberText)
  const { before, after } = result
  return {
    triggered_autoresponders: viewsOf(named),
    subscriber: toView(after, context),
    subscription_result: before.status === 'active' ? 'remained_active' : 'reactivated',
  }
}

/** `try_again`: the list has changed, or another request has just added the subscriber. */
async function createAndTrigger(request: TriggerRequest): Promise<TriggeredView | 'try_again'> {
  const { deps, context, reference, subscriberText, named, body, sections } = request
  const { database } = deps
  const { list } = context
  const creation = subscriberCreation.parse({ email: subscriberText, custom_fields: sections.for_new })
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
  if (outcome !== 'done') throw writeRefusal(outcome, subscriberText)
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
