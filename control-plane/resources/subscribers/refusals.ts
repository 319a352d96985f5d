import { valuesTooLarge } from '../../../shared/store/value-bytes.ts'
import { emailExpectation } from '../../../shared/values/email.ts'
import { ipExpectation } from '../../../shared/values/ip.ts'
import { maxPageBytes } from '../../api/json-page.ts'
import { invalid, notFound, refusal } from '../../api/refusal.ts'
import { basePath } from '../../api/scope.ts'

// ---- the subscriber that a path names ----

export const noSubscriber = notFound('subscriber')
export const severalSubscribers = refusal(
  'multiple_records_found',
  (email: string) => `several subscribers have the email ${email}: name one of them by its id`,
  'ann@example.com',
)

export const maxNames = 100
/** On a list with another primary key, any number of subscribers may have one email. */
export const maxMatches = 500

export const noneOfThem = refusal(
  'not_found',
  (count: number) => `the list has none of the ${count} subscribers that are asked for`,
  2,
)
export const tooManyNames = refusal(
  'requested_too_many',
  (count: number) => `${count} subscribers are asked for, and ${maxNames} are possible at once`,
  101,
)
export const tooManyMatches = refusal(
  'requested_too_many',
  (listId: number) =>
    `more than ${maxMatches} subscribers have what is asked for, and ${maxMatches} are possible at once: go through them by pages of ${basePath}/mailing_lists/${listId}/subscribers_by_email/:email`,
  12,
)
export const subscribersTooLarge = refusal(
  'requested_too_many',
  `the reply would have more than ${maxPageBytes} bytes: ask for fewer subscribers at once`,
)

// ---- the values of a body ----

export const noEmail = invalid(`email must be ${emailExpectation}`)
export const noTime = invalid(
  (key: string) =>
    `${key} must be a time in ISO 8601 with T, such as 2026-11-21T09:00:00Z, in the years 1000 to 9999`,
  'subscribe_time',
)
export const noIp = invalid((key: string) => `${key} must be ${ipExpectation}`, 'subscribe_ip')

/** What the values of custom fields are refused for; `at` is their key path in the body. */
export const faultyFields = (at: string) => ({
  unknown: invalid((name: string) => `${at}.${name} is no custom field of the list`, 'Nothing'),
  twice: invalid((name: string) => `${at}.${name} is given twice`, 'Plan'),
  value: invalid(
    (name: string, expectation: string) => `${at}.${name} must be ${expectation}`,
    'Plan',
    'an integer',
  ),
})
export type FaultyFields = ReturnType<typeof faultyFields>

export const faultyCustomFields = faultyFields('custom_fields')
export const requiredField = invalid((name: string) => `custom_fields.${name} is required`, 'Plan')
export const requiredFieldUnset = invalid(
  (name: string) => `custom_fields.${name} is required and can't be unset`,
  'Plan',
)
export const customFieldsTooLarge = invalid(valuesTooLarge)
export const noConfirmationForm = notFound('confirmation form')

export const faultyValues = [noEmail, noTime, noIp, ...Object.values(faultyCustomFields)]

// ---- the write ----

export const identityExists = invalid(
  'email (or the primary key field, where the list has one) is taken: the list already has a subscriber with this identity',
)
export const limitReached = invalid("status can't be active: the organization's subscriber limit is reached")
export const limitHeldByImports = invalid(
  "status can't be active just now: imports hold what is left under the organization's subscriber limit, try again when they have ended",
)
/** Of every write of a subscriber. */
export const failedWrites = [customFieldsTooLarge, identityExists, limitReached, limitHeldByImports]

export const deletionDisabled = invalid(
  (ids: readonly number[]) =>
    `subscriber ${ids.join(', ')} can't be deleted: the directive disable_subscriber_deletion is enabled`,
  [9001],
)
export const noMailOfToken = refusal('not_found', 'there is no mail with this unsubscribe token')
export const noIpOfVisitor = invalid(`ip must be ${ipExpectation}`)
