import type { Caller } from '../../../../shared/store/api-keys.ts'
import { clock } from '../../../../shared/runtime/clock.ts'
import { RequestError } from '../../../api/request-error.ts'
import type { SubscriberDocument } from '../../../../shared/contract/schemas/subscriber.ts'
import { readUnsubscribeToken } from '../../../api/signed-token.ts'
import type { ControlPlane } from '../../../control-plane.ts'
import type { SubscriberChange } from '../../../store/subscriber-change.ts'
import type { SubscriberPlan } from '../../../store/write-subscriber.ts'
import { recordUnsubscription, retryOnDuplicateEvent } from '../../delivery-events/service.ts'
import { noIpOfVisitor, noMailOfToken } from '../refusals.ts'
import type { SubscriberView } from '../schemas.ts'
import { findSubscriberList } from '../service.ts'
import { toView } from '../view.ts'
import { canonicalIp } from '../../../../shared/values/ip.ts'
import { subscriberTransition } from '../../../../shared/values/subscriber-transition.ts'

/**
 * Makes the subscriber that a mail was sent to `unsubscribed`; one that is unsubscribed already stays as it is. Throws
 * `not_found` for a token that no mail has, `validation_failed` for an `ip` that is not an address.
 */
export async function unsubscribe(
  deps: ControlPlane,
  caller: Caller,
  body: { token: string; ip?: string | undefined },
): Promise<SubscriberView> {
  const { database } = deps
  const mail = readUnsubscribeToken(deps.keyHashSecret, body.token)
  if (mail === null) throw noMailOfToken()
  const context = await findSubscriberList(deps, caller, String(mail.listId)).catch((error: unknown) => {
    throw error instanceof RequestError && error.code === 'not_found' ? noMailOfToken() : error
  })
  const ip = body.ip === undefined ? undefined : canonicalIp(body.ip.trim())
  const plan: SubscriberPlan = {
    organizationId: context.list.organization_id,
    listId: mail.listId,
    change: {
      reference: { listId: mail.listId, id: mail.subscriberId },
      decide(existing) {
        if (ip === null) throw noIpOfVisitor()
        return { change: planUnsubscription(existing, ip) }
      },
    },
    async alongside(session, existing) {
      if (existing?.status !== 'unsubscribed')
        await recordUnsubscription(database, session, { ...context, ...mail })
      return undefined
    },
  }
  // A sender may report the same event at this moment. Then the second write of it is a duplicate key, and runs again.
  const result = await retryOnDuplicateEvent(() => deps.subscriberWrites.write(plan))
  if (result.outcome !== 'done') throw noMailOfToken()
  return toView(result.after, context)
}

function planUnsubscription(existing: SubscriberDocument, ip: string | undefined): SubscriberChange {
  const change: SubscriberChange = { set: {}, unset: [], values: new Map() }
  if (existing.status === 'unsubscribed') return change
  change.set.status = 'unsubscribed'
  const { removal } = subscriberTransition(existing.status, 'unsubscribed')
  if (removal === 'begins' || existing.remove_time === undefined) change.set.remove_time = clock.now()
  if (ip !== undefined) change.set.remove_ip = ip
  return change
}
