import { Match, Same } from 'tcompare'

/**
 * Loaded before each test file (.taprc). In tap, `same` and `match` take 1 for '1' and null for undefined. In a pattern
 * of `match`, moreover, a string is any part of the value, an array any beginning of it, and `{}` any object: `[]` matches
 * every array. Here values of different types differ, and strings and arrays of a pattern are whole. An object still names
 * some of the keys, and `{}` none. For a part of a text the pattern is a regular expression.
 */
// oxlint-disable-next-line typescript/unbound-method -- called with the comparison below
const same = Same.prototype.test
// oxlint-disable-next-line typescript/unbound-method
const match = Match.prototype.test

Same.prototype.test = function (this: Same) {
  return isOtherType(this.object, this.expect) ? false : same.call(this)
}

Match.prototype.test = function (this: Match) {
  const { object, expect } = this
  if (isOtherType(object, expect)) return false
  if (typeof object === 'string' && typeof expect === 'string') return isSameText(object, expect)
  if (Array.isArray(expect) && Array.isArray(object) && expect.length !== object.length) return false
  if (isEmptyObject(expect) && Object.keys(object as object).length > 0) return false
  return match.call(this)
}

/** Throws for a part, so that neither `match` nor `notMatch` takes a string for one. */
function isSameText(text: string, expect: string): boolean {
  if (text !== expect && expect !== '' && text.includes(expect))
    throw new Error(`${JSON.stringify(expect)} is only a part of the text: use a regular expression`)
  return text === expect
}

const isOtherType = (object: unknown, expect: unknown): boolean =>
  // oxlint-disable-next-line eqeqeq -- equal only where types are ignored
  object == expect && object !== expect

const isEmptyObject = (value: unknown): boolean =>
  typeof value === 'object' &&
  value !== null &&
  Object.getPrototypeOf(value) === Object.prototype &&
  Object.keys(value).length === 0
