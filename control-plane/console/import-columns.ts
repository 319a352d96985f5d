import type { CustomFieldView } from '../resources/custom-fields/schemas.ts'
import type { InspectionView } from '../resources/import-inspection/schemas.ts'
import type { MailingListView } from '../resources/mailing-lists/schemas.ts'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import type { BuiltInColumn } from '../../shared/contract/schemas/import.ts'

/** What the columns of a file become. */

const builtInColumns: BuiltInColumn[] = [
  ...(['email', 'status', 'consent', 'email_format', 'subscribe_time', 'subscribe_ip'] as const),
  ...(['remove_time', 'remove_ip', 'confirmed', 'confirm_time'] as const),
]

export type Target = 'ignore' | 'new' | `field:${string}`

export const targetName = (target: Target): string | null =>
  target.startsWith('field:') ? target.slice('field:'.length) : null

const asTarget = (name: string | null | undefined): Target =>
  name === null || name === undefined ? 'ignore' : `field:${name}`

/** As the service compares names. */
const comparisonForm = (text: string): string => text.normalize('NFC').toLowerCase()
const isSameName = (a: string, b: string): boolean => comparisonForm(a) === comparisonForm(b)

export const usableColumns = (list: MailingListView): string[] =>
  builtInColumns.filter((name) =>
    name === 'email_format' ? list.has_format : !name.startsWith('confirm') || list.has_confirmed,
  )

/** The columns `error` and `line` that a failed log has at its end say nothing about a subscriber. */
export function ownColumns({ columns }: InspectionView): number[] {
  const last = columns.length - 1
  if (columns[last]?.header !== 'error') return []
  return columns[last - 1]?.header === 'line' ? [last - 1, last] : [last]
}

export function proposedTargets(inspection: InspectionView): Target[] {
  const own = ownColumns(inspection)
  return inspection.columns.map((_, i) =>
    own.includes(i) ? 'ignore' : asTarget(inspection.column_mapping[i]),
  )
}

interface Earlier {
  earlier: ImportView
  fields: CustomFieldView[]
  /** Whether some equal headers suffice, or all have to be equal. */
  isPartEnough: boolean
}

/** The mapping of an earlier import, for columns of equal header; null where it doesn't fit. */
export function likeTargets(
  inspection: InspectionView,
  { earlier, fields, isPartEnough }: Earlier,
): Target[] | null {
  const own = ownColumns(inspection)
  const headers = inspection.columns.map(({ header }) => header)
  const known = earlier.headers ?? []
  const theirs = headers.slice(0, headers.length - own.length)
  const isEqual = theirs.length === known.length && theirs.every((header, i) => header === known[i])
  const isHeaderless = !inspection.csv_has_headers && earlier.headers === null
  if (!isEqual && !isPartEnough) return null
  if (!isEqual && !isHeaderless && !headers.some((header) => header !== null && known.includes(header)))
    return null
  const mapped = (column: number): string | null => {
    const at = isEqual || isHeaderless ? column : known.indexOf(headers[column] ?? '')
    return earlier.column_mapping[at] ?? null
  }
  const exists = (name: string) =>
    builtInColumns.some((column) => column === name) || fields.some((field) => isSameName(field.name, name))
  const taken = new Set<string>()
  return headers.map((header, i) => {
    if (own.includes(i)) return 'ignore'
    const isKnown = isEqual || isHeaderless || (header !== null && known.includes(header))
    const name = isKnown ? mapped(i) : (inspection.column_mapping[i] ?? null)
    if (name === null || !exists(name) || taken.has(comparisonForm(name))) return 'ignore'
    taken.add(comparisonForm(name))
    return asTarget(name)
  })
}

const maxNameLength = 49

/** The name of the text field that is made of a column, by its header; null for a blank one. */
export function newFieldName(header: string | null): string | null {
  const name = Array.from((header ?? '').trim())
    .slice(0, maxNameLength)
    .join('')
    .trim()
  return name === '' ? null : name
}

/** Whether a field can be made of a column: its name must not be taken by a field, a built-in column or an earlier column. */
export function canBeNew(
  column: number,
  { columns }: InspectionView,
  fields: CustomFieldView[],
  targets: Target[],
): boolean {
  const name = newFieldName(columns[column]?.header ?? null)
  if (name === null) return false
  const earlier = targets.flatMap((target, i) =>
    target === 'new' && i !== column ? [newFieldName(columns[i]?.header ?? null) ?? ''] : [],
  )
  return ![...builtInColumns, ...fields.map((field) => field.name), ...earlier].some((taken) =>
    isSameName(taken, name),
  )
}

const isMapped = (targets: Target[], names: string[]): boolean =>
  targets.some((target) => names.includes(targetName(target) ?? ''))

export const saysConsent = (targets: Target[]): boolean => isMapped(targets, ['status', 'consent'])
export const hasEmail = (targets: Target[]): boolean => isMapped(targets, ['email'])

const dateTypes = ['date', 'day_of_year']
const twoNumbers = /^\s*\d{1,2}[-/]\d{1,2}(?:[-/]\d{4}|\s*$)/

/** Whether a mapped column has dates whose day and month could be either. */
export function hasAmbiguousDates(
  { columns, date_format }: InspectionView,
  targets: Target[],
  fields: CustomFieldView[],
): boolean {
  if (date_format !== null) return false
  return columns.some(({ samples }, i) => {
    const name = targetName(targets[i] ?? 'ignore') ?? ''
    const type = fields.find((field) => isSameName(field.name, name))?.field_type ?? ''
    const isDate = dateTypes.includes(type) || /^(subscribe|remove|confirm)_time$/.test(name)
    return isDate && samples.some((sample) => twoNumbers.test(sample))
  })
}

export interface ColumnNote {
  text: string
  isFault: boolean
}

/** What the inspection says of one column: its warnings, and how many of the first rows fail by it. */
export function columnNotes(
  column: number,
  { warnings, records }: InspectionView,
  target: Target,
): ColumnNote[] {
  const about = new RegExp(`^column ${column + 1}\\b`)
  const notes = warnings.filter((text) => about.test(text)).map((text) => ({ text, isFault: false }))
  const name = targetName(target)
  const faults = name === null ? [] : records.filter(({ error }) => error?.includes(`${name}: `) === true)
  if (faults.length === 0) return notes
  const sentence = faults[0]?.error?.split('; ').find((part) => part.startsWith(`${name}: `)) ?? ''
  return [
    ...notes,
    { text: `${faults.length} of the first ${records.length} rows fail: ${sentence}`, isFault: true },
  ]
}

/** Warnings that belong to no column. */
export const otherWarnings = ({ warnings }: InspectionView): string[] =>
  warnings.filter((text) => !/^column \d+\b/.test(text))
