import { parseApiTime } from '../../shared/values/date-time.ts'
import { refusal } from './refusal.ts'

/** Times in query strings. */

/** The refusal of a malformed time, with this parameter in the example of the API description. */
export const malformedTime = (example: string) =>
  refusal(
    'invalid_request',
    (parameter: string) =>
      `${parameter} must be ISO 8601 with date and time, such as 2026-01-31T08:00:00Z (a plus sign is sent as %2B), in the years 1000 to 9999, or UNIX seconds`,
    example,
  )

const unixSeconds = /^-?\d{1,12}(\.\d{1,9})?$/

/** `zone`: that of a time without an offset. Throws `invalid_request`. */
export function readTime(parameter: string, text: string, zone: string): Date {
  const instant = unixSeconds.test(text) ? new Date(Number(text) * 1000) : parseApiTime(text, zone)
  if (instant === null) throw malformedTime(parameter)(parameter)
  return instant
}
