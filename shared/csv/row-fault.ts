import type { FaultKind, RowFault } from '../contract/schemas/import.ts'
import { emailExpectation } from '../values/email.ts'

/**
 * The faults of rows: for the failed log with the cell's value, for an import's view without any.
 *
 * A chunk has its faults beside its counts, each a kind and a column, written in the transaction of each batch. Sentences
 * are made when a view is read: with 1,000 options of 255 characters in 500 fields, those of one chunk could come to
 * megabytes, and they could hold values. All are counted and not the first 20 of each chunk, whose sums aren't exact.
 */

/** Why a row can't be imported. */
export class RowFailure {
  /** All that is wrong with it, for the failed log. */
  reason: string
  /** The first that is wrong with it. */
  readonly fault: RowFault

  constructor(reason: string, fault: RowFault) {
    this.reason = reason
    this.fault = fault
  }
}

/** The fault of a whole record, or of a subscriber. */
export const wholeFault = (kind: FaultKind): RowFault => ({ kind, column: null, field_id: null })

const onlyTheAddress = `not ${emailExpectation}: only the address belongs in the cell`

/** Reasons of faults that don't depend on the column. */
export const faultReasons = {
  mailto: `${onlyTheAddress}, without "mailto:"`,
  angle_bracket: `${onlyTheAddress}, without a name and "<" or ">"`,
  separator: `not ${emailExpectation}: ":" and ";" belong to a label or separate cells; is csv_field_separator right?`,
  not_clearable: "the cell is blank, and a required field can't be cleared",
  nul: 'the record has a NUL character',
  too_long: 'the record is too long: it has more than 1 MiB',
  unterminated: 'unterminated enclosure',
  surplus_cells: 'the record has more cells than the mapping has columns',
  no_value: 'a new subscriber needs a value, and neither the file nor a default has one',
} as const

/** The reason of a cell's fault; `expectation` describes a good value of its column. */
export function cellReason(kind: FaultKind, expectation: string): string {
  switch (kind) {
    case 'mailto':
    case 'angle_bracket':
    case 'separator':
    case 'not_clearable':
      return faultReasons[kind]
    case 'blank':
      return `the cell is blank instead of ${expectation}`
    case 'day_first':
      return `not ${expectation}; if the day comes first, set date_format to dmy`
    default:
      return `not ${expectation}`
  }
}

const maxExampleLength = 60

/** A cell as typed, with at most 60 code points. */
export function exampleOf(cell: string): string {
  if (cell.length <= maxExampleLength) return cell
  // A code point is one or two UTF-16 units.
  const characters = Array.from(cell.slice(0, 2 * (maxExampleLength + 1)))
  return characters.length <= maxExampleLength
    ? cell
    : `${characters.slice(0, maxExampleLength - 1).join('')}…`
}
