import { isEmail } from '../../../shared/csv/dialect.ts'
import { columnWordTest } from './column-words.ts'

/** Whether the first record is a header: by its words, or because it differs from the other records. */
export function detectHeader([first, ...others]: string[][], fieldNames: readonly string[]): boolean {
  if (first === undefined) return true
  if (first.some((cell) => isEmail(cell))) return false
  if (first.some(columnWordTest(fieldNames))) return true
  const emailColumn = first.findIndex(
    (_, i) => others.filter((record) => isEmail(record[i] ?? '')).length * 2 > others.length,
  )
  if (others.length > 0 && emailColumn !== -1) return first[emailColumn]?.includes('@') !== true
  return first.every((cell) => cell.trim() !== '' && !/^[\d\s.,:/+-]*$|@/.test(cell))
}
