import { isDeepStrictEqual } from 'node:util'
import { recordFromKeys } from '../../../../shared/contract/record-from-keys.ts'
import type { CustomFieldDocument } from '../../../../shared/contract/schemas/custom-field.ts'
import { subscriberDefaults, type ImportOptions } from '../../../../shared/contract/schemas/import.ts'
import { dependsOnDateFormat } from '../../../../shared/csv/row-reader.ts'
import { nameKeys, isHash } from '../../../api/validation.ts'
import { inspectionView } from '../../import-inspection/schemas.ts'
import { createdImportView, importCreation } from '../schemas.ts'
import type { CheckedOptions } from './options.ts'

/** A creation's request as it came, for warnings of what it asks for in vain. */
export interface SentRequest {
  /** The document as sent, without defaults. */
  document: unknown
  /** Paths of the body's keys that the endpoint doesn't have. */
  unknownKeys: readonly string[]
}

interface RequestContext {
  /** The custom fields of the list. */
  fields: readonly CustomFieldDocument[]
  /** Whether the request has the content itself. */
  isInline: boolean
}

/** Likely mistakes in the request alone; warnings about the file are added when it is split. */
export function optionWarnings(
  { options, fieldIds }: CheckedOptions,
  { fields, isInline }: RequestContext,
  sent: SentRequest,
): string[] {
  const isBuiltIn = (name: string | null) => name !== null && !Object.hasOwn(fieldIds, name)
  const builtIns = options.column_mapping.filter(isBuiltIn)
  const hasFields = Object.keys(fieldIds).length > 0
  const hasDates =
    builtIns.some((name) => name?.endsWith('_time')) ||
    fields.some(({ name, _id, field_type: type }) => fieldIds[name] === _id && dependsOnDateFormat(type))
  return [
    ...warnOfUnknownKeys(sent),
    ...(options.overwrite
      ? [
          ...warnOfStatus(options, builtIns),
          ...warnOfKept(options, builtIns),
          ...warnOfSwitches(options, { builtIns, hasFields }, sent),
        ]
      : warnWithoutOverwrite(sent)),
    ...warnOfDefaults(options, sent),
    ...warnOfFormat(sent, { isInline, hasDates }),
    ...(isOn(sent, 'file_source.delete_after') && valueAt(sent, 'file_source.type') !== 'upload_directory'
      ? ['file_source.delete_after has no effect, as the source is no upload']
      : []),
    ...(isOn(sent, updatedToo) && !options.autoresponders.subscription.trigger
      ? [`${updatedToo} has no effect without autoresponders.subscription.trigger`]
      : []),
  ]
}

const updatedToo = 'autoresponders.subscription.also_trigger_on_updated_subscribers'
/** Where they are on, these change or answer updated subscribers only. */
const switchesOfUpdates = [
  ...['custom_fields', 'confirmed', 'format', 'status'].map((name) => `overwrite_what.${name}`),
  ...['active', 'unsubscribed', 'bounced', 'deactivated', 'scomp'].map(
    (status) => `overwrite_when_status.${status}`,
  ),
  updatedToo,
  'autoresponders.api.trigger_updated',
]

/** Some clients send every option with its default, which asks for nothing. */
const filledIn: Record<string, unknown> = importCreation.parse({
  column_mapping: [],
  file_source: { type: 'json' },
})

function valueAt({ document }: SentRequest, path: string): unknown {
  const [key = '', ...inner] = path.split('.')
  const value = isHash(document) ? document[key] : undefined
  if (isDeepStrictEqual(value, filledIn[key])) return undefined
  return inner.reduce((hash, name) => (isHash(hash) ? hash[name] : undefined), value)
}

/** Whether the request itself has the switch on. One that is off, or filled in, asks for nothing. */
function isOn(sent: SentRequest, path: string): boolean {
  const value = valueAt(sent, path)
  return value === true || isHash(value)
}

function warnOfUnknownKeys({ unknownKeys }: SentRequest): string[] {
  // The reply of an inspection can be sent as file_format, and views have keys that can only be read.
  const isReply = (key: string) =>
    Object.hasOwn(createdImportView.shape, key) ||
    (key.startsWith('file_format.') && Object.hasOwn(inspectionView.shape, key.slice('file_format.'.length)))
  const unknown = unknownKeys.filter((key) => !isReply(key))
  return unknown.length === 0 ? [] : [`ignored, as imports have no such option: ${nameKeys(unknown)}`]
}

