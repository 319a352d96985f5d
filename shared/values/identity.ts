import { normalizeText } from './normalized-text.ts'

/**
 * What makes two subscribers of a list the same one. The identity is the comparison form of the email, or of the
 * alternate primary key's value; it is the second half of a subscriber's `_id`. Splitting, dedupe, writing and the
 * API all come here, so that equal means the same everywhere.
 */

const ascii = /^[\x00-\x7f]*$/

/** Text compared without case. One function everywhere: lower-casing differs between engines beyond ASCII. */
export function comparisonForm(text: string): string {
  return (ascii.test(text) ? text : normalizeText(text, 'NFC')).toLowerCase()
}

export function subscriberKey(listId: number, identity: string): string {
  return `${listId}:${identity}`
}

/** The filter on `_id` for all subscribers of a list: ";" follows ":". */
export const subscribersOfList = (listId: number) => ({ $gte: `${listId}:`, $lt: `${listId};` })
