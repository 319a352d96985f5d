import { builtInColumns } from '../../../shared/contract/schemas/import.ts'
import { consentOfHeader } from '../../../shared/csv/consent-headers.ts'
import { comparisonForm } from '../../../shared/values/identity.ts'
import type { InspectionView } from '../../resources/import-inspection/schemas.ts'
import { applyMap, isSameName, type ColumnMap, type Mapped } from '../column-map.ts'
import { inCommandTerms } from '../command-terms.ts'
import type { MailingListView } from '../../resources/mailing-lists/schemas.ts'
import {
  printable,
  shellQuoted,
  styledFor,
  terminalWidth,
  wrapTo,
  writeSentence,
  writeTable,
  type Terminal,
} from '../terminal.ts'

/** What the columns of a file become, and what is said about it. */
export interface Columns {
  mapping: Mapped[]
  /** Columns that --map ignores, counted from 0. */
  ignored: ReadonlySet<number>
}

/** Applies --map, if there is one, to the guess. */
export function chooseColumns(map: ColumnMap | null, guess: Mapped[]): Columns {
  if (map === null) return { mapping: guess, ignored: new Set() }
  const mapping = applyMap(map, guess)
  const explicit = 'whole' in map ? mapping.keys() : map.changes.keys().map((column) => column - 1)
  return { mapping, ignored: new Set(explicit.filter((i) => mapping[i] === null)) }
}

/** A text field that --create-fields makes of a column. */
export interface NewField {
  /** Counted from 0. */
  column: number
  name: string
}

const maxNameLength = 49
const fieldName = (header: string): string =>
  Array.from(header.trim()).slice(0, maxNameLength).join('').trim()

/** The fields to make. A column whose name is taken gets none. */
export function planFields(
  inspection: InspectionView,
  { mapping, ignored }: Columns,
  fieldNames: string[],
): NewField[] {
  const taken = new Set([...builtInColumns, ...fieldNames].map(comparisonForm))
  const fields: NewField[] = []
  const own = ownColumns(inspection)
  for (const [column, { header }] of inspection.columns.entries()) {
    const name = fieldName(header ?? '')
    if (name === '' || own.has(column) || ignored.has(column) || (mapping[column] ?? null) !== null) continue
    if (!taken.has(comparisonForm(name))) fields.push({ column, name })
    taken.add(comparisonForm(name))
  }
  return fields
}

const separatorNames: Record<string, string> = { ',': 'commas', ';': 'semicolons', '\t': 'tabs', '|': 'bars' }

/**
 * Shows the format of the file and the mapping of its columns on standard error. It comes after all warnings, so that the
 * mapping is in sight when it is to be confirmed.
 */
export function showInspection(
  terminal: Terminal,
  inspection: InspectionView,
  { mapping, newFields, listed }: { mapping: Mapped[]; newFields: NewField[]; listed: readonly number[] },
): void {
  const { err } = terminal
  const style = styledFor(terminal, err)
  writeSentence(
    err,
    `${inspection.character_set}, ${separatorNames[inspection.csv_field_separator]} between cells, ${inspection.csv_skip_lines === 0 ? '' : `lines before the table: ${inspection.csv_skip_lines}, `}${inspection.csv_field_escape === null ? '' : 'enclosures escaped by a backslash, '}${inspection.csv_has_headers ? 'a header line' : 'no header line'}${inspection.date_format === null ? '' : `, dates are ${inspection.date_format}`}`,
  )
  const own = ownColumns(inspection)
  const rows = inspection.columns.flatMap(({ header, samples, proposed, confidence }, i) => {
    if (listed.includes(i)) return []
    const target = mapping[i] ?? null
    const newField = newFields.find(({ column }) => column === i)
    const ignored = own.has(i)
      ? '(of a failed log)'
      : i < mapping.length
        ? '(ignored)'
        : '(not in the mapping)'
    const field = target ?? (newField === undefined ? ignored : `${newField.name} (new field)`)
    const isGuess = target !== null && target === proposed
    return [[i + 1, header ?? '', samples[0] ?? '', field, isGuess ? `${Math.round(confidence * 100)}%` : '']]
  })
  writeTable(terminal, err, ['#', 'header', 'first value', 'imported as', 'confidence'], rows)
  if (listed.length > 0) writeSentence(err, `the ${listed.length} columns listed before are ignored`)
  const failed = inspection.records.filter(({ result }) => result === 'failed')
  const [firstFailed] = failed
  if (firstFailed !== undefined)
    writeSentence(
      err,
      `${style('yellow', `${failed.length} of the first ${inspection.records.length} records would fail`)}: ${printable(inCommandTerms(firstFailed.error ?? ''))}`,
    )
}

export function warn(terminal: Terminal, text: string): void {
  const { err } = terminal
  writeSentence(err, `${styledFor(terminal, err)('yellow', 'warning:')} ${printable(text)}`)
}

/**
 * The columns that a failed log has behind those of its file, counted from 0: `error`, and before it `line` where it was
 * asked for; the log of a mended log has them twice. They say nothing about a subscriber.
 */
