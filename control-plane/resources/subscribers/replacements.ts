import { codePoints } from '../../../shared/values/field-value.ts'
import { comparisonForm } from '../../../shared/values/identity.ts'
import { refuseProblems } from '../../api/validation.ts'
import type { Triggering } from './trigger-schemas.ts'

/** Texts that a trigger call gives for its mails, keys as given. */
export interface Replacements {
  fields?: Record<string, string>
  rawFields?: Record<string, string>
}

/** They are stored with every reaction that the call queues. */
const maxCharacters = 100_000
const longestKey = 50

/** Throws `invalid_request` for keys that don't do; what is wrong with values goes to `problems`. */
export function readReplacements(
  { content_replacement_fields: fields = {}, content_replacement_fields_raw: raw = {} }: Triggering,
  problems: string[],
): Replacements {
  const given = Object.entries({ content_replacement_fields: fields, content_replacement_fields_raw: raw })
  refuseProblems(
    given.flatMap(([name, hash]) => keyProblems(name, Object.keys(hash))),
    'invalid_request',
  )
  for (const [name, hash] of given) addValueProblems(name, hash, problems)
  const characters = given
    .flatMap(([, hash]) => Object.entries(hash).flat())
    .reduce((sum: number, text) => sum + codePoints(String(text)), 0)
  if (characters > maxCharacters)
    problems.push(
      `content_replacement_fields and content_replacement_fields_raw must have at most ${maxCharacters} characters together, and have ${characters}`,
    )
  return {
    ...(Object.keys(fields).length === 0 ? {} : { fields: fields as Record<string, string> }),
    ...(Object.keys(raw).length === 0 ? {} : { rawFields: raw as Record<string, string> }),
  }
}

function keyProblems(name: string, keys: readonly string[]): string[] {
  const seen = new Map<string, string>()
  return keys.flatMap((key) => {
    const shown = `the key ${JSON.stringify(key.slice(0, longestKey + 1))} of ${name}`
    const length = codePoints(key)
    if (length === 0 || length > longestKey) return [`${shown} must have 1 to ${longestKey} characters`]
    if (key.includes('\0')) return [`${shown} must not hold NUL characters`]
    if (!/[\p{L}\p{N}]/u.test(key)) return [`${shown} must hold a letter or a digit`]
    const form = comparisonForm(key.replaceAll(/\s/g, '_'))
    const other = seen.get(form)
    seen.set(form, key)
    return other === undefined ? [] : [`${shown} is the same as ${JSON.stringify(other)}`]
  })
}

function addValueProblems(name: string, hash: Record<string, unknown>, problems: string[]): void {
  for (const [key, value] of Object.entries(hash))
    if (typeof value !== 'string') problems.push(`${name}.${key} must be a string`)
    else if (value.includes('\0')) problems.push(`${name}.${key} must not hold NUL characters`)
}
