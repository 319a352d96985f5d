import type { FieldDefinition, FieldValue } from '../contract/schemas/custom-field.ts'
import type {
  BuiltInColumn,
  ImportOptions,
  ImportPlan,
  RowFault,
  RowResult,
} from '../contract/schemas/import.ts'
import type { EmailFormat, SubscriberDocument, SubscriberStatus } from '../contract/schemas/subscriber.ts'
import { emailIdentity } from '../values/email.ts'
import { fieldReader, type CellValue } from '../values/field-value.ts'
import type { TextBytes } from '../values/text-bytes.ts'
import { faultReasons } from './row-fault.ts'
import { shorten, type Row } from './row-reader.ts'
import { subscriberTransition } from '../values/subscriber-transition.ts'

/**
 * What an import does with a good row. It depends only on the import's plan, options and start, the row, its time and
 * the existing subscriber, so that dry runs, inspections and retries of a batch decide the same.
 */
export type Decision =
  | { result: 'added'; subscriber: NewSubscriber }
  | { result: 'updated'; update: SubscriberUpdate; from: SubscriberStatus; to: SubscriberStatus }
  | { result: Exclude<RowResult, 'added' | 'updated' | 'failed'> }
  | { result: 'failed'; reason: string; fault: RowFault }

/**
 * A subscriber to add. Missing values are null, so that all objects have one shape: thousands are made per second, and
 * V8 deoptimizes code that meets many shapes.
 */
export interface NewSubscriber {
  id: number
  email: TextBytes | string
  /** Comparison form of the email; null where the identity is it. */
  emailKey: string | null
  status: SubscriberStatus
  /** Times are milliseconds since 1970. */
  createdAt: number
  subscribeTime: number
  subscribeIp: string | null
  removeTime: number | null
  removeIp: string | null
  format: EmailFormat | null
  confirmed: boolean | null
  confirmTime: number | null
  /** In the order of the plan's fields. */
  values: (CellValue | null)[]
}

/** Stands in `values` for a value that the update removes. */
export const cleared = Symbol('cleared')

/** Changes of an existing subscriber, in one shape for the same reason. Null leaves a value as it is. */
export interface SubscriberUpdate {
  email: TextBytes | string | null
  emailKey: string | null
  status: SubscriberStatus | null
  subscribeTime: number | null
  subscribeIp: string | null
  removeTime: number | null
  removeIp: string | null
  /** The subscriber becomes active again: time and address of the removal are unset. */
  forgetsRemoval: boolean
  /** The subscriber is no longer confirmed: the time of the confirmation is unset. */
  forgetsConfirmation: boolean
  reactivations: number | null
  format: EmailFormat | null
  confirmed: boolean | null
  confirmTime: number | null
  /** In the order of the plan's fields. */
  values: (CellValue | typeof cleared | null)[]
}

/**
 * The fields of an existing subscriber that a decision reads. Without overwriting only `_id` is read, and custom fields
 * only when the decision depends on them.
 */
export type ExistingSubscriber = Pick<
  SubscriberDocument,
  '_id' | 'id' | 'status' | 'confirmed' | 'custom_fields' | 'reactivations'
>

interface RowContext {
  plan: ImportPlan
  options: ImportOptions
  mappedFieldIds: number[]
  /** `subscribe_time` of new subscribers when the file has none. */
  startedAt: Date
}

interface RowToDecide {
  row: Row
  /** Public id, in case the subscriber is new. */
  newId: number
  now: number
}

interface RowDecider {
  decide(row: RowToDecide, existing: ExistingSubscriber | undefined): Decision
  /** The fields of an existing subscriber that `decide` reads. */
  projection: Record<string, 1>
}

/**
 * Makes the decider of an import. `mappedFieldIds` are the plan's fields that `Row.fields` has, in that order. A row
 * that can't be imported is a decision too, and nothing is thrown.
 *
 * Imports and inspections check a row in this order; test/model states it a second time:
 * 1. Its identity is valid.
 * 2. No record before it had the identity, whatever became of that one. Among valid ones alone the file couldn't say which
 *    record counts, because rule 4 asks the database.
 * 3. All other cells are valid, also those that won't be written. Otherwise its subscriber would decide whether it fails.
 * 4. If the subscriber exists: it may be overwritten, and no required field would be cleared.
 * 5. If it is new: each required field has a value.
 * 6. The subscriber limit: a row that fails anyway isn't over it, and a higher limit wouldn't import it.
 */
