import { ImportError } from '../contract/errors.ts'
import type { StagedFile } from '../storage/staging/staging.ts'

const checkedBytes = 64 * 1024
const minNuls = 100

/**
 * Looks at a file's first 64 KiB and returns where its content starts: after a UTF-8 BOM, if there is one.
 * Refuses what is UTF-16 or no text at all, before a row of it fails for a reason that nobody understands.
 */
export async function contentStart(source: StagedFile): Promise<number> {
  const head = Buffer.alloc(Math.min(checkedBytes, source.size))
  return contentStartIn(head.subarray(0, await source.read(head, 0)))
}

/** The same of the file's first bytes. */
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
      `${nuls} of the first ${bytes.length} bytes are NUL, so the file is no CSV text: is it UTF-16, or a spreadsheet or archive? Save it as CSV in UTF-8`,
    )
  }
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0
}

/** Records whose character set is checked before a row may be written. */
export const checkedRecords = 1_000

/** Why a file of which so many of the first records are invalid UTF-8 isn't imported; null when it is. */
export function mostlyInvalid(invalid: number, records: number): ImportError | null {
  if (invalid * 2 <= records) return null
  return new ImportError(
    'content_refused',
    `${invalid} of the first ${records} records are invalid UTF-8: if the file is ISO-8859-1, import it with "character_set": "ISO-8859-1"`,
  )
}
