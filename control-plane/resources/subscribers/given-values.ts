import type { FieldValue } from '../../../shared/contract/schemas/custom-field.ts'
import { parseApiTime } from '../../../shared/values/date-time.ts'
import { emailExpectation, emailIdentity } from '../../../shared/values/email.ts'
import type { FieldReader } from '../../../shared/values/field-value.ts'
import { comparisonForm } from '../../../shared/values/identity.ts'
import { canonicalIp, ipExpectation } from '../../../shared/values/ip.ts'
import { isHash } from '../../api/validation.ts'
import type { SubscriberList } from './list-context.ts'
import type { GivenUpdate, SubscriberCreation } from './schemas.ts'

/**
 * A request's values against the list: what a schema alone can't see. Pure; all problems are collected, so that a
 * client mends them in one go. Undefined is what wasn't given, null what is to be unset.
 */
export interface GivenValues {
  /** As typed, trimmed. */
  email: string | undefined
  /** Comparison form of the email. */
  emailKey: string | undefined
  subscribeTime: Date | undefined
  subscribeIp: string | null | undefined
  removeTime: Date | null | undefined
  removeIp: string | null | undefined
  confirmTime: Date | null | undefined
  /** By the field's id. */
  fields: ReadonlyMap<number, FieldValue | null>
  /** Ids of the fields whose values are wrong. */
  faultyFields: ReadonlySet<number>
}

export interface Reading {
  context: SubscriberList
  /** Grows with what is wrong. */
  problems: string[]
  /** Where the custom fields stand in the request: `custom_fields` unless told. */
  fieldsAt?: string
}

/** What is wrong goes to `problems`, and its value here means nothing then. */
export function readGiven(
  given: Partial<SubscriberCreation> | Partial<GivenUpdate>,
  { context, problems, fieldsAt = 'custom_fields' }: Reading,
): GivenValues {
  const email = given.email?.trim()
  const emailKey = email === undefined ? undefined : emailIdentity(email)
  if (emailKey === null) problems.push(`email must be ${emailExpectation}`)
  return {
    email,
    emailKey: emailKey ?? undefined,
    subscribeTime: readTime('subscribe_time', given.subscribe_time, context.zone, problems),
    subscribeIp: readIp('subscribe_ip', given.subscribe_ip, problems),
    removeTime: readTime('remove_time', given.remove_time, context.zone, problems),
    removeIp: readIp('remove_ip', given.remove_ip, problems),
    confirmTime: readTime('confirm_time', given.confirm_time, context.zone, problems),
    ...readFields(given.custom_fields ?? {}, { context, problems, fieldsAt }),
  }
}

function readTime<Text extends string | null | undefined>(
  name: string,
  text: Text,
  zone: string,
  problems: string[],
): Date | Exclude<Text, string> {
  if (typeof text !== 'string') return text as Exclude<Text, string>
  const time = parseApiTime(text, zone)
  if (time === null)
    problems.push(
      `${name} must be a time in ISO 8601 with T, such as 2026-11-21T09:00:00Z, in the years 1000 to 9999`,
    )
  return time ?? new Date(0)
}

/** In its canonical form; what is no address goes to `problems` under the name, and is blank here. */
export function readIp<Text extends string | null | undefined>(
  name: string,
  text: Text,
  problems: string[],
): string | Exclude<Text, string> {
  if (typeof text !== 'string') return text as Exclude<Text, string>
  const address = canonicalIp(text.trim())
  if (address === null) problems.push(`${name} must be ${ipExpectation}`)
  return address ?? ''
}

function readFields(
  given: Record<string, unknown>,
  { context, problems, fieldsAt }: Required<Reading>,
): Pick<GivenValues, 'fields' | 'faultyFields'> {
  const values = new Map<number, FieldValue | null>()
  const faultyFields = new Set<number>()
  for (const [name, json] of Object.entries(given)) {
    const reader = context.fieldNamed(name.trim())
    if (reader === undefined) {
      problems.push(`${fieldsAt}.${name} is no custom field of the list`)
      continue
    }
    const { id } = reader.field
    if (values.has(id)) problems.push(`${fieldsAt}.${name} is given twice`)
    const value = isHash(json) ? valueIn(json, reader) : readValue(json, reader)
    if (value === undefined) {
      problems.push(`${fieldsAt}.${name} must be ${reader.expectation}`)
      faultyFields.add(id)
    } else values.set(id, value)
  }
  return { fields: values, faultyFields }
}

/** Of `{value: x}`; a hash without that key is no value of any field. */
function valueIn(hash: Record<string, unknown>, reader: FieldReader): FieldValue | null | undefined {
  return Object.hasOwn(hash, 'value') ? readValue(hash['value'], reader) : undefined
}

/** Null unsets, as a blank text and an empty array do; undefined is no value of the field. */
function readValue(json: unknown, reader: FieldReader): FieldValue | null | undefined {
  if (json === null) return null
  if (typeof json === 'string' && json.trim() === '') return null
  // A cell with a NUL is refused too: many a program ends a text there.
  if (typeof json === 'string' && json.includes('\0')) return undefined
  const value = reader.fromJson(json)
  if (value === null) return undefined
  return Array.isArray(value) && value.length === 0 ? null : value
}

/** What tells the subscriber apart: the second half of its `_id`. */
export function identityOf(
  { emailKey, fields }: Pick<GivenValues, 'emailKey' | 'fields'>,
  { primaryKey }: SubscriberList,
): string | undefined {
  if (primaryKey === null) return emailKey
  const value = fields.get(primaryKey.field.id)
  return value === undefined || value === null ? undefined : comparisonForm(String(value))
}
