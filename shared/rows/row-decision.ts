import type { FieldValue } from '../schemas/custom-field.ts'
import type { ImportOptions, ImportPlan, RowResult } from '../schemas/import.ts'
import type { EmailFormat, SubscriberDocument, SubscriberStatus } from '../schemas/subscriber.ts'
import { emailIdentity } from '../values/email.ts'
import type { Row } from './row-reader.ts'

/**
 * What becomes of a good row, given the subscriber that is there already or none. Pure: the same row and subscriber
 * give the same decision, whoever asks and however often.
 */
export type Decision =
  | { result: 'added'; subscriber: NewSubscriber }
  | {
      result: 'updated'
      set: Partial<SubscriberDocument> & Record<string, unknown>
      unset: string[]
      from: SubscriberStatus
      to: SubscriberStatus
    }
  | { result: Exclude<RowResult, 'added' | 'updated' | 'failed'> }
  | { result: 'failed'; reason: string }

/**
 * A subscriber to be added. What it has not is null, so that all are of one shape: thousands a second are made, and
 * code that meets many shapes is never optimized for long.
 */
export interface NewSubscriber {
  key: string
  id: number
  email: string
  /** Null where the key holds it. */
  emailKey: string | null
  status: SubscriberStatus
  createdAt: Date
  subscribeTime: Date
  subscribeIp: string | null
  removeTime: Date | null
  removeIp: string | null
  format: EmailFormat | null
  confirmed: boolean | null
  confirmTime: Date | null
  /** In the order of the plan's fields. */
  values: (FieldValue | null)[]
}

/** What a decision needs to know of an existing subscriber. */
export type ExistingSubscriber = Pick<
  SubscriberDocument,
  '_id' | 'id' | 'status' | 'confirmed' | 'custom_fields' | 'reactivations'
>

export interface RowContext {
  importId: number
  mailingListId: number
  plan: ImportPlan
  options: ImportOptions
  mappedFieldIds: number[]
  /** What `subscribe_time` is where the file brings none. */
  startedAt: Date
}

export interface RowToDecide {
  /** `_id` of the subscriber that the row is about. */
  key: string
  row: Row
  /** The id that a new subscriber gets. */
  newId: number
  now: Date
}

export interface RowDecider {
  decide(row: RowToDecide, existing: ExistingSubscriber | undefined): Decision
  /** The parts of an existing subscriber that `decide` looks at. */
  projection: Record<string, 1>
}

