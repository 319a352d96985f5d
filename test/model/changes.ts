import type { FieldDefinition, FieldValue } from '../../shared/contract/schemas/custom-field.ts'
import type { ImportOptions } from '../../shared/contract/schemas/import.ts'
import type { SubscriberStatus } from '../../shared/contract/schemas/subscriber.ts'
import { readJsonValue } from './cells.ts'
import type { RowContent } from './rows.ts'
import type { ModelledList, Moment, Subscriber } from './subscriber-table.ts'

/** The values that a row writes (decisions 2.8). */

type Values = Subscriber['values']

/** The subscriber that a row adds; null where a required field is left without a value. */
export function addedSubscriber(
  identity: string,
  row: RowContent,
  list: ModelledList,
  options: ImportOptions,
): Subscriber | null {
  const defaults = options.subscriber_defaults
  const values: Values = {}
  for (const field of list.fields) {
    // "`default_custom_fields` wherever the file brings no value ... Field defaults come after that, on added rows only."
    values[field.id] =
      row.values[field.id] ?? importDefaults(list, options)[field.id] ?? fieldDefault(field, options)
    if (field.required && values[field.id] === null) return null
  }
  const status = statusOf(row, options) ?? defaults.status
  const confirmed = row.confirmed ?? (list.hasConfirmed ? (defaults.confirmed ?? false) : false)
  return {
    identity,
    email: row.email,
    status,
    subscribeTime: row.subscribeTime ?? 'now',
    subscribeIp: row.subscribeIp ?? null,
    // "Who becomes or is made non-active gets `remove_time` now unless it is given."
    // "Who is or becomes active has no `remove_time` and `remove_ip`, also where a row or body gives them."
    removeTime: status === 'active' ? null : (row.removeTime ?? 'now'),
    removeIp: status === 'active' ? null : (row.removeIp ?? null),
    format: row.format ?? (list.hasFormat ? (defaults.format ?? 'both') : 'both'),
    confirmed,
    // "Who becomes confirmed gets `confirm_time` now unless it is given, and who is not confirmed has none."
    confirmTime: confirmed ? (row.confirmTime ?? 'now') : null,
    values,
  }
}

/**
 * "Where `remove_time` is mapped and neither `status` nor `consent` is, a row with a remove time is `unsubscribed` (unless
 * the request gives `subscriber_defaults.status`)"; a blank consent "is as if the column were not there" (2.1).
 */
function statusOf(row: RowContent, options: ImportOptions): SubscriberStatus | undefined {
  const isTold = options.column_mapping.includes('status') || isGiven('status', options)
  return row.status ?? (row.removeTime !== undefined && !isTold ? 'unsubscribed' : undefined)
}

const isGiven = (name: 'status' | 'confirmed' | 'format', options: ImportOptions): boolean =>
  options.given_defaults.includes(name)

/** "What the request gives of them on updated rows too, where ... the mapping has no such column." */
function defaultForUpdates<Name extends 'status' | 'confirmed' | 'format'>(
  name: Name,
  options: ImportOptions,
): ImportOptions['subscriber_defaults'][Name] | undefined {
  const column = name === 'format' ? 'email_format' : name
  return isGiven(name, options) && !options.column_mapping.includes(column)
    ? options.subscriber_defaults[name]
    : undefined
}

/** "False leaves fields without value where neither the file nor `default_custom_fields` brings one" (beyond 1). */
const fieldDefault = (field: FieldDefinition, options: ImportOptions): FieldValue | null =>
  options.apply_custom_field_defaults ? field.default : null

/** The required fields for whose sake a row without a fault of its own fails (2.7, 4 and 5). */
export function fieldsAtFault(
  before: Subscriber | null,
  row: RowContent,
  list: ModelledList,
  options: ImportOptions,
): FieldDefinition[] {
  const defaults = importDefaults(list, options)
  return list.fields.filter((field) => {
    const { id } = field
    if (!field.required || id === list.primaryKey?.id) return false
    if (before === null) return (row.values[id] ?? defaults[id] ?? fieldDefault(field, options)) === null
    return row.blankFields.includes(id) && defaults[id] === undefined && before.values[id] !== null
  })
}

