import { z } from 'zod'
import { emailExpectation, parseEmail } from '../../shared/values/email.ts'
import { codePoints } from '../../shared/values/field-value.ts'

/**
 * Schemas for the values of request documents, each with the message for a wrong value. Bounds that zod can't derive
 * for the API description are given in `meta`.
 */

/** A text with bounds in code points, which JSON Schema counts too. Zod's own bounds count UTF-16 code units. */
export function boundedText({ min = 0, max }: { min?: number; max: number }) {
  return z
    .string()
    .check(({ value, issues }) => {
      const length = codePoints(value)
      const issue = { origin: 'string', inclusive: true, input: value } as const
      if (length < min) issues.push({ ...issue, code: 'too_small', minimum: min })
      if (length > max) issues.push({ ...issue, code: 'too_big', maximum: max })
    })
    .meta({ ...(min === 0 ? {} : { minLength: min }), maxLength: max })
}

/** A trimmed name that isn't blank. */
export const nameText = (maxLength: number) =>
  z
    .string()
    .trim()
    .pipe(boundedText({ min: 1, max: maxLength }))
    .refine((text) => !text.includes('\0'), { error: 'must not hold NUL characters' })
    .meta({ override: { minLength: 1, maxLength, pattern: String.raw`\S` } })

/** 256 characters each for the local part and the domain, and the @. */
const maxEmailLength = 513

/** A trimmed text that should be an email. Its reader checks that, with the message `emailExpectation`. */
export const emailText = (format: 'email' | 'idn-email' = 'idn-email') =>
  z
    .string()
    .trim()
    .pipe(boundedText({ max: maxEmailLength }))
    .meta({ override: { maxLength: maxEmailLength, format } })

export const validEmail = () => emailText().transform(storedAddress)

/** The form in which an address is stored. */
export function storedAddress(text: string, context: z.RefinementCtx): string {
  const email = parseEmail(text)
  if (email === null) context.addIssue({ code: 'custom', message: `must be ${emailExpectation}` })
  return email?.address ?? z.NEVER
}

/** The times that `parseApiTime` reads, as far as a pattern can express them. */
export const timePattern = String.raw`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?$`

export const timeText = () => z.string().meta({ override: { pattern: timePattern } })

/** A time in a reply. */
export const instantView = () =>
  z
    .string()
    .meta({ description: "ISO 8601 in the organization's time zone", override: { format: 'date-time' } })

/** An IP address that `canonicalIp` reads. */
export const ipText = () => z.string().meta({ override: { anyOf: [{ format: 'ipv4' }, { format: 'ipv6' }] } })

/** One line of a mail's header, trimmed; blank becomes null. A character that could end the line is refused. */
export const headerText = (maxLength: number) =>
  z
    .string()
    .trim()
    .pipe(boundedText({ max: maxLength }))
    .refine((text) => !/[\x00-\x1f\x7f\u2028\u2029]/.test(text), {
      error: 'must be one line without control characters',
    })
    .transform(nullIfBlank)
    .meta({ override: { maxLength } })

/** An address in a mail's header, trimmed; blank becomes null. */
export const headerEmail = () =>
  emailText()
    .transform((text, context) => (text === '' ? null : storedAddress(text, context)))
    .meta({
      override: {
        maxLength: maxEmailLength,
        anyOf: [{ format: 'idn-email' }, { pattern: String.raw`^\s*$` }],
      },
    })

const nullIfBlank = (text: string): string | null => (text === '' ? null : text)

/** A custom field's value as JSON. Its reader checks whether it fits the field's type. */
export const fieldJson = () =>
  z.union([z.string(), z.int(), z.boolean(), z.array(z.string())], {
    error: 'must be a string, an integer, a boolean or an array of strings',
  })

export const flag = () => z.boolean()

export const positiveId = () => z.int().min(1)

/** In a query: the id of a record that others are filtered by. */
export const filterId = (description: string) =>
  wholeNumber(1)
    .optional()
    .meta({ description, override: { type: 'integer', minimum: 1 } })

/** In a query: one or several of the values, separated by commas. Without it undefined. */
export const someOf = <const T extends readonly string[]>(what: string, values: T) =>
  z
    .string()
    .transform((text) => text.split(',').map((part) => part.trim()))
    .refine((parts) => parts.every((part) => values.includes(part)), {
      error: `must be one or more of ${values.join(', ')}, separated by commas`,
    })
    .transform((parts): readonly T[number][] => values.filter((value) => parts.includes(value)))
    .optional()
    .meta({ description: `${what}, comma-separated: ${values.join(', ')}`, override: { type: 'string' } })

export const oneOf = <const T extends readonly [string, ...string[]]>(values: T) => z.enum(values)

/** A value from a list, accepted in any letter case and converted to lower case. */
export function oneOfAnyCase<const T extends readonly [string, ...string[]]>(values: T) {
  return (
    z
      .string()
      .transform((text, context): T[number] => {
        const value = values.find((candidate) => candidate === text.toLowerCase())
        if (value !== undefined) return value
        context.addIssue({
          code: 'custom',
          message: `must be one of ${values.map((candidate) => JSON.stringify(candidate)).join(', ')} (case doesn't matter)`,
        })
        return z.NEVER
      })
      // Generated clients get an enum from this; a pattern for every letter case would give them a plain string.
      .meta({ override: { enum: [...values] } })
  )
}

const punctuationNames: Record<string, string> = {
  ',': 'comma',
  '\t': 'tab',
  ';': 'semicolon',
  '|': 'bar',
  auto: 'auto',
  '"': 'double_quote',
  "'": 'single_quote',
  '\\': 'backslash',
}

/** One of several punctuation characters, or `auto`. Generated clients name the enum's members by `x-enum-varnames`. */
export const punctuation = <const T extends readonly [string, ...string[]]>(characters: T) =>
  oneOf(characters).meta({
    'x-enum-varnames': characters.map((character) => punctuationNames[character]),
  })

/** A whole number in a query string. */
export function wholeNumber(min: number) {
  return z
    .string()
    .refine((text) => /^\d{1,15}$/.test(text) && Number(text) >= min, {
      error: `must be ${min === 0 ? 'a non-negative' : 'a positive'} integer`,
    })
    .transform(Number)
}

/** The id of a record that this service doesn't have; it is stored as sent. */
export const foreignId = () => positiveId().nullable()
const blankIsNull = <T extends z.ZodType>(schema: T) =>
  z.preprocess((value) => (value === '' ? null : value), schema)
/** The id of a virtual MTA: 0 is the system's default route, and a blank text becomes null. */
export const virtualMtaId = () => blankIsNull(z.int().min(0).nullable())
/** The id of a bounce address's user or domain; a blank text becomes null. */
export const bounceEmailId = () => blankIsNull(foreignId())
export const foreignName = () => boundedText({ max: 255 }).nullable()
