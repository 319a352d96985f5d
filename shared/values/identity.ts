import { normalizeText } from './normalized-text.ts'

/**
 * Identities: two subscribers of a list are the same one when their identities are equal. An identity is the
 * comparison form of the email, or of the alternate primary key's value. It is the second part of a subscriber's `_id`.
 * Splitting, dedupe, writing and the API all use these functions, so that equality means the same everywhere.
 */

const ascii = /^[\x00-\x7f]*$/

/**
 * Folds the case for comparisons. All of them use this function, because runtimes differ in lower-casing beyond ASCII.
 */
export function comparisonForm(text: string): string {
  return (ascii.test(text) ? text : normalizeText(text, 'NFC')).toLowerCase()
}

export function subscriberKey(listId: number, identity: string): string {
  return `${listId}:${identity}`
}

/** Matches the `_id` of all subscribers of a list, as a range: ";" is the character after ":". */
export const subscribersOfList = (listId: number) => ({ $gte: `${listId}:`, $lt: `${listId};` })