function ownColumns({ columns }: InspectionView): ReadonlySet<number> {
  const own = new Set<number>()
  for (let last = columns.length - 1; columns[last]?.header === 'error'; last -= 1) {
    own.add(last)
    if (columns[last - 1]?.header === 'line') own.add((last -= 1))
  }
  return own
}

/** A whole mapping of a file's columns fits the failed log of that file too, whose own columns are ignored. */
export function withOwnColumns(mapping: Mapped[], inspection: InspectionView): Mapped[] {
  const missing = inspection.columns.length - mapping.length
  return missing > 0 && missing <= ownColumns(inspection).size
    ? [...mapping, ...new Array<null>(missing).fill(null)]
    : mapping
}

/**
 * Says what the service warns of, and which columns are ignored although they may be meant, each with the command or
 * option that helps. Returns the columns that it listed, counted from 0.
 */
export function showWarnings(
  terminal: Terminal,
  inspection: InspectionView,
  {
    mapping,
    ignored,
    list,
    fieldNames,
    newFields,
  }: Columns & { list: MailingListView; fieldNames: string[]; newFields: NewField[] },
): readonly number[] {
  for (const warning of inspection.warnings) warn(terminal, inCommandTerms(warning))
  const { columns } = inspection
  const own = ownColumns(inspection)
  const withoutField: number[] = []
  const targets = [...fieldNames, ...builtInColumns.filter((name) => isUsable(name, list))]
  const newNames = newFields.map((field) => field.name)
  const taken = new Set([...builtInColumns, ...fieldNames, ...newNames].map(comparisonForm))
  for (const [column, { header }] of columns.entries()) {
    const name = fieldName(header ?? '')
    const isTakenCareOf =
      (mapping[column] ?? null) !== null || newFields.some((field) => field.column === column)
    // Of columns of consent the service warns, and says what to map them to.
    const isConsent = consentOfHeader(header ?? '') !== null
    if (name === '' || isTakenCareOf || isConsent || own.has(column)) continue
    const equal = targets.find((target) => looseForm(target) === looseForm(header ?? ''))
    const text = `column ${column + 1} ${quote(header ?? '')}`
    if (equal !== undefined) {
      const isMapped = mapping.some((mapped) => mapped !== null && isSameName(mapped, equal))
      suggest(
        terminal,
        isMapped
          ? `${text} is ignored, because another column is imported as ${quote(equal)}; import this one instead with:`
          : `${text} is ignored, although there is ${quote(equal)}; rows whose value doesn't fit fail if you map it with:`,
        `--map ${shellQuoted(`${column + 1}=${/[",=]|^(-|ignore)$/.test(equal) ? `"${equal.replaceAll('"', '""')}"` : equal}`)}`,
      )
    } else if (ignored.has(column)) continue
    else if (taken.has(comparisonForm(name)))
      warn(
        terminal,
        `no field can be made of ${text}, because the name is taken: map the column with --map ${column + 1}=NAME, or ignore it with --map ${column + 1}=-`,
      )
    else {
      withoutField.push(column)
      taken.add(comparisonForm(name))
    }
  }
  warnWithoutField(terminal, inspection, withoutField, list)
  return withoutField.length > 1 ? withoutField : []
}

/** One warning for all columns that have no field, however many there are. */
function warnWithoutField(
  terminal: Terminal,
  { columns }: InspectionView,
  withoutField: number[],
  list: MailingListView,
): void {
  const [first] = withoutField
  if (first === undefined) return
  const headerOf = (column: number): string => columns[column]?.header ?? ''
  const create = `rollcall field create --list ${list.id} --name ${shellQuoted(fieldName(headerOf(first)))} --type text`
  if (withoutField.length === 1) {
    suggest(
      terminal,
      `column ${first + 1} ${quote(headerOf(first))} has no field and is ignored; import it with --create-fields, or create a field with:`,
      create,
    )
    return
  }
  const rows = withoutField.map((column) => [column + 1, headerOf(column), columns[column]?.samples[0] ?? ''])
  writeTable(terminal, terminal.err, ['#', 'header without a field', 'first value'], rows)
  suggest(
    terminal,
    `these ${withoutField.length} columns have no field and are ignored; import all of them with --create-fields, or create the fields that you want, as with:`,
    create,
  )
}

const isUsable = (name: string, list: MailingListView): boolean =>
  name === 'email_format' ? list.has_format : !name.startsWith('confirm') || list.has_confirmed

/** Without case, `_` and `-` as blanks. */
const looseForm = (name: string): string => comparisonForm(name.replaceAll(/[_-]/g, ' ').trim())

/** Commands stand on a line of their own, and continue by the shell's rules where the terminal is too narrow. */
function suggest(terminal: Terminal, text: string, command: string): void {
  const { err } = terminal
  warn(terminal, text)
  err.write(`${wrapTo(`  ${printable(command)}`, terminalWidth(err), { isCommand: true })}\n`)
}

const quote = (text: string): string => `'${text}'`
