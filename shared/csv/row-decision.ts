import type { FieldValue } from '../contract/schemas/custom-field.ts'
import type { ImportOptions, ImportPlan, RowResult } from '../contract/schemas/import.ts'
import type { EmailFormat, SubscriberDocument, SubscriberStatus } from '../contract/schemas/subscriber.ts'
import { emailIdentity } from '../values/email.ts'
import type { Row } from './row-reader.ts'

/**
 * What becomes of a good row, given the subscriber that is there already or none. Pure: the same row and subscriber
 * give the same decision, whoever asks and however often.
 */
export type Decision =
  | { result: 'added'; subscriber: NewSubscriber }
  | { result: 'updated'; update: SubscriberUpdate; from: SubscriberStatus; to: SubscriberStatus }
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

/** In place of a value: the subscriber has none from now on. */
export const cleared = Symbol('cleared')

/** What changes about an existing subscriber, of one shape as a new one is. Null is kept as it is. */
export interface SubscriberUpdate {
  email: string | null
  emailKey: string | null
  status: SubscriberStatus | null
  subscribeTime: Date | null
  subscribeIp: string | null
  removeTime: Date | null
  removeIp: string | null
  /** Active again: time and address of the removal go. */
  forgetsRemoval: boolean
  /** Not confirmed any more: the time of the confirmation goes. */
  forgetsConfirmation: boolean
  reactivations: number | null
  format: EmailFormat | null
  confirmed: boolean | null
  confirmTime: Date | null
  /** In the order of the plan's fields. */
  values: (FieldValue | typeof cleared | null)[]
}

/**
 * What a decision needs to know of an existing subscriber. Only `_id` where the import doesn't overwrite; custom fields
 * only where the decision looks at them.
 */
export type ExistingSubscriber = Pick<
  SubscriberDocument,
  '_id' | 'id' | 'status' | 'confirmed' | 'custom_fields' | 'reactivations'
>

export interface RowContext {
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

/**
 * Made once for an import. `mappedFieldIds` are the fields of `Row.fields`, in that order, and each is one of the plan's.
 * A row that can't be taken is a decision too: nothing is thrown.
 */
export function rowDecider(context: RowContext): RowDecider {
  const { plan, options } = context
  const { overwrite_what: what } = options
  const requiredFields = plan.fields.filter((field) => field.required && field.id !== plan.identity.field_id)
  // Whether clearing a cell would leave a required field empty depends on what is there now.
  const readsFields =
    options.overwrite && what.custom_fields && options.blank_cells === 'clear' ? requiredFields : []
  // Where all that counts is whether somebody is there, the server answers from the index, without the documents.
  const seenPaths = options.overwrite
    ? ['id', 'status', 'confirmed', 'reactivations', ...readsFields.map(({ id }) => `custom_fields.${id}`)]
    : ['_id']
  const projection = Object.fromEntries(seenPaths.map((path) => [path, 1 as const]))
  const initialValues = plan.fields.map((field) => plan.default_values[field.id] ?? field.default)
  const mappedIndexes = context.mappedFieldIds.map((id) => plan.fields.findIndex((field) => field.id === id))
  const requiredIndexes = requiredFields.map((field) => plan.fields.indexOf(field))
  const identityIndex = plan.fields.findIndex((field) => field.id === plan.identity.field_id)
  const keptValues = plan.fields.map((field, index) =>
    what.custom_fields && index !== identityIndex ? (plan.default_values[field.id] ?? null) : null,
  )

  return { projection, decide }

  function decide(toDecide: RowToDecide, existing: ExistingSubscriber | undefined): Decision {
    if (existing === undefined) return addition(toDecide)
    if (!options.overwrite) return { result: 'skipped_overwrite' }
    if (!options.overwrite_when_status[existing.status]) return { result: `skipped_${existing.status}` }
    return change(toDecide, existing)
  }

  function addition({ key, row, newId, now }: RowToDecide): Decision {
    const values = initialValues.slice()
    for (let i = 0; i < mappedIndexes.length; i += 1) {
      const value = row.fields[i]
      if (value !== null && value !== undefined) values[mappedIndexes[i]!] = value
    }
    const missing = requiredIndexes.find((index) => values[index] === null)
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
      removeTime: status === 'active' ? null : (row.remove_time ?? now),
      removeIp: status === 'active' ? null : row.remove_ip,
      format: plan.has_format ? (row.email_format ?? fallback.format ?? 'both') : null,
      confirmed,
      confirmTime: confirmed === true ? (row.confirm_time ?? now) : null,
      values,
    }
    return { result: 'added', subscriber }
  }

  function change({ row, now }: RowToDecide, existing: ExistingSubscriber): Decision {
    const values: SubscriberUpdate['values'] = keptValues.slice()
    if (what.custom_fields) {
      for (let i = 0; i < mappedIndexes.length; i += 1) {
        const index = mappedIndexes[i]!
        if (index === identityIndex) continue
        const value = row.fields[i]
        if (value !== null && value !== undefined) values[index] = value
        else if (options.blank_cells === 'clear' && values[index] === null) values[index] = cleared
      }
      const missing = readsFields.find(
        (field) =>
          values[plan.fields.indexOf(field)] === cleared && existing.custom_fields[field.id] !== undefined,
      )
      if (missing !== undefined)
        return {
          result: 'failed',
          reason: `${missing.name}: the cell is blank, and a required field can't be cleared`,
        }
    }
    const isKeyed = plan.identity.kind !== 'email'
    const update: SubscriberUpdate = {
      email: isKeyed ? row.email : null,
      emailKey: isKeyed ? emailIdentity(row.email) : null,
      status: null,
      subscribeTime: null,
      subscribeIp: null,
      removeTime: null,
      removeIp: null,
      forgetsRemoval: false,
      forgetsConfirmation: false,
      reactivations: null,
      format: what.format ? row.email_format : null,
      confirmed: null,
      confirmTime: null,
      values,
    }
    if (what.confirmed) {
      const wasConfirmed = existing.confirmed === true
      update.confirmed = row.confirmed
      update.forgetsConfirmation = row.confirmed === false
      if (row.confirmed ?? wasConfirmed) update.confirmTime = row.confirm_time ?? (wasConfirmed ? null : now)
    }
    const from = existing.status
    const to = what.status ? (row.status ?? from) : from
    if (what.status) {
      update.status = row.status
      update.subscribeTime = row.subscribe_time
      update.subscribeIp = row.subscribe_ip
      if (to !== 'active') {
        update.removeTime = row.remove_time ?? (from === 'active' ? now : null)
        update.removeIp = row.remove_ip
      } else if (from !== 'active') {
        update.forgetsRemoval = true
        update.reactivations = (existing.reactivations ?? 0) + 1
      }
    }
    return { result: 'updated', update, from, to }
  }
}

/** Whether it makes one more subscriber active, for whom the subscriber limit must have a place. */
export const needsQuota = (decision: Decision): boolean =>
  decision.result === 'added'
    ? decision.subscriber.status === 'active'
    : decision.result === 'updated' && decision.to === 'active' && decision.from !== 'active'
