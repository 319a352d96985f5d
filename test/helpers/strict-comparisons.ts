import { Match, Same } from 'tcompare'

/**
 * Loaded before each test file (.taprc). In tap, `same` and `match` take 1 for '1' and null for undefined. In a pattern of
 * `match`, moreover, a string matches where it occurs anywhere in the value, an array where the value begins with it, and
 * `{}` and empty sets match whatever is of their kind: `[]` matches every array. Here values of different types differ, and
 * strings, arrays, sets and maps of a pattern are whole. An object of a pattern still names some of the keys, and `{}` none.
 * For a part of a text the pattern is a regular expression.
 *
 * A planted fault survived beside a test that asserts `warnings: []`. `strictSame` would name all keys of a reply in each
 * of 1,460 places, and tap's `matchStrict` is as loose for arrays and strings. A plugin in place of tap's assertions would
 * have to bring all of them. package.json names the version of tcompare that tap has.
 */
// oxlint-disable-next-line typescript/unbound-method -- called with the comparison below
const same = Same.prototype.test
// oxlint-disable-next-line typescript/unbound-method
const match = Match.prototype.test

Same.prototype.test = function (this: Same) {
  const { object, expect } = this
  if (typeof object !== typeof expect || isOtherType(object, expect)) return false
  if (object instanceof Date !== expect instanceof Date) return false
  return same.call(this)
}

Match.prototype.test = function (this: Match) {
  const { object, expect } = this
  if (isOtherType(object, expect)) return false
  if (typeof expect === 'string') return typeof object === 'string' && isSameText(object, expect)
  if (Array.isArray(expect)) {
    if (!Array.isArray(object) || object.length !== expect.length) return false
  } else if (isPlainObject(expect)) {
    if (Array.isArray(object)) return false
    if (Object.keys(expect).length === 0) return isPlainObject(object) && Object.keys(object).length === 0
  } else if (sizeOf(expect) !== undefined && sizeOf(object) !== sizeOf(expect)) return false
  return match.call(this)
}

/** Throws where the pattern is only a part of the text. Returning false would let `notMatch` pass. */
function isSameText(text: string, expect: string): boolean {
  if (text !== expect && expect !== '' && text.includes(expect))
    throw new Error(`${JSON.stringify(expect)} is only a part of the text: use a regular expression`)
  return text === expect
}

const isOtherType = (object: unknown, expect: unknown): boolean =>
  // oxlint-disable-next-line eqeqeq -- equal only where types are ignored
  object == expect && object !== expect

const isPlainObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype

const sizeOf = (value: unknown): number | undefined =>
  value instanceof Set || value instanceof Map ? value.size : undefined
