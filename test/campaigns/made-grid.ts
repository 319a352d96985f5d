import type { ImportOptions } from '../../shared/contract/schemas/import.ts'
import { plainSettings } from '../helpers/make-plan.ts'
import { madeCell } from './made-cell.ts'
import { madeOptions, type MadeImport } from './made-import.ts'
import { optionSets, type MadeField, type MadeList } from './made-list.ts'
import type { Random } from './random.ts'

/** A grid: one column's cells by the hundred, sound ones and all that is a character beside them. */

export const gridFields = (random: Random): MadeField[] => [
  { ...plainSettings, name: 'T', field_type: 'text', minimum_length: 2, maximum_length: 6 },
  { ...plainSettings, name: 'N', field_type: 'number', minimum_value: random.chance(0.5) ? -1000 : null },
  { ...plainSettings, name: 'D', field_type: 'date' },
  { ...plainSettings, name: 'Y', field_type: 'day_of_year' },
  { ...plainSettings, name: 'S', field_type: 'select_single_radio', options: random.oneOf(optionSets) },
  {
    ...plainSettings,
    name: 'C',
    field_type: 'select_multiple_checkboxes',
    options: random.oneOf(optionSets),
  },
  { ...plainSettings, name: 'B', field_type: 'boolean' },
]

export const gridColumns = [
  ...['email', 'status', 'consent', 'subscribe_ip', 'subscribe_time'],
  ...['confirmed', 'confirm_time', 'T', 'N', 'D', 'Y', 'S', 'C', 'B'],
]

export function madeGrid(column: string, list: MadeList, rows: number, random: Random): MadeImport {
  const options: ImportOptions = {
    ...madeOptions(list, random),
    column_mapping: column === 'email' ? ['email'] : ['email', column],
    overwrite: false,
    deactivate_subscribers_not_in_import: false,
    dry_run: false,
  }
  const { file_format: format } = options
  format.csv_has_headers = false
  format.character_set = 'utf-8'
  if (format.csv_field_separator === 'auto') format.csv_field_separator = ','
  const quote = format.csv_field_enclosure
  random.carelessness = 1
  const lines = Array.from({ length: rows }, (_, i) => {
    const cell = mutated(madeCell(column, list, format.date_format, random), random).toWellFormed()
    const enclosed = quote + cell.replaceAll(quote, quote + quote) + quote
    return column === 'email' ? enclosed : `row${i}@x.co${format.csv_field_separator}${enclosed}`
  })
  return { options, bytes: Buffer.from(`${lines.join('\n')}\n`), isInline: false }
}

const alphabet = Array.from(
  '0123456789:-/., |TZampmPM+_@"\'\t\n%;&\u00a0\u3000\ufeff\u200b\u00df\u0130\u212a\u0301\u00e9\u{1f600}\u0661\uff11\u2212\u3002xyn',
)

/** Adds, removes or replaces a character in half of the cells. */
function mutated(cell: string, random: Random): string {
  if (random.chance(0.5)) return cell
  const characters = Array.from(cell)
  const at = random.between(0, characters.length)
  const kind = random.between(0, 3)
  if (kind === 0) characters.splice(at, 0, random.oneOf(alphabet))
  else if (kind === 1) characters.splice(at, 1)
  else if (kind === 2) characters.splice(at, 1, random.oneOf(alphabet))
  else characters.splice(at, 0, ...characters.slice(at, at + 2))
  return characters.join('')
}
