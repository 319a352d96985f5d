import { isUtf8 } from 'node:buffer'
import { RequestError } from '../request-error.ts'

/** Maximum depth of containers, because documents are read by recursion. A sensible document has fewer than ten. */
const maxLevels = 64
/** Maximum number of brackets and commas. Two bytes of JSON can take 40 bytes as a value, and 200 as a refusal. */
const maxValues = 50_000

/** `problem` continues the sentence, such as `is not valid JSON`. */
export const refusedBody = (problem: string): RequestError =>
  new RequestError('invalid_request', `the body ${problem}`)

/** Parses a JSON text in UTF-8; a byte order mark is allowed. Throws `invalid_request`. */
export function parseJson(bytes: Buffer): unknown {
  // Broken UTF-8 would be stored as other characters.
  if (!isUtf8(bytes)) throw refusedBody('is not valid UTF-8')
  const { levels, values } = measureShape(bytes)
  if (levels > maxLevels) throw refusedBody(`is nested more than ${maxLevels} levels deep`)
  if (values > maxValues) throw refusedBody(`holds more than ${maxValues} values`)
  let value: unknown
  try {
    value = JSON.parse(bytes.toString('utf8', hasByteOrderMark(bytes) ? 3 : 0))
  } catch {
    throw refusedBody('is not valid JSON')
  }
  // Valid UTF-8 has no half of a surrogate pair, but an escape in JSON can be one.
  const hasEscape = bytes.includes('\\ud') || bytes.includes('\\uD')
  if (hasEscape && !isWellFormed(value)) throw halfPair()
  return value
}

const halfPair = (): RequestError => refusedBody('holds half of a surrogate pair')

const hasByteOrderMark = (bytes: Buffer): boolean =>
  bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf

/** Counts levels of brackets, and brackets and commas, outside of strings. For invalid JSON the counts mean nothing. */
function measureShape(bytes: Buffer): { levels: number; values: number } {
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
