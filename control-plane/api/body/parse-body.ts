import { createHash } from 'node:crypto'
import { packed } from '../../../shared/storage/staging/packed-content.ts'
import { binaryMegabyte } from '../../../shared/values/byte-sizes.ts'
import { RequestError } from '../request-error.ts'
import { parseJson } from './json-text.ts'

/** A JSON body as it has arrived. */
export interface SentBody {
  /** All of it, decompressed. */
  pieces: readonly Uint8Array[]
  inlineText?: InlineText | undefined
}

/** The one text of a body that may be large. The parsed body has a placeholder for it. */
export interface InlineText {
  /** The keys that lead to it. */
  path: readonly string[]
  /** Only so much of its beginning is kept, as it is; without it all of it is packed. */
  sampledBytes?: number | undefined
}

export interface ParsedBody {
  /** The JSON value; undefined for a request without a body. */
  value: unknown
  /** SHA-256 of the decompressed bytes, as base64url. */
  hash: string
  /** The inline text, packed; null when there is none. */
  content: InlineContent | null
  /** The beginning of the inline text, where it isn't packed. */
  sample: ContentSample | null
}

/** A body's text, as the staging stores it. */
export interface InlineContent {
  packed: Uint8Array
  /** Whether all of it is white space. */
  isBlank: boolean
}

/** The beginning of a body's text, for an endpoint that only inspects it. */
export interface ContentSample {
  /** UTF-8. */
  bytes: Uint8Array
  /** Whether the sample is all of the text. */
  isWhole: boolean
  /** Whether all of the text is white space. */
  isBlank: boolean
}

/** Everything beside the inline text. */
const maxOtherBytes = binaryMegabyte
/** It must be a text, as what it stands for is one. */
const placeholder = 'inline'

/** Throws `invalid_request` for a body that is no JSON, and 413 for one that is too large beside its inline text. */
export function parseBody({ pieces, inlineText }: SentBody): ParsedBody {
  const bytes = Buffer.concat(pieces)
  const value = bytes.length === 0 ? undefined : parseJson(bytes)
  const hash = createHash('sha256').update(bytes).digest('base64url')
  const text = inlineText === undefined ? null : takeText(value, inlineText.path)
  if (
    inlineText !== undefined &&
    bytes.length > maxOtherBytes &&
    Buffer.byteLength(JSON.stringify(value)) > maxOtherBytes
  )
    throw allElseTooLarge(inlineText.path)
  if (text === null) return { value, hash, content: null, sample: null }
  const content = Buffer.from(text)
  const isBlank = text.trim() === ''
  const { sampledBytes } = inlineText!
  return sampledBytes === undefined
    ? {
        value,
        hash,
        content: { packed: packed(content), isBlank },
        sample: null,
      }
    : { value, hash, content: null, sample: { ...beginning(content, sampledBytes), isBlank } }
}

/** The text at the path, in whose place the value gets a placeholder; null when there is none. */
function takeText(value: unknown, path: readonly string[]): string | null {
  const parent = path.slice(0, -1).reduce(valueAt, value)
  const last = path.at(-1)!
  const text = valueAt(parent, last)
  if (typeof text !== 'string') return null
  ;(parent as Record<string, unknown>)[last] = placeholder
  return text
}

const valueAt = (value: unknown, key: string): unknown =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, key)
    ? (value as Record<string, unknown>)[key]
    : undefined

const beginning = (content: Buffer, maxBytes: number): Omit<ContentSample, 'isBlank'> => ({
  bytes: Buffer.from(content.subarray(0, maxBytes)),
  isWhole: content.length <= maxBytes,
})

/** The refusal of a body whose text at `path` may be large, while everything else may not. */
export const allElseTooLarge = (path: readonly string[]): RequestError =>
  new RequestError(
    'invalid_request',
    `the body without ${path.join('.')} may have at most ${maxOtherBytes} bytes`,
    { status: 413 },
  )