export function rowDecider(context: RowContext): RowDecider {
  const { plan, options } = context
  const { overwrite_what: what } = options
  const columnOf = ({ id }: FieldDefinition) =>
    plan.columns.findIndex((column) => column?.kind === 'field' && column.field_id === id)
  // By column, as other faults of a row are; fields without one come last.
  const requiredFields = plan.fields
    .filter((field) => field.required && field.id !== plan.identity.field_id)
    .toSorted((a, b) => (columnOf(a) >>> 0) - (columnOf(b) >>> 0))
  // A blank cell is an error only when it would clear a required field that has a value now.
  const readsFields =
    options.overwrite && what.custom_fields && options.blank_cells === 'clear' ? requiredFields : []
  // With `_id` alone the server answers from the index, without reading documents.
  const readPaths = options.overwrite
    ? ['id', 'status', 'confirmed', 'reactivations', ...readsFields.map(({ id }) => `custom_fields.${id}`)]
    : ['_id']
  const projection = Object.fromEntries(readPaths.map((path) => [path, 1 as const]))
  const startedAt = context.startedAt.getTime()
  const initialValues = valuesWithoutFile(plan, options)
  const wrongDefaults = listWrongDefaults(plan, options)
  const mappedIndexes = context.mappedFieldIds.map((id) => plan.fields.findIndex((field) => field.id === id))
  const required = requiredFields.map((field) => ({ ...field, index: plan.fields.indexOf(field) }))
  const identityIndex = plan.fields.findIndex((field) => field.id === plan.identity.field_id)
  const hasColumn = (name: BuiltInColumn) =>
    plan.columns.some((column) => column?.kind === 'built_in' && column.name === name)
  const given = options.given_defaults
  const { subscriber_defaults: fallback } = options
  /** Whether a time of removal gives the status. A blank consent is as if its column were not there. */
  const isLeavingTold = !hasColumn('status') && !given.includes('status')
  /** What the request gives for existing subscribers, where no column does. */
  const forUpdates = {
    status: given.includes('status') && !hasColumn('status') ? fallback.status : null,
    confirmed: given.includes('confirmed') && !hasColumn('confirmed') ? (fallback.confirmed ?? null) : null,
    format: given.includes('format') && !hasColumn('email_format') ? (fallback.format ?? null) : null,
  }
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

  function addition({ row, newId, now }: RowToDecide): Decision {
    const values: NewSubscriber['values'] = initialValues.slice()
    for (let i = 0; i < mappedIndexes.length; i += 1) {
      const value = row.fields[i]
      if (value !== null && value !== undefined) values[mappedIndexes[i]!] = value
    }
    const wrong = wrongDefaultFailure(values)
    if (wrong !== null) return wrong
    const missing = required.find(({ index }) => values[index] === null)
    if (missing !== undefined) return requiredFailure('no_value', missing)

    const status = statusOf(row) ?? fallback.status
    const hasLeft = subscriberTransition(null, status).removal === 'begins'
    const confirmed = plan.has_confirmed ? (row.confirmed ?? fallback.confirmed ?? false) : null
    const subscriber: NewSubscriber = {
      id: newId,
      email: row.email,
      emailKey: plan.identity.kind === 'email' ? null : emailIdentity(String(row.email)),
      status,
      createdAt: now,
      subscribeTime: row.subscribe_time ?? startedAt,
      subscribeIp: row.subscribe_ip,
      removeTime: hasLeft ? (row.remove_time ?? now) : null,
      removeIp: hasLeft ? row.remove_ip : null,
      format: plan.has_format ? (row.email_format ?? fallback.format ?? 'both') : null,
      confirmed,
      confirmTime: confirmed === true ? (row.confirm_time ?? now) : null,
      values,
    }
    return { result: 'added', subscriber }
  }

  /** What the row says; a time of removal says that the subscriber left, unless something else gives the status. */
  function statusOf(row: Row): SubscriberStatus | null {
    return row.status ?? (isLeavingTold && row.remove_time !== null ? 'unsubscribed' : null)
  }

  function failure(
    kind: 'no_value' | 'not_clearable' | 'wrong_value',
    field: FieldDefinition,
    reason: string,
  ): Decision {
    const column = columnOf(field)
    const fault = { kind, column: column === -1 ? null : column, field_id: field.id }
    return { result: 'failed', reason, fault }
  }

  function requiredFailure(kind: 'no_value' | 'not_clearable', field: FieldDefinition): Decision {
    return failure(kind, field, `${field.name}: ${faultReasons[kind]}`)
  }

  /** The failure of a row that gets a default which isn't allowed; the file's values are all allowed. */
  function wrongDefaultFailure(values: readonly unknown[]): Decision | null {
    if (wrongDefaults.length === 0) return null
    const wrong = wrongDefaults.filter(({ index, value }) => values[index] === value)
    const [first] = wrong
    if (first === undefined) return null
    return failure('wrong_value', first.field, wrong.map(({ reason }) => reason).join('; '))
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
      if (missing !== undefined) return requiredFailure('not_clearable', missing)
      const wrong = wrongDefaultFailure(values)
      if (wrong !== null) return wrong
    }
    const isKeyed = plan.identity.kind !== 'email'
    const update: SubscriberUpdate = {
      email: isKeyed ? row.email : null,
      emailKey: isKeyed ? emailIdentity(String(row.email)) : null,
      status: null,
      subscribeTime: null,
      subscribeIp: null,
      removeTime: null,
      removeIp: null,
      forgetsRemoval: false,
      forgetsConfirmation: false,
      reactivations: null,
      format: what.format ? (row.email_format ?? forUpdates.format) : null,
      confirmed: null,
      confirmTime: null,
      values,
    }
    if (what.confirmed) {
      const wasConfirmed = existing.confirmed === true
      const confirmed = row.confirmed ?? forUpdates.confirmed
      update.confirmed = confirmed
      update.forgetsConfirmation = confirmed === false
      if (confirmed ?? wasConfirmed) update.confirmTime = row.confirm_time ?? (wasConfirmed ? null : now)
    }
    const from = existing.status
    const status = what.status ? (statusOf(row) ?? forUpdates.status) : null
    const to = status ?? from
    if (what.status) {
      update.status = status
      update.subscribeTime = row.subscribe_time
      update.subscribeIp = row.subscribe_ip
      const { removal, isReactivation } = subscriberTransition(from, to)
      if (removal === 'begins' || removal === 'continues') {
        update.removeTime = row.remove_time ?? (removal === 'begins' ? now : null)
        update.removeIp = row.remove_ip
      }
      update.forgetsRemoval = removal === 'ends'
      if (isReactivation) update.reactivations = (existing.reactivations ?? 0) + 1
    }
    return { result: 'updated', update, from, to }
  }
}