export function rowDecider(context: RowContext): RowDecider {
  const { plan, options } = context
  const { overwrite_what: what } = options
  const requiredFields = plan.fields.filter((field) => field.required && field.id !== plan.identity.field_id)
  // Whether clearing a cell would leave a required field empty depends on what is there now.
  const looksAtFields =
    options.overwrite && what.custom_fields && options.blank_cells === 'clear' ? requiredFields : []
  const projection = Object.fromEntries(
    [
      'id',
      'status',
      'confirmed',
      'reactivations',
      ...looksAtFields.map((field) => `custom_fields.${field.id}`),
    ].map((path) => [path, 1 as const]),
  )
  const defaults = Object.entries(plan.default_values).map(([id, value]) => [Number(id), value] as const)
  const initialValues = plan.fields.map((field) => plan.default_values[field.id] ?? field.default)
  const places = context.mappedFieldIds.map((id) => plan.fields.findIndex((field) => field.id === id))
  const requiredPlaces = requiredFields.map((field) => plan.fields.indexOf(field))

  return { projection, decide }

  function decide(toDecide: RowToDecide, existing: ExistingSubscriber | undefined): Decision {
    if (existing === undefined) return addition(toDecide)
    if (!options.overwrite) return { result: 'skipped_overwrite' }
    if (!options.overwrite_when_status[existing.status]) return { result: `skipped_${existing.status}` }
    return update(toDecide, existing)
  }

  function addition({ key, row, newId, now }: RowToDecide): Decision {
    const values = initialValues.slice()
    for (let i = 0; i < places.length; i += 1) {
      const value = row.fields[i]
      if (value !== null && value !== undefined) values[places[i]!] = value
    }
    const missing = requiredPlaces.find((place) => values[place] === null)
    if (missing !== undefined)
      return {
        result: 'failed',
        reason: `${plan.fields[missing]!.name}: a new subscriber needs a value, and neither the file nor a default has one`,
      }

    const { subscriber_defaults: fallback } = options
    const status = row.status ?? fallback.status
    const confirmed = plan.has_confirmed ? (row.confirmed ?? fallback.confirmed ?? false) : null
    const subscriber: NewSubscriber = {
      key,
      id: newId,
      email: row.email,
      emailKey: plan.identity.kind === 'email' ? null : emailIdentity(row.email),
      status,
      createdAt: now,
      subscribeTime: row.subscribe_time ?? context.startedAt,
      subscribeIp: row.subscribe_ip,
      removeTime: row.remove_time ?? (status === 'active' ? null : now),
      removeIp: row.remove_ip,
      format: plan.has_format ? (row.email_format ?? fallback.format ?? 'both') : null,
      confirmed,
      confirmTime: confirmed === null ? null : (row.confirm_time ?? (confirmed ? now : null)),
      values,
    }
    return { result: 'added', subscriber }
  }

  function update({ row, now }: RowToDecide, existing: ExistingSubscriber): Decision {
    const set: Partial<SubscriberDocument> & Record<string, unknown> = {}
    const unset: string[] = []
    let to = existing.status

    if (what.custom_fields) {
      for (const [id, value] of defaults)
        if (id !== plan.identity.field_id) set[`custom_fields.${id}`] = value
      for (let i = 0; i < context.mappedFieldIds.length; i += 1) {
        const id = context.mappedFieldIds[i]!
        if (id === plan.identity.field_id) continue
        const value = row.fields[i]
        const path = `custom_fields.${id}`
        if (value !== null && value !== undefined) set[path] = value
        else if (options.blank_cells === 'clear' && set[path] === undefined) unset.push(path)
      }
      const cleared = looksAtFields.find(
        (field) =>
          unset.includes(`custom_fields.${field.id}`) && existing.custom_fields[field.id] !== undefined,
      )
      if (cleared !== undefined)
        return {
          result: 'failed',
          reason: `${cleared.name}: the cell is blank, and a required field can't be cleared`,
        }
    }
    if (what.confirmed) {
      if (row.confirmed !== null) set.confirmed = row.confirmed
      if (row.confirm_time !== null) set.confirm_time = row.confirm_time
      else if (row.confirmed === true && existing.confirmed !== true) set.confirm_time = now
    }
    if (what.format && row.email_format !== null) set.format = row.email_format
    if (what.status) {
      if (row.status !== null) to = set.status = row.status
      if (row.subscribe_time !== null) set.subscribe_time = row.subscribe_time
      if (row.subscribe_ip !== null) set.subscribe_ip = row.subscribe_ip
      if (to === 'active' && existing.status !== 'active') {
        unset.push('remove_time', 'remove_ip')
        set.reactivations = (existing.reactivations ?? 0) + 1
      } else {
        if (row.remove_time !== null) set.remove_time = row.remove_time
        else if (to !== 'active' && existing.status === 'active') set.remove_time = now
        if (row.remove_ip !== null) set.remove_ip = row.remove_ip
      }
    }
    if (plan.identity.kind !== 'email') {
      set.email = row.email
      set.email_key = emailIdentity(row.email)!
    }
    return { result: 'updated', set, unset, from: existing.status, to }
  }
}

/** Whether it makes one more subscriber active, for whom the subscriber limit must have a place. */
export const takesPlace = (decision: Decision): boolean =>
  decision.result === 'added'
    ? decision.subscriber.status === 'active'
    : decision.result === 'updated' && decision.to === 'active' && decision.from !== 'active'
