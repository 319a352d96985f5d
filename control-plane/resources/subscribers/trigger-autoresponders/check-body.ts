import type { RequestError } from '../../../api/request-error.ts'
import { codePoints } from '../../../../shared/values/field-value.ts'
import { comparisonForm } from '../../../../shared/values/identity.ts'
import { refuseAll } from '../../../api/validation.ts'
import { readValues } from '../check-values/service.ts'
import type { SubscriberList } from '../service.ts'
import {
  faultyKeys,
  faultySections,
  faultyTexts,
  maxCharacters,
  maxKeyLength,
  namesOrIds,
} from './refusals.ts'
import type { Triggering } from './schemas.ts'

/** What a schema alone can't check of a triggering, as far as it depends on neither subscriber nor autoresponders. */

export interface CheckedTriggering {
  body: Triggering
  replacements: Replacements
  sections: FieldSections
}

/** Throws `invalid_request` for keys and entries, `validation_failed` for values. */
export function checkTriggering(body: Triggering, context: SubscriberList): CheckedTriggering {
  const problems: RequestError[] = []
  const replacements = readReplacements(body, problems)
  requireEntries(body)
  const sections = readSections(body.custom_fields ?? {}, context, problems)
  refuseAll(problems)
  return { body, replacements, sections }
}

/** An empty array counts as left out: a request for no autoresponder is a mistake. */
function requireEntries({ autoresponder_names: names = [], autoresponder_ids: ids = [] }: Triggering): void {
  if (names.length > 0 === ids.length > 0) throw namesOrIds()
}

// ---- texts that replace others in the mails of the call ----

interface Replacements {
  fields?: Record<string, string>
  rawFields?: Record<string, string>
}

/** Throws `invalid_request` for faulty keys; problems of values are added to `problems`. */
function readReplacements(
  { content_replacement_fields: fields = {}, content_replacement_fields_raw: raw = {} }: Triggering,
  problems: RequestError[],
): Replacements {
  const hashes = Object.entries({ content_replacement_fields: fields, content_replacement_fields_raw: raw })
  refuseAll(hashes.flatMap(([name, hash]) => keyProblems(name, Object.keys(hash))))
  const [texts = {}, rawTexts = {}] = hashes.map(([name, hash]) => readTexts(name, hash, problems))
  const characters = hashes
    .flatMap(([, hash]) => Object.entries(hash).flat())
    .reduce((sum: number, text) => sum + codePoints(String(text)), 0)
  if (characters > maxCharacters) problems.push(faultyTexts.tooLong(characters))
  return {
    ...(Object.keys(texts).length === 0 ? {} : { fields: texts }),
    ...(Object.keys(rawTexts).length === 0 ? {} : { rawFields: rawTexts }),
  }
}

function keyProblems(name: string, keys: readonly string[]): RequestError[] {
  const keysByForm = new Map<string, string>()
  return keys.flatMap((key) => {
    const length = codePoints(key)
    if (length === 0 || length > maxKeyLength) return [faultyKeys.length(key, name)]
    if (key.includes('\0')) return [faultyKeys.nul(key, name)]
    if (!/[\p{L}\p{N}]/u.test(key)) return [faultyKeys.noLetter(key, name)]
    const form = comparisonForm(key.replaceAll(/\s/g, '_'))
    const other = keysByForm.get(form)
    keysByForm.set(form, key)
    return other === undefined ? [] : [faultyKeys.same(key, name, other)]
  })
}

/** The hash without values that have a problem. */
function readTexts(
  name: string,
  hash: Record<string, unknown>,
  problems: RequestError[],
): Record<string, string> {
  const texts: [string, string][] = []
  for (const [key, value] of Object.entries(hash)) {
    if (typeof value !== 'string') problems.push(faultyTexts.notText(`${name}.${key}`))
    else if (value.includes('\0')) problems.push(faultyTexts.nul(`${name}.${key}`))
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
  problems: RequestError[],
): FieldSections {
  const read = (section: keyof FieldsBySection): Record<string, unknown> => {
    const custom_fields = fields[section] ?? {}
    readValues({ custom_fields }, { context, problems, faulty: faultySections[section] })
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
