import type { FieldValue } from '../../shared/contract/schemas/custom-field.ts'
import type { SubscriberDocument } from '../../shared/contract/schemas/subscriber.ts'

/** What a write changes of a subscriber. */
export interface SubscriberChange {
  /** Another `_id` gives it another identity; it keeps its id, and with that its reactions. */
  set: Partial<Omit<SubscriberDocument, 'custom_fields'>>
  unset: ('subscribe_ip' | 'remove_time' | 'remove_ip' | 'confirm_time')[]
  /** Values of custom fields, by the field's id; null unsets. */
  values: ReadonlyMap<number, FieldValue | null>
}

/** The change as an update document; null when nothing changes. */
export function toUpdate({ set, unset, values }: SubscriberChange): Record<string, unknown> | null {
  const $set: Record<string, unknown> = { ...set }
  const $unset: Record<string, ''> = {}
  for (const key of unset) $unset[key] = ''
  for (const [id, value] of values) {
    if (value === null) $unset[`custom_fields.${id}`] = ''
    else $set[`custom_fields.${id}`] = value
  }
  const hasSet = Object.keys($set).length > 0
  const hasUnset = Object.keys($unset).length > 0
  if (!hasSet && !hasUnset) return null
  return { ...(hasSet ? { $set } : {}), ...(hasUnset ? { $unset } : {}) }
}

/** What a subscriber is after a change. */
export function applyChange(existing: SubscriberDocument, change: SubscriberChange): SubscriberDocument {
  const after = {
    ...existing,
    ...change.set,
    custom_fields: applyValues(existing.custom_fields, change.values),
  }
  for (const key of change.unset) Reflect.deleteProperty(after, key)
  return after
}

/** What custom fields hold after a change. */
export function applyValues(
  existing: SubscriberDocument['custom_fields'],
  values: SubscriberChange['values'],
): SubscriberDocument['custom_fields'] {
  const after = new Map(Object.entries(existing))
  for (const [id, value] of values) {
    if (value === null) after.delete(String(id))
    else after.set(String(id), value)
  }
  return Object.fromEntries(after)
}
