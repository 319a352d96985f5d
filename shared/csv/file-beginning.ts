import { ImportError } from '../contract/errors.ts'
import type { StagedFile } from '../storage/staging/staging.ts'

const checkedBytes = 64 * 1024
const minNuls = 100

/**
 * Checks the first 64 KiB of a file and returns the offset of its content, which is 3 after a UTF-8 BOM. Throws an
 * ImportError for UTF-16 and for files that aren't text, because errors of single rows wouldn't explain the cause.
 */
export async function contentStart(source: StagedFile): Promise<number> {
  const head = Buffer.alloc(Math.min(checkedBytes, source.size))
  return contentStartIn(head.subarray(0, await source.read(head, 0)))
}

/** Does the same with the first bytes of a file. */
export function contentStartIn(beginning: Buffer): number {
  const bytes = beginning.subarray(0, checkedBytes)
  const isUtf16 = (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff)
  if (isUtf16)
    throw new ImportError(
      'content_refused',
      'the file begins with a UTF-16 byte order mark: save it as UTF-8 and import it again',
    )
  const nuls = bytes.filter((byte) => byte === 0).length
  if (nuls >= minNuls && nuls > bytes.length / 100) {
    throw new ImportError(
      'content_refused',
      `${nuls} of the first ${bytes.length} bytes are NUL, so the file isn't CSV text; it may be UTF-16, a spreadsheet or an archive: save it as CSV in UTF-8`,
    )
  }
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0
}

/** The character set of these first records is checked before a row is written. */
export const checkedRecords = 1_000

/** The error of an import when more than half of its first records are invalid UTF-8; null otherwise. */
export function encodingError(invalid: number, records: number): ImportError | null {
  if (invalid * 2 <= records) return null
  return new ImportError(
    'content_refused',
    `${invalid} of the first ${records} records are invalid UTF-8: if the file is ISO-8859-1, import it with "character_set": "ISO-8859-1"`,
  )
}