/**
 * The defaults of the request that their fields don't allow, as they were changed after the import was created: an
 * option was removed or a maximum lowered.
 */
const listWrongDefaults = (plan: ImportPlan, options: ImportOptions) =>
  plan.fields.flatMap((field, index) => {
    const value = plan.default_values[field.id]
    if (value === undefined) return []
    const reader = fieldReader(field, options.file_format.date_format)
    if (reader.fromJson(value) !== null) return []
    const text = shorten(Array.isArray(value) ? value.join('|') : String(value))
    return [
      { field, index, value, reason: `${field.name}: the default ${text} is not ${reader.expectation}` },
    ]
  })

/** The values of a new subscriber for which the file has none, in the order of the plan's fields. */
export const valuesWithoutFile = (plan: ImportPlan, options: ImportOptions): (FieldValue | null)[] =>
  plan.fields.map(
    (field) => plan.default_values[field.id] ?? (options.apply_custom_field_defaults ? field.default : null),
  )

/** Whether the decision makes one more subscriber active, which uses quota under the subscriber limit. */
export const needsQuota = (decision: Decision): boolean =>
  decision.result === 'added'
    ? subscriberTransition(null, decision.subscriber.status).needsQuota
    : decision.result === 'updated' && subscriberTransition(decision.from, decision.to).needsQuota
