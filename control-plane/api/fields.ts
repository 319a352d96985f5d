import { z } from 'zod'
import { emailExpectation, emailIdentity } from '../../shared/values/email.ts'
import { codePoints } from '../../shared/values/field-value.ts'

/**
 * The kinds of values that request documents are made of, each with the message that a wrong one gets. What a check of
 * zod's own doesn't say in the description is said in its `meta`.
 */

/** A text by its length in code points, which JSON Schema counts too; zod's own bounds count halves of them. */
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
export const nameText = (longest: number) =>
  z
    .string()
    .trim()
    .pipe(boundedText({ min: 1, max: longest }))
    .refine((text) => !text.includes('\0'), { error: 'must not hold NUL characters' })
    .meta({ override: { minLength: 1, maxLength: longest, pattern: String.raw`\S` } })

/** A local part and a domain of 256 characters each. */
const longestEmail = 513

/** A trimmed email; whether it is one is for its reader to say, in the words of `emailExpectation`. */
export const emailText = (format: 'email' | 'idn-email' = 'idn-email') =>
  z
    .string()
    .trim()
    .pipe(boundedText({ max: longestEmail }))
    .meta({ override: { maxLength: longestEmail, format } })

export const validEmail = (format: 'email' | 'idn-email' = 'idn-email') =>
  emailText(format).refine((text) => emailIdentity(text) !== null, { error: `must be ${emailExpectation}` })

/** What `parseApiTime` reads, as far as a pattern can say it. */
export const timePattern = String.raw`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?$`

export const timeText = () => z.string().meta({ override: { pattern: timePattern } })

/** A time in a reply. */
export const instantView = () =>
  z
    .string()
    .meta({ description: "ISO 8601 in the organization's time zone", override: { format: 'date-time' } })

/** An address as `canonicalIp` reads it. */
export const ipText = () => z.string().meta({ override: { anyOf: [{ format: 'ipv4' }, { format: 'ipv6' }] } })

/** One line of a mail's header, trimmed; blank is null. Whatever could end the line is refused. */
export const headerText = (longest: number) =>
  z
    .string()
    .trim()
    .pipe(boundedText({ max: longest }))
    .refine((text) => !/[\x00-\x1f\x7f\u2028\u2029]/.test(text), {
      error: 'must be one line without control characters',
    })
    .transform(nullIfBlank)
    .meta({ override: { maxLength: longest } })

/** An address of a mail's header, trimmed; blank is null. */
export const headerEmail = () =>
  emailText()
    .refine((text) => text === '' || emailIdentity(text) !== null, { error: `must be ${emailExpectation}` })
    .transform(nullIfBlank)
    .meta({
      override: { maxLength: longestEmail, anyOf: [{ format: 'idn-email' }, { pattern: String.raw`^\s*$` }] },
    })

const nullIfBlank = (text: string): string | null => (text === '' ? null : text)

/** A custom field's value as JSON; whether it fits the field's type is for its reader to say. */
export const fieldJson = () =>
  z.union([z.string(), z.int(), z.boolean(), z.array(z.string())], {
    error: 'must be a string, an integer, a boolean or an array of strings',
  })

export const flag = () => z.boolean()

export const positiveId = () => z.int().min(1)

export const oneOf = <const T extends readonly [string, ...string[]]>(values: T) => z.enum(values)

/** A value out of a list, written in any case; stands for itself in lower case. */
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
      // Clients are generated with an enum; a pattern for every case would give them a bare string.
      .meta({ override: { enum: [...values] } })
  )
}

const punctuationNames: Record<string, string> = {
  ',': 'comma',
  '\t': 'tab',
  ';': 'semicolon',
  '|': 'bar',
  '"': 'double_quote',
  "'": 'single_quote',
}

/** One of several punctuation characters. Generated clients name the enum's members by `x-enum-varnames`. */
export const punctuation = <const T extends readonly [string, ...string[]]>(characters: T) =>
  oneOf(characters).meta({
    'x-enum-varnames': characters.map((character) => punctuationNames[character]),
  })

/** `page` and `per_page` of a query, `per_page` clamped to what is allowed. */
export function pagingQuery(options: { perPage: number; max: number }) {
  return {
    page: wholeNumber(0)
      .default(0)
      .meta({
        description: 'number of the page, from 0',
        override: { type: 'integer', minimum: 0, default: 0 },
      }),
    per_page: wholeNumber(1)
      .transform((perPage) => Math.min(perPage, options.max))
      .default(options.perPage)
      .meta({
        description: `records on a page; more than ${options.max} are taken for ${options.max}`,
        override: { type: 'integer', minimum: 1, default: options.perPage },
      }),
  }
}

/** A whole number as it stands in a query. */
export function wholeNumber(min: number) {
  return z
    .string()
    .refine((text) => /^\d{1,15}$/.test(text) && Number(text) >= min, {
      error: `must be ${min === 0 ? 'a non-negative' : 'a positive'} integer`,
    })
    .transform(Number)
}

/** Of a thing that this system doesn't hold: its id and its name are stored as given. */
export const outsideId = () => positiveId().nullable()
const blankIsNull = <T extends z.ZodType>(schema: T) =>
  z.preprocess((value) => (value === '' ? null : value), schema)
/** Of a virtual MTA: 0 is the system default route; a blank text is null. */
export const virtualMtaId = () => blankIsNull(z.int().min(0).nullable())
/** Half of a bounce address; a blank text is null. */
export const bounceEmailId = () => blankIsNull(outsideId())
export const outsideName = () => boundedText({ max: 255 }).nullable()
