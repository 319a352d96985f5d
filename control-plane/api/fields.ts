import { z } from 'zod'
import { emailExpectation, emailIdentity } from '../../shared/values/email.ts'

/** The kinds of values that request documents are made of, each with the message that a wrong one gets. */

/** A trimmed name that isn't blank. */
export const nameText = (longest: number) =>
  z
    .string()
    .transform((text) => text.trim())
    .pipe(z.string().min(1).max(longest))
    .refine((text) => !text.includes('\0'), { error: 'must not hold NUL characters' })

/** One line of a mail's header, trimmed; blank is null. Whatever could end the line is refused. */
export const headerText = (longest: number) =>
  z
    .string()
    .transform((text) => text.trim())
    .pipe(z.string().max(longest))
    .refine((text) => !/[\x00-\x1f\x7f\u2028\u2029]/.test(text), {
      error: 'must be one line without control characters',
    })
    .transform(nullIfBlank)

/** An address of a mail's header, trimmed; blank is null. */
export const emailText = () =>
  z
    .string()
    .transform((text) => text.trim())
    .refine((text) => text === '' || emailIdentity(text) !== null, { error: `must be ${emailExpectation}` })
    .transform(nullIfBlank)

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
  return z.string().transform((text, context): T[number] => {
    const value = values.find((candidate) => candidate === text.toLowerCase())
    if (value !== undefined) return value
    context.addIssue({
      code: 'custom',
      message: `must be one of ${values.map((candidate) => JSON.stringify(candidate)).join(', ')} (case doesn't matter)`,
    })
    return z.NEVER
  })
}

/** `page` and `per_page` of a query, `per_page` clamped to what is allowed. */
export function pagingQuery(options: { perPage: number; most: number }) {
  return {
    page: wholeNumber(0)
      .default(0)
      .meta({
        description: 'number of the page, from 0',
        override: { type: 'integer', minimum: 0, default: 0 },
      }),
    per_page: wholeNumber(1)
      .transform((perPage) => Math.min(perPage, options.most))
      .default(options.perPage)
      .meta({
        description: `records on a page; more than ${options.most} are taken for ${options.most}`,
        override: { type: 'integer', minimum: 1, default: options.perPage },
      }),
  }
}

/** A whole number as it stands in a query. */
export function wholeNumber(least: number) {
  return z
    .string()
    .refine((text) => /^\d{1,15}$/.test(text) && Number(text) >= least, {
      error: `must be ${least === 0 ? 'a non-negative' : 'a positive'} integer`,
    })
    .transform(Number)
}
