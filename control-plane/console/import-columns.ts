import { comparisonForm } from '../../shared/values/identity.ts'
import type { BuiltInColumn } from '../../shared/contract/schemas/import.ts'
import type { CustomFieldView } from '../resources/custom-fields/schemas.ts'
import type { InspectionView } from '../resources/import-inspection/schemas.ts'
import type { MailingListView } from '../resources/mailing-lists/schemas.ts'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'

/** What the columns of a file become: `ignore`, a `new` text field, or what the mapping takes. */
export type Target = 'ignore' | 'new' | `field:${string}`

export const builtInNames: Record<BuiltInColumn, string> = {
  email: 'Email address',
  status: 'Status',
  consent: 'Consent (yes or no)',
  email_format: 'Email format',
  subscribe_time: 'Time subscribed',
  subscribe_ip: 'IP subscribed from',
  remove_time: 'Time removed',
  remove_ip: 'IP removed from',
  confirmed: 'Confirmed',
  confirm_time: 'Time confirmed',
}
const builtInColumns = Object.keys(builtInNames) as BuiltInColumn[]

/** The entry of the mapping. New text fields have none yet. */
export const fieldOf = (target: Target | undefined): string | null =>
  target?.startsWith('field:') === true ? target.slice('field:'.length) : null

const asTarget = (name: string | null | undefined): Target =>
  name === null || name === undefined ? 'ignore' : `field:${name}`

const isSameName = (a: string, b: string): boolean => comparisonForm(a) === comparisonForm(b)

export const usableColumns = (list: MailingListView): BuiltInColumn[] =>
  builtInColumns.filter((name) =>
    name === 'email_format' ? list.has_format : !name.startsWith('confirm') || list.has_confirmed,
  )

/**
 * The columns `error` and `line` that a failed log has at its end, and the log of a mended log twice, say nothing about a
 * subscriber.
 */
export function ownColumns({ columns }: InspectionView): number[] {
  const own: number[] = []
  for (let last = columns.length - 1; columns[last]?.header === 'error'; last -= 1) {
    own.unshift(last)
    if (columns[last - 1]?.header === 'line') own.unshift((last -= 1))
  }
  return own
}

export function proposedTargets(inspection: InspectionView): Target[] {
  const own = ownColumns(inspection)
  return inspection.columns.map((_, i) =>
    own.includes(i) ? 'ignore' : asTarget(inspection.column_mapping[i]),
  )
}

/**
 * The mapping of an earlier import, for columns of equal header; null where it doesn't fit: with `isPartEnough` one equal
 * header suffices, else all have to be equal.
 */
export function likeTargets(
  inspection: InspectionView,
  earlier: ImportView,
  fields: CustomFieldView[],
  isPartEnough: boolean,
): Target[] | null {
  const own = ownColumns(inspection)
  const headers = inspection.columns.map(({ header }) => header)
  const known: (string | null)[] = earlier.headers ?? earlier.column_mapping.map(() => null)
  const width = headers.length - own.length
  // The earlier file may have been a failed log itself, with such columns of its own.
  const isEqual = width <= known.length && known.every((header, i) => header === headers[i])
  const isSome = headers.some((header) => header !== null && known.includes(header))
  if (!isEqual && !(isPartEnough && isSome)) return null
  const names = [...builtInColumns, ...fields.map(({ name }) => name)]
  return headers.map((header, i) => {
    const at = isEqual ? i : known.indexOf(header)
    const name = (at === -1 ? inspection.column_mapping[i] : earlier.column_mapping[at]) ?? null
    return own.includes(i) || name === null || !names.some((other) => isSameName(other, name))
      ? 'ignore'
      : asTarget(name)
  })
}

const maxNameLength = 49

/** The name of the text field that is made of a column, by its header; blank for a blank one. */
export const newFieldName = ({ columns }: InspectionView, column: number): string =>
  Array.from((columns[column]?.header ?? '').trim())
    .slice(0, maxNameLength)
    .join('')
    .trim()

interface NewField {
  column: number
  inspection: InspectionView
  fields: CustomFieldView[]
  targets: Target[]
}

/** A field can be made where its name isn't that of a field, a built-in column or another column's new field. */
export function canBeNew({ column, inspection, fields, targets }: NewField): boolean {
  const name = newFieldName(inspection, column)
  const isOther = (target: Target, i: number) => target === 'new' && i !== column
  const others = targets.flatMap((target, i) => (isOther(target, i) ? [newFieldName(inspection, i)] : []))
  const taken = [...builtInColumns, ...fields.map((field) => field.name), ...others]
  return name !== '' && !taken.some((other) => isSameName(other, name))
}

export const saysConsent = (mapping: (string | null)[]): boolean =>
  mapping.some((name) => name === 'status' || name === 'consent')

const twoNumbers = /^\s*\d{1,2}[-/]\d{1,2}(?:[-/]\d{4}|\s*$)/

/** Whether a mapped column has dates whose day and month could be either. */
export function hasAmbiguousDates(
  { columns, date_format }: InspectionView,
  targets: Target[],
  fields: CustomFieldView[],
): boolean {
  return columns.some(({ samples }, i) => {
    const name = fieldOf(targets[i]) ?? ''
    const type = fields.find((field) => isSameName(field.name, name))?.field_type ?? ''
    const isDate = ['date', 'day_of_year'].includes(type) || /^(subscribe|remove|confirm)_time$/.test(name)
    return date_format === null && isDate && samples.some((sample) => twoNumbers.test(sample))
  })
}

/** What the inspection warns of in one column. */
export const columnWarnings = ({ warnings }: InspectionView, column: number): string[] =>
  warnings.filter((text) => new RegExp(`^column ${column + 1}\\b`).test(text))

export const otherWarnings = ({ warnings }: InspectionView): string[] =>
  warnings.filter((text) => !/^column \d+\b/.test(text))

/** How many of the first rows fail by a column, and why; null for none. */
export function columnFault({ records }: InspectionView, target: Target): string | null {
  const start = `${fieldOf(target)}: `
  const sentences = records.flatMap(
    ({ error }) => error?.split('; ').find((part) => part.startsWith(start)) ?? [],
  )
  return sentences.length === 0
    ? null
    : `${sentences.length} of the first ${records.length} rows fail: ${sentences[0]}`
}
