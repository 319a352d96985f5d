import type { Caller } from '../../../shared/store/api-keys.ts'
import { nextIds } from '../../../shared/runtime/database.ts'
import type { SubscriberDocument } from '../../../shared/contract/schemas/subscriber.ts'
import { insertTogether } from '../../store/subscribers-together.ts'
import { mapDuplicateKey } from '../../api/validation.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { planReactions } from './autoresponders.ts'
import { requestConfirmation } from './confirmation.ts'
import { findSubscriberList } from './list-context.ts'
import { newSubscriber } from './new-subscriber.ts'
import { retryOnListChange, refuseWrite, takenIdentity } from './outcomes.ts'
import type { SubscriberCreation } from './schemas.ts'
import { toView } from './view.ts'

/**
 * Adds a subscriber, or asks it to confirm first. Resolves to its view, or to null when it was asked. Throws `not_found`
 * (list, confirmation form), `validation_failed` (values, an identity that is taken, a subscriber limit), and what
 * `retryOnListChange` throws.
 */
export async function createSubscriber(
  deps: ControlPlane,
  caller: Caller,
  listText: string | undefined,
  body: () => SubscriberCreation,
): Promise<ReturnType<typeof toView> | null> {
  return retryOnListChange(async () => {
    const context = await findSubscriberList(deps, caller, listText)
    const given = body()
    if (given.confirmation_form_id !== undefined) {
      await requestConfirmation(deps, context, given, given.confirmation_form_id)
      return { done: null }
    }
    const { list } = context
    const planned = newSubscriber(given, context)
    const [id, reactions] = await Promise.all([
      nextIds(deps.database.collections, 'subscriber'),
      planned.status === 'active' ? planReactions(deps, context, given) : undefined,
    ])
    const document: SubscriberDocument = { ...planned, id }
    const outcome = await mapDuplicateKey(takenIdentity, () =>
      insertTogether(deps.database, list.organization_id, document, {
        listRevision: list.revision,
        ...(reactions === undefined ? {} : { reactions }),
      }),
    )
    if (outcome === 'list_changed') return 'again'
    refuseWrite(outcome, document.email)
    return { done: toView(document, context) }
  })
}