/** The subscriber as a row leaves it; null where a required field would be cleared. */
export function updatedSubscriber(
  before: Subscriber,
  row: RowContent,
  list: ModelledList,
  options: ImportOptions,
): Subscriber | null {
  const what = options.overwrite_what
  const values = what.custom_fields ? overwrittenValues(before.values, row, list, options) : before.values
  if (values === null) return null
  return {
    ...before,
    // "An import that updates leaves the stored spelling"; beside an alternate primary key "an update writes it" (2.6).
    email: list.primaryKey === null ? before.email : row.email,
    ...(what.status ? overwrittenStatus(before, row, options) : {}),
    ...(what.confirmed
      ? overwrittenConfirmed(
          before,
          row,
          list.hasConfirmed ? defaultForUpdates('confirmed', options) : undefined,
        )
      : {}),
    ...(what.format
      ? {
          format:
            row.format ??
            (list.hasFormat ? defaultForUpdates('format', options) : undefined) ??
            before.format,
        }
      : {}),
    values,
  }
}

function overwrittenValues(
  before: Values,
  row: RowContent,
  list: ModelledList,
  options: ImportOptions,
): Values | null {
  const values = { ...before }
  for (const field of list.fields) {
    // "Leaves the key's spelling" (2.6).
    if (field.id === list.primaryKey?.id) continue
    const brought = row.values[field.id] ?? importDefaults(list, options)[field.id]
    if (brought !== undefined) values[field.id] = brought
    else if (options.blank_cells === 'clear' && row.blankFields.includes(field.id)) {
      // A required field without a value can't be cleared.
      if (field.required && values[field.id] !== null) return null
      values[field.id] = null
    }
  }
  return values
}

/** "Status, and subscribe/remove time and ip with status." */
function overwrittenStatus(before: Subscriber, row: RowContent, options: ImportOptions): Partial<Subscriber> {
  const status = statusOf(row, options) ?? defaultForUpdates('status', options) ?? before.status
  return {
    status,
    subscribeTime: row.subscribeTime ?? before.subscribeTime,
    subscribeIp: row.subscribeIp ?? before.subscribeIp,
    ...removalAfter(before, { ...row, status }),
  }
}

function removalAfter(before: Subscriber, row: RowContent): Pick<Subscriber, 'removeTime' | 'removeIp'> {
  const wasActive = before.status === 'active'
  const isActive = row.status === 'active'
  // "Who is or becomes active has no `remove_time` and `remove_ip`, also where a row or body gives them."
  if (isActive) return { removeTime: null, removeIp: null }
  // "Who becomes or is made non-active gets `remove_time` now unless it is given."
  const fallback: Moment | null = wasActive ? 'now' : before.removeTime
  return { removeTime: row.removeTime ?? fallback, removeIp: row.removeIp ?? before.removeIp }
}

function overwrittenConfirmed(
  before: Subscriber,
  row: RowContent,
  fallback: boolean | undefined,
): Partial<Subscriber> {
  const confirmed = row.confirmed ?? fallback ?? before.confirmed
  // "Who is not confirmed has none."
  if (!confirmed) return { confirmed, confirmTime: null }
  return { confirmed, confirmTime: row.confirmTime ?? (before.confirmed ? before.confirmTime : 'now') }
}

/** `default_custom_fields` by field id, names "matched exactly first, then without case" (2.1). */
function importDefaults(list: ModelledList, options: ImportOptions): Record<number, FieldValue> {
  const defaults: Record<number, FieldValue> = {}
  for (const [name, json] of Object.entries(options.default_custom_fields)) {
    const field =
      list.fields.find((field) => field.name === name) ??
      list.fields.find((field) => field.name.toLowerCase() === name.toLowerCase())
    if (field === undefined) throw new Error(`the API refuses a default for ${name}`)
    const value = readJsonValue(json, field, options.file_format.date_format)
    if (value !== null) defaults[field.id] = value
  }
  return defaults
}
