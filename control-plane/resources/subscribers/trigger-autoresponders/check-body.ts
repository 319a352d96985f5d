import { RequestError } from '../../../api/request-error.ts'
import { codePoints } from '../../../../shared/values/field-value.ts'
import { comparisonForm } from '../../../../shared/values/identity.ts'
import { refuseProblems } from '../../../api/validation.ts'
import { readValues } from '../check-values/service.ts'
import type { SubscriberList } from '../service.ts'
import type { Triggering } from './schemas.ts'

/** What a schema alone can't check of a triggering, as far as it depends on neither subscriber nor autoresponders. */

export interface CheckedTriggering {
  body: Triggering
  replacements: Replacements
  sections: FieldSections
}

/** Throws `invalid_request` for keys and entries, `validation_failed` for values. */
export function checkTriggering(body: Triggering, context: SubscriberList): CheckedTriggering {
  const problems: string[] = []
  const replacements = readReplacements(body, problems)
  requireEntries(body)
  const sections = readSections(body.custom_fields ?? {}, context, problems)
  refuseProblems(problems)
  return { body, replacements, sections }
}

/** An empty array counts as left out: a request for no autoresponder is a mistake. */
function requireEntries({ autoresponder_names: names = [], autoresponder_ids: ids = [] }: Triggering): void {
  if (names.length > 0 === ids.length > 0)
    throw new RequestError(
      'invalid_request',
      'exactly one of autoresponder_names and autoresponder_ids must be given, with one entry at least',
    )
}

// ---- texts that replace others in the mails of the call ----

interface Replacements {
  fields?: Record<string, string>
  rawFields?: Record<string, string>
}

/** Every reaction that the call queues stores the texts. */
const maxCharacters = 100_000
const maxKeyLength = 50

/** Throws `invalid_request` for faulty keys; problems of values are added to `problems`. */
function readReplacements(
  { content_replacement_fields: fields = {}, content_replacement_fields_raw: raw = {} }: Triggering,
  problems: string[],
): Replacements {
  const hashes = Object.entries({ content_replacement_fields: fields, content_replacement_fields_raw: raw })
  refuseProblems(
    hashes.flatMap(([name, hash]) => keyProblems(name, Object.keys(hash))),
    'invalid_request',
  )
  const [texts = {}, rawTexts = {}] = hashes.map(([name, hash]) => readTexts(name, hash, problems))
  const characters = hashes
    .flatMap(([, hash]) => Object.entries(hash).flat())
    .reduce((sum: number, text) => sum + codePoints(String(text)), 0)
  if (characters > maxCharacters)
    problems.push(
      `content_replacement_fields and content_replacement_fields_raw must have at most ${maxCharacters} characters together, and have ${characters}`,
    )
  return {
    ...(Object.keys(texts).length === 0 ? {} : { fields: texts }),
    ...(Object.keys(rawTexts).length === 0 ? {} : { rawFields: rawTexts }),
  }
}

function keyProblems(name: string, keys: readonly string[]): string[] {
  const keysByForm = new Map<string, string>()
  return keys.flatMap((key) => {
    const shown = `the key ${JSON.stringify(key.slice(0, maxKeyLength + 1))} of ${name}`
    const length = codePoints(key)
    if (length === 0 || length > maxKeyLength) return [`${shown} must have 1 to ${maxKeyLength} characters`]
    if (key.includes('\0')) return [`${shown} must not hold NUL characters`]
    if (!/[\p{L}\p{N}]/u.test(key)) return [`${shown} must hold a letter or a digit`]
    const form = comparisonForm(key.replaceAll(/\s/g, '_'))
    const other = keysByForm.get(form)
    keysByForm.set(form, key)
    return other === undefined ? [] : [`${shown} is the same as ${JSON.stringify(other)}`]
  })
}

/** The hash without values that have a problem. */
function readTexts(name: string, hash: Record<string, unknown>, problems: string[]): Record<string, string> {
  const texts: [string, string][] = []
  for (const [key, value] of Object.entries(hash)) {
    if (typeof value !== 'string') problems.push(`${name}.${key} must be a string`)
    else if (value.includes('\0')) problems.push(`${name}.${key} must not hold NUL characters`)
    else texts.push([key, value])
  }
  return Object.fromEntries(texts)
}

// ---- custom fields ----

/** Custom fields by what the call makes of the subscriber: those of `for_all`, replaced by those of the section. */
type FieldSections = Record<'for_new' | 'for_active' | 'for_reactivated', Record<string, unknown>>

type FieldsBySection = NonNullable<Triggering['custom_fields']>

/** Every call checks all sections, so that a fault in one shows before the first subscriber that it is for. */
function readSections(
  fields: Partial<FieldsBySection>,
  context: SubscriberList,
  problems: string[],
): FieldSections {
  const read = (section: keyof FieldsBySection): Record<string, unknown> => {
    const custom_fields = fields[section] ?? {}
    readValues({ custom_fields }, { context, problems, fieldsAt: `custom_fields.${section}` })
    // Keyed by the field's own name: another spelling in `for_all` must not stand beside it.
    return Object.fromEntries(
      Object.entries(custom_fields).map(([name, value]) => [
        context.fieldNamed(name.trim())?.field.name ?? name,
        value,
      ]),
    )
  }
  const forAll = read('for_all')
  return {
    for_new: { ...forAll, ...read('for_new') },
    for_active: { ...forAll, ...read('for_active') },
    for_reactivated: { ...forAll, ...read('for_reactivated') },
  }
}
