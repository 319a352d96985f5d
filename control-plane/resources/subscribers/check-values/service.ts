import type { FieldValue } from '../../../../shared/contract/schemas/custom-field.ts'
import { parseApiTime } from '../../../../shared/values/date-time.ts'
import { parseEmail, type EmailAddress } from '../../../../shared/values/email.ts'
import type { FieldReader } from '../../../../shared/values/field-value.ts'
import { comparisonForm } from '../../../../shared/values/identity.ts'
import { canonicalIp } from '../../../../shared/values/ip.ts'
import type { RequestError } from '../../../api/request-error.ts'
import { isHash } from '../../../api/validation.ts'
import { faultyCustomFields, noEmail, noIp, noTime, type FaultyFields } from '../refusals.ts'
import type { SubscriberCreation, SubscriberUpdate } from '../schemas.ts'
import type { SubscriberList } from '../service.ts'

/**
 * The values of a body, checked against the list. Writes nothing. All problems are collected, so that a client fixes
 * them in one go; a value with a problem has no meaning. Undefined: the body doesn't have the value. Null: the body
 * unsets it.
 */
export interface SubscriberValues {
  subscribeTime: Date | undefined
  subscribeIp: string | null | undefined
  removeTime: Date | null | undefined
  removeIp: string | null | undefined
  confirmTime: Date | null | undefined
  /** By the field's id. */
  fields: ReadonlyMap<number, FieldValue | null>
  /** Ids of the fields whose values have a problem. */
  faultyFields: ReadonlySet<number>
}

interface ValueCheck {
  context: SubscriberList
  /** Each problem that is found is added. */
  problems: RequestError[]
  /** What custom fields are refused for, with their key path in the body. */
  faulty?: FaultyFields
}

export function readEmail(email: string, problems: RequestError[]): EmailAddress {
  const address = parseEmail(email.trim())
  if (address === null) problems.push(noEmail())
  return address ?? { address: '', key: '' }
}

/** All values but the email. */
export function readValues(
  body: Partial<SubscriberCreation> | Partial<SubscriberUpdate>,
  { context, problems, faulty = faultyCustomFields }: ValueCheck,
): SubscriberValues {
  return {
    subscribeTime: readTime('subscribe_time', body.subscribe_time, context.zone, problems) ?? undefined,
    subscribeIp: readIp('subscribe_ip', body.subscribe_ip, problems),
    removeTime: readTime('remove_time', body.remove_time, context.zone, problems),
    removeIp: readIp('remove_ip', body.remove_ip, problems),
    confirmTime: readTime('confirm_time', body.confirm_time, context.zone, problems),
    ...readFields(body.custom_fields ?? {}, { context, problems, faulty }),
  }
}

function readTime(
  name: string,
  text: string | null | undefined,
  zone: string,
  problems: RequestError[],
): Date | null | undefined {
  if (typeof text !== 'string') return text
  const time = parseApiTime(text, zone)
  if (time === null) problems.push(noTime(name))
  return time ?? new Date(0)
}

/** The IP address in its canonical form. */
function readIp(
  name: string,
  text: string | null | undefined,
  problems: RequestError[],
): string | null | undefined {
  if (typeof text !== 'string') return text
  const address = canonicalIp(text.trim())
  if (address === null) problems.push(noIp(name))
  return address ?? ''
}

function readFields(
  valuesByName: Record<string, unknown>,
  { context, problems, faulty }: Required<ValueCheck>,
): Pick<SubscriberValues, 'fields' | 'faultyFields'> {
  const values = new Map<number, FieldValue | null>()
  const faultyFields = new Set<number>()
  for (const [name, json] of Object.entries(valuesByName)) {
    const reader = context.fieldNamed(name.trim())
    if (reader === undefined) {
      problems.push(faulty.unknown(name))
      continue
    }
    const { id } = reader.field
    if (values.has(id)) problems.push(faulty.twice(name))
    const value = isHash(json) ? readWrappedValue(json, reader) : readValue(json, reader)
    if (value === undefined) {
      problems.push(faulty.value(name, reader.expectation))
      faultyFields.add(id)
    } else values.set(id, value)
  }
  return { fields: values, faultyFields }
}

/** Reads `{value: x}`. A hash without that key is no value of any field, which undefined says. */
function readWrappedValue(hash: Record<string, unknown>, reader: FieldReader): FieldValue | null | undefined {
  return Object.hasOwn(hash, 'value') ? readValue(hash['value'], reader) : undefined
}

/** Null unsets, as a blank text and an empty array do; undefined is no value of the field. */
function readValue(json: unknown, reader: FieldReader): FieldValue | null | undefined {
  if (json === null) return null
  if (typeof json === 'string' && json.trim() === '') return null
  // Refused as in an import's cell: many programs end a text at a NUL.
  if (typeof json === 'string' && json.includes('\0')) return undefined
  const value = reader.fromJson(json)
  if (value === null) return undefined
  return Array.isArray(value) && value.length === 0 ? null : value
}

/** The second half of a subscriber's `_id`; undefined where neither email nor primary key is given. */
export function readIdentity(
  emailKey: string | undefined,
  fields: SubscriberValues['fields'],
  { primaryKey }: SubscriberList,
): string | undefined {
  if (primaryKey === null) return emailKey
  const value = fields.get(primaryKey.field.id)
  return value === undefined || value === null ? undefined : comparisonForm(String(value))
}
