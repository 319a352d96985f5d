/**
 * What makes two subscribers of a list the same one. The identity is the comparison form of the email, or of the
 * alternate primary key's value; it is the second half of a subscriber's `_id`. Splitting, dedupe, writing and the
 * API all come here, so that equal means the same everywhere.
 */

const ascii = /^[\x00-\x7f]*$/

/** Text compared without case. One function everywhere: lower-casing differs between engines beyond ASCII. */
export function comparisonForm(text: string): string {
  return (ascii.test(text) ? text : text.normalize('NFC')).toLowerCase()
}

export function subscriberKey(listId: number, identity: string): string {
  return `${listId}:${identity}`
}

/** The filter on `_id` for all subscribers of a list: ";" follows ":". */
export const subscribersOfList = (listId: number) => ({ $gte: `${listId}:`, $lt: `${listId};` })

/**
 * The order of identities: by code point, which is the order of their UTF-8 bytes and of MongoDB's `_id` index.
 * (JavaScript's `<` goes by UTF-16 units and puts U+10000 before U+E000.)
 */
export function compareIdentities(a: string, b: string): number {
  const length = Math.min(a.length, b.length)
  for (let i = 0; i < length; i += 1) {
    const x = a.charCodeAt(i)
    const y = b.charCodeAt(i)
    if (x === y) continue
    return isSurrogate(x) === isSurrogate(y) ? x - y : isSurrogate(x) ? 1 : -1
  }
  return a.length - b.length
}

const isSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdfff
