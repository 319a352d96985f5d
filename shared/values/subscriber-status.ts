import type { SubscriberStatus } from '../contract/schemas/subscriber.ts'
import { booleanFromText } from './boolean-text.ts'

/** The statuses, each with its names in other systems' exports. */
const namesOfStatuses: Record<SubscriberStatus, readonly string[]> = {
  active: ['active', 'subscribed', 'confirmed', 'opted in', 'opt in'],
  unsubscribed: [
    ...['unsubscribed', 'opted out', 'opt out', 'not subscribed', 'non subscribed', 'never subscribed'],
    'suppressed',
  ],
  bounced: ['bounced', 'cleaned', 'hard bounce', 'hard bounced'],
  scomp: ['scomp', 'spam', 'spam complaint', 'complained'],
  deactivated: ['deactivated', 'inactive', 'disabled', 'archived'],
}
const statusByName = new Map(
  Object.entries(namesOfStatuses).flatMap(([status, names]) =>
    names.map((name) => [name, status as SubscriberStatus] as const),
  ),
)

/** `_` and `-` are blanks. */
const spaced = (text: string): string => text.replaceAll(/[\s_-]+/g, ' ')

/** The status that a trimmed cell names; null for none. */
export function statusFromText(text: string): SubscriberStatus | null {
  const name = text.toLowerCase()
  // Most names have no blanks, and rows are many.
  return statusByName.get(name) ?? statusByName.get(spaced(name)) ?? null
}

/** The status of a trimmed cell that says whether its subscriber wants mail; null when it doesn't say so. */
export function statusFromConsent(text: string): 'active' | 'unsubscribed' | null {
  const name = spaced(text.toLowerCase())
  const isYes = name === 'subscribed' || (name === 'not subscribed' ? false : booleanFromText(text))
  return isYes === null ? null : isYes ? 'active' : 'unsubscribed'
}
