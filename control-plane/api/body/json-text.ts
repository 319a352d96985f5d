import { isUtf8 } from 'node:buffer'
import { RequestError } from '../../../shared/contract/errors.ts'

/** Containers within one another. What looks at a document goes down it by recursion; nothing sensible has ten. */
const maxLevels = 64
/** Counted by brackets and commas. A value may take 40 bytes of memory and its refusal 200, for two bytes of JSON. */
const maxValues = 50_000

/** Why a body isn't taken as JSON, such as `is not valid JSON`. */
export const refusedBody = (problem: string): RequestError =>
  new RequestError('invalid_request', `the body ${problem}`)

/** The value of a JSON text in UTF-8, a byte order mark allowed. Throws `invalid_request`. */
export function parseJson(bytes: Buffer): unknown {
  // Text that isn't whole would be stored as something else.
  if (!isUtf8(bytes)) throw refusedBody('is not valid UTF-8')
  const { levels, values } = shapeOf(bytes)
  if (levels > maxLevels) throw refusedBody(`is nested more than ${maxLevels} levels deep`)
  if (values > maxValues) throw refusedBody(`holds more than ${maxValues} values`)
  let value: unknown
  try {
    value = JSON.parse(bytes.toString('utf8', hasByteOrderMark(bytes) ? 3 : 0))
  } catch {
    throw refusedBody('is not valid JSON')
  }
  // UTF-8 has no half characters, an escape in JSON may.
  const hasEscape = bytes.includes('\\ud') || bytes.includes('\\uD')
  if (hasEscape && !isWellFormed(value)) throw halfPair()
  return value
}

export const halfPair = (): RequestError => refusedBody('holds half of a surrogate pair')

const hasByteOrderMark = (bytes: Buffer): boolean =>
  bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf

/** How deep the brackets outside of strings go, and how many brackets and commas there are; of what is no JSON, any number. */
function shapeOf(bytes: Buffer): { levels: number; values: number } {
  let [depth, levels, values] = [0, 0, 0]
  let inString = false
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!
    if (inString) {
      if (byte === 0x5c) i++
      else if (byte === 0x22) inString = false
    } else if (byte === 0x22) inString = true
    else if (byte === 0x2c) values++
    else if (byte === 0x7b || byte === 0x5b) {
      values++
      levels = Math.max(levels, ++depth)
    } else if (byte === 0x7d || byte === 0x5d) depth--
  }
  return { levels, values }
}

function isWellFormed(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed()
  if (typeof value !== 'object' || value === null) return true
  return Object.entries(value).every(([key, entry]) => key.isWellFormed() && isWellFormed(entry))
}
