import type { SubscriberStatus } from '../contract/schemas/subscriber.ts'

/**
 * The effects of a status on a subscriber: the one place of these rules, for imports, requests, unsubscriptions, delivery
 * events and deactivations.
 */
interface SubscriberTransition {
  /**
   * `begins`: remove_time is set. `continues`: the subscriber had left before, and remove_time is changed only by a
   * given one. `ends`: remove_time and remove_ip are removed. `none`: it is active and stays so.
   */
  removal: 'begins' | 'continues' | 'ends' | 'none'
  /** One more active subscriber, which the organization's subscriber limit must allow. */
  needsQuota: boolean
  /** Counted in `reactivations`, so that reactions of its earlier subscription aren't sent. */
  isReactivation: boolean
  /** Reactions that are queued for it are dropped. */
  dropsReactions: boolean
}

const isNew: Readonly<Record<'active' | 'left', SubscriberTransition>> = {
  active: { removal: 'none', needsQuota: true, isReactivation: false, dropsReactions: false },
  left: { removal: 'begins', needsQuota: false, isReactivation: false, dropsReactions: false },
}
const wasActive: typeof isNew = {
  active: { removal: 'none', needsQuota: false, isReactivation: false, dropsReactions: false },
  left: { removal: 'begins', needsQuota: false, isReactivation: false, dropsReactions: true },
}
const hadLeft: typeof isNew = {
  active: { removal: 'ends', needsQuota: true, isReactivation: true, dropsReactions: false },
  left: { removal: 'continues', needsQuota: false, isReactivation: false, dropsReactions: false },
}

/** `from` is null for a new subscriber. Allocates nothing, as imports ask for each row. */
export function subscriberTransition(
  from: SubscriberStatus | null,
  to: SubscriberStatus,
): SubscriberTransition {
  const before = from === null ? isNew : from === 'active' ? wasActive : hadLeft
  return to === 'active' ? before.active : before.left
}
