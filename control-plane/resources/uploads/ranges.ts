import { badContentRange, wrongLength } from './refusals.ts'

/** The ranges of files in headers: RFC 9110, section 14. */

/** The part of a file that a body has: bytes from `first` to `last`, of `total` in all. */
export interface ContentRange {
  first: number
  last: number
  total: number
}

/** Null without the header. Throws `invalid_request` when it is not valid, or contradicts Content-Length. */
export function readContentRange(
  [header, ...others]: readonly string[],
  contentLength: number | undefined,
): ContentRange | null {
  if (header === undefined) return null
  const match = /^bytes +(\d{1,15})-(\d{1,15})\/(\d{1,15})$/i.exec(header.trim())
  const [first, last, total] = (match ?? []).slice(1).map(Number)
  const isValid =
    others.length === 0 &&
    first !== undefined &&
    last !== undefined &&
    total !== undefined &&
    first <= last &&
    last < total
  if (!isValid) throw badContentRange()
  const length = last - first + 1
  if (contentLength !== undefined && contentLength !== length) throw wrongLength(contentLength, length)
  return { first, last, total }
}

interface ByteRange {
  start: number
  /** Without this byte. */
  end: number
}

/**
 * The range of a file that a request asks for: `whole` without a range, and for those that a server may ignore: faulty
 * ones, several, and one of another version of the file (If-Range). A date there doesn't name a version, because a file
 * may change twice in a second. Null when the file has no byte of it.
 */
export function requestedRange(
  [header, ...others]: readonly string[],
  [ifRange]: readonly string[],
  { size, etag }: { size: number; etag: string },
): ByteRange | 'whole' | null {
  if (header === undefined || others.length > 0) return 'whole'
  if (ifRange !== undefined && ifRange !== etag) return 'whole'
  const [, first = '', last = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/i.exec(header.replaceAll(' ', '')) ?? []
  if (first === '') {
    if (last === '') return 'whole'
    const length = Math.min(Number(last), size)
    return length === 0 ? null : { start: size - length, end: size }
  }
  if (last !== '' && Number(last) < Number(first)) return 'whole'
  if (Number(first) >= size) return null
  return { start: Number(first), end: last === '' ? size : Math.min(Number(last) + 1, size) }
}
