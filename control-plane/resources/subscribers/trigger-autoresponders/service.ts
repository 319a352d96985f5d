import type { z } from 'zod'
import type { Caller } from '../../../../shared/store/api-keys.ts'
import { refuseUnless } from '../../../api/authorization.ts'
import type { Call, RecordOfPath } from '../../../api/endpoint.ts'
import { isHash } from '../../../api/validation.ts'
import type { ControlPlane } from '../../../control-plane.ts'
import type { RequestedReactions } from '../../../store/requested-reactions.ts'
import type { SubscriberReference } from '../../../store/subscribers.ts'
import { writeSubscriber, type SubscriberPlan } from '../../../store/write-subscriber.ts'
import { newSubscriber } from '../create/service.ts'
import { subscriberCreation } from '../schemas.ts'
import {
  checkedAgainst,
  readSubscriberPath,
  refuseUnlessOne,
  writeRefusal,
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
export async function triggerAutoresponders(
  call: Call<unknown, Triggering, NamedSubscriber>,
): Promise<TriggeredView> {
  const result = await writeSubscriber(call.deps, {
    found: await readRequest(call, call.record),
    findAgain: async () => readRequest(call, await subscriberToTrigger.find(call)),
    plan: planTriggering,
  })
  if (result.outcome !== 'done') throw writeRefusal(result.outcome, call.record.text)
  const { before, after, found } = result
  const triggered = before === null ? found.onCreation : found.named
  return {
    triggered_autoresponders: triggered.map(({ _id: id, name }) => ({ id, name })),
    subscriber: toView(after, found.context),
    subscription_result:
      before === null ? 'created' : before.status === 'active' ? 'remained_active' : 'reactivated',
  }
}

interface TriggerRequest extends NamedSubscriber, CheckedTriggering {
  deps: ControlPlane
  caller: Caller
  mayCreate: boolean
  /** The autoresponders that the body names, by id. */
  named: Triggered[]
  /** The same, and those that a subscription triggers where the subscriber is created. */
  onCreation: Triggered[]
}

/** The request, read against its list. */
async function readRequest(
  { deps, caller, body }: Call<unknown, Triggering, NamedSubscriber>,
  subscriber: NamedSubscriber,
): Promise<TriggerRequest> {
  const { context, reference } = subscriber
  const checked = checkTriggering(body, context)
  const mayCreate = body.create_missing_subscriber && hasEmail(reference)
  const [named, onSubscription] = await Promise.all([
    findNamed(deps.database, context.list._id, body),
    mayCreate && !body.skip_subscription_autoresponders ? findOnSubscription(deps, context.list._id) : [],
  ])
  const byId = new Map(
    [...named, ...onSubscription].map((autoresponder) => [autoresponder._id, autoresponder]),
  )
  const onCreation = [...byId.values()].sort((a, b) => a._id - b._id)
  return { deps, caller, ...subscriber, ...checked, mayCreate, named, onCreation }
}

async function planTriggering(request: TriggerRequest): Promise<SubscriberPlan> {
  const { deps, caller, context, reference, text, body, sections, mayCreate, named, onCreation } = request
  const { ids } = deps.database
  const [firstId, subscriberId] = await Promise.all([
    ids.allocate('reaction', onCreation.length),
    mayCreate ? ids.allocate('subscriber') : 0,
  ])
  const reactions = (autoresponders: Triggered[]): RequestedReactions => ({
    ...request.replacements,
    autoresponders,
    zone: context.zone,
    firstId,
    excludeReacted: false,
  })
  const updates = {
    active: readUpdate({ custom_fields: sections.for_active }, context),
    reactivated: readUpdate({ status: 'active', custom_fields: sections.for_reactivated }, context),
  }
  const plan: SubscriberPlan = {
    ...checkedAgainst(context),
    change: {
      reference,
      decide(existing) {
        if (existing.status !== 'active' && !body.reactivate_subscriber)
          throw notActive(existing.id, existing.status)
        const update = existing.status === 'active' ? updates.active : updates.reactivated
        return { change: planChange(existing, update), reactions: reactions(named) }
      },
    },
  }
  if (!mayCreate) return plan
  return {
    ...plan,
    create() {
      refuseUnless(caller, needOfCreation)
      const creation = subscriberCreation.parse({ email: text, custom_fields: sections.for_new })
      return {
        subscriber: { ...newSubscriber(creation, context), id: subscriberId },
        reactions: reactions(onCreation),
      }
    },
  }
}