function warnWithoutOverwrite(sent: SentRequest): string[] {
  const vain = switchesOfUpdates.filter((path) => isOn(sent, path))
  if (valueAt(sent, 'blank_cells') === 'clear') vain.push('blank_cells')
  return vain.length === 0
    ? []
    : [`overwrite is off and no subscriber is updated, so these have no effect: ${vain.join(', ')}`]
}

/** Columns that a switch of `overwrite_what` writes. */
const columnsOfSwitches: Record<(typeof subscriberDefaults)[number], readonly string[]> = {
  status: ['status', 'consent', 'subscribe_time', 'subscribe_ip', 'remove_time', 'remove_ip'],
  confirmed: ['confirmed', 'confirm_time'],
  format: ['email_format'],
}

function warnOfSwitches(
  options: ImportOptions,
  { builtIns, hasFields }: { builtIns: (string | null)[]; hasFields: boolean },
  sent: SentRequest,
): string[] {
  const brings = {
    custom_fields: hasFields,
    ...recordFromKeys(
      subscriberDefaults,
      (name) =>
        columnsOfSwitches[name].some((column) => builtIns.includes(column)) || givesDefault(options, name),
    ),
  }
  const vain = Object.entries(brings)
    .filter(([name, isBrought]) => !isBrought && isOn(sent, `overwrite_what.${name}`))
    .map(
      ([name]) =>
        `overwrite_what.${name} is on, but neither a column nor a default of the request brings a value`,
    )
  const isFieldMapped = options.column_mapping.some((name) => name !== null && !builtIns.includes(name))
  if (options.blank_cells === 'clear' && !options.overwrite_what.custom_fields)
    vain.push('blank_cells has no effect, as overwrite_what.custom_fields is off')
  else if (options.blank_cells === 'clear' && !isFieldMapped)
    vain.push('blank_cells has no effect, as no column is mapped to a custom field')
  return vain
}

/** Lists without the field have no such default. */
const givesDefault = (
  { given_defaults: given, subscriber_defaults: defaults }: ImportOptions,
  name: (typeof subscriberDefaults)[number],
): boolean => given.includes(name) && defaults[name] !== undefined

/** Statuses of the file or the request that don't reach existing subscribers. */
function warnOfStatus(
  { overwrite_what: what, subscriber_defaults: defaults }: ImportOptions,
  builtIns: (string | null)[],
): string[] {
  if (what.status) return []
  const column = ['status', 'consent', 'remove_time'].find((name) => builtIns.includes(name))
  const source =
    column !== undefined
      ? `column_mapping has ${column}`
      : defaults.status === 'active'
        ? null
        : 'subscriber_defaults has status'
  return source === null
    ? []
    : [
        `${source}, and overwrite_what.status is off: only new subscribers get the status of their row, existing ones keep theirs`,
      ]
}

/** Other columns that don't reach existing subscribers. */
const warnOfKept = ({ overwrite_what: what }: ImportOptions, builtIns: (string | null)[]): string[] =>
  (['confirmed', 'format'] as const).flatMap((name) => {
    const column = columnsOfSwitches[name].find((candidate) => builtIns.includes(candidate))
    return what[name] || column === undefined
      ? []
      : [
          `column_mapping has ${column}, and overwrite_what.${name} is off: only new subscribers get what their row says, existing ones keep what they have`,
        ]
  })

function warnOfDefaults(options: ImportOptions, sent: SentRequest): string[] {
  return (['confirmed', 'format'] as const)
    .filter(
      (name) =>
        (valueAt(sent, `subscriber_defaults.${name}`) ?? null) !== null && !givesDefault(options, name),
    )
    .map((name) => `subscriber_defaults.${name} has no effect, as the list has no ${name} field`)
}

/** Settings for reading what the file doesn't have. */
function warnOfFormat(
  sent: SentRequest,
  { isInline, hasDates }: Pick<RequestContext, 'isInline'> & { hasDates: boolean },
): string[] {
  const given = valueAt(sent, 'file_format.character_set')
  const set = typeof given === 'string' ? given.toLowerCase() : 'utf-8'
  return [
    ...(isInline && set !== 'utf-8' && set !== 'auto'
      ? ['file_format.character_set has no effect, as inline content is text already']
      : []),
    ...(valueAt(sent, 'file_format.date_format') === 'dmy' && !hasDates
      ? ['file_format.date_format has no effect, as neither a column nor a default is a date']
      : []),
  ]
}
