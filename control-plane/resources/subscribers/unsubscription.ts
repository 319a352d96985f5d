import type { Caller } from '../../../shared/store/api-keys.ts'
import { clock } from '../../../shared/runtime/clock.ts'
import { RequestError } from '../../../shared/contract/errors.ts'
import type { SubscriberDocument } from '../../../shared/contract/schemas/subscriber.ts'
import { changed, changeSubscriber, type SubscriberChange } from '../../store/subscribers.ts'
import { readUnsubscribeToken } from '../../api/signed-token.ts'
import { refuseProblems } from '../../api/validation.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { recordUnsubscription, untilNoneIsTaken } from '../delivery-events/service.ts'
import { readIp } from './given-values.ts'
import { findSubscriberList } from './list-context.ts'
import { toView } from './view.ts'

/**
 * Makes the one that a mail was sent to `unsubscribed`; who is that already stays as it is. Throws `not_found` for a token
 * that no mail has, `validation_failed` for an `ip` that is none.
 */
export async function unsubscribe(
  deps: ControlPlane,
  caller: Caller,
  given: { token: string; ip?: string | undefined },
): Promise<ReturnType<typeof toView>> {
  const unknown = new RequestError('not_found', 'there is no mail with this unsubscribe token')
  const mail = readUnsubscribeToken(deps.keyHashSecret, given.token)
  if (mail === null) throw unknown
  const context = await findSubscriberList(deps, caller, String(mail.listId)).catch((error: unknown) => {
    throw error instanceof RequestError && error.code === 'not_found' ? unknown : error
  })
  const problems: string[] = []
  const ip = readIp('ip', given.ip, problems)
  let after: SubscriberDocument | undefined
  let leaves = false
  const outcome = await untilNoneIsTaken(() =>
    changeSubscriber(
      deps.database,
      context.list.organization_id,
      { listId: mail.listId, id: mail.subscriberId },
      (existing) => {
        refuseProblems(problems)
        const changes: SubscriberChange = { set: {}, unset: [] }
        leaves = existing.status !== 'unsubscribed'
        if (leaves) {
          changes.set.status = 'unsubscribed'
          if (existing.status === 'active' || existing.remove_time === undefined)
            changes.set.remove_time = clock.now()
          if (ip !== undefined) changes.set.remove_ip = ip
        }
        after = changed(existing, changes)
        return changes
      },
      {
        alongside: async (session) => {
          if (leaves) await recordUnsubscription(deps.database, session, { ...context, ...mail })
        },
      },
    ),
  )
  if (outcome !== 'done') throw unknown
  return toView(after!, context)
}
