import type { SubscriberStatus } from '../../../../shared/contract/schemas/subscriber.ts'
import { lacksNeed } from '../../../api/authorization.ts'
import { permission } from '../../../api/endpoint.ts'
import { invalid, refusal } from '../../../api/refusal.ts'
import { faultyFields } from '../refusals.ts'

/** The permission that a creation needs, in addition to the endpoint's. */
export const needOfCreation = permission('subscriber', 'create')
export const mayNotCreate = lacksNeed(needOfCreation)

export const maxEntries = 100

export const namesOrIds = refusal(
  'invalid_request',
  'exactly one of autoresponder_names and autoresponder_ids must be given, with one entry at least',
)
export const tooManyEntries = refusal(
  'requested_too_many',
  (count: number) => `${count} autoresponders are asked for, and ${maxEntries} entries are possible at once`,
  101,
)
const noAutoresponder = (example: string | number) =>
  refusal(
    'not_found',
    (listId: number, entries: readonly (string | number)[]) =>
      `mailing list ${listId} has no autoresponder ${entries.map((entry) => JSON.stringify(entry)).join(', ')}`,
    12,
    [example],
  )
export const noAutoresponderNamed = noAutoresponder('Order *')
export const noAutoresponderWithId = noAutoresponder(4711)
export const notActive = refusal(
  'invalid_request',
  (id: number, status: SubscriberStatus) =>
    `subscriber ${id} is ${status}, and autoresponders are triggered for active ones only: with reactivate_subscriber it is made active`,
  9001,
  'bounced',
)

/** Every reaction that the call queues stores the texts. */
export const maxCharacters = 100_000
export const maxKeyLength = 50

const keyRefusal = <More extends unknown[]>(reason: (...more: More) => string, key: string, ...more: More) =>
  refusal(
    'invalid_request',
    (given: string, hash: string, ...rest: More) =>
      `the key ${JSON.stringify(given.slice(0, maxKeyLength + 1))} of ${hash} ${reason(...rest)}`,
    key,
    'content_replacement_fields',
    ...more,
  )

/** What the keys of replacing texts are refused for. */
export const faultyKeys = {
  length: keyRefusal(() => `must have 1 to ${maxKeyLength} characters`, ''),
  nul: keyRefusal(() => 'must not hold NUL characters', 'a\0'),
  noLetter: keyRefusal(() => 'must hold a letter or a digit', '-'),
  same: keyRefusal(
    (other: string) => `is the same as ${JSON.stringify(other)}`,
    'Order_number',
    'Order number',
  ),
}

/** What the replacing texts are refused for. */
export const faultyTexts = {
  notText: invalid((key: string) => `${key} must be a string`, 'content_replacement_fields.Order'),
  nul: invalid((key: string) => `${key} must not hold NUL characters`, 'content_replacement_fields.Order'),
  tooLong: invalid(
    (characters: number) =>
      `content_replacement_fields and content_replacement_fields_raw must have at most ${maxCharacters} characters together, and have ${characters}`,
    maxCharacters + 1,
  ),
}

export const faultySections = {
  for_all: faultyFields('custom_fields.for_all'),
  for_new: faultyFields('custom_fields.for_new'),
  for_active: faultyFields('custom_fields.for_active'),
  for_reactivated: faultyFields('custom_fields.for_reactivated'),
}
