import {
  logKinds,
  noCounts,
  type ImportOptions,
  type RowResult,
} from '../../shared/contract/schemas/import.ts'
import { addedSubscriber, fieldsAtFault, updatedSubscriber } from './changes.ts'
import { decode, isNoText, rawOf, type CharacterSet } from './character-set.ts'
import { compareByBytes } from './comparison-form.ts'
import { splitFile, type SplitFile } from './records.ts'
import { cutExample, readRow, type Fault, type Row, type RowContent } from './rows.ts'
import type {
  ExpectedEnd,
  ExpectedFault,
  ModelledImport,
  Subscriber,
  SubscriberTable,
} from './subscriber-table.ts'

/** The end of an import, as decisions 2.4 to 2.9 describe it. */
export function expectedEnd(given: ModelledImport): ExpectedEnd {
  const raw = rawOf(given.bytes)
  if (isNoText(raw)) return failedEarly(given)
  const characterSet: CharacterSet = given.isInline ? 'utf-8' : given.options.file_format.character_set
  const file = splitFile(raw, given.options.file_format)
  const rows = file.records.map((record, number) => readRow(record, number, { ...given, characterSet }))
  if (isMostlyInvalid(rows)) return failedEarly(given)
  const decided = decideAll(rows, given)
  const everyRowFailed = decided.every(({ result }) => result === 'failed')
  const isFailed = given.options.deactivate_subscribers_not_in_import && everyRowFailed
  const deactivated = isFailed ? [] : absentSubscribers(given, rows)
  return {
    state: isFailed ? 'failed' : 'finished',
    numberOfRecords: rows.length,
    counts: countsOf(decided, deactivated),
    logs: logsOf(decided, deactivated),
    failedLog: failedLogOf(decided, file, given.options, characterSet),
    failureSummary: failureSummaryOf(decided, file, characterSet),
    table: given.options.dry_run ? given.existing : tableAfter(given.existing, decided, deactivated),
    overLimit: overLimit(given, decided),
  }
}

const failedEarly = (given: ModelledImport): ExpectedEnd => ({
  state: 'failed',
  numberOfRecords: null,
  counts: noCounts(),
  logs: {},
  failedLog: [],
  failureSummary: [],
  table: given.existing,
  overLimit: null,
})

/** "If more than half of the first 1,000 records (of all, if there are fewer) do" (2.4). */
function isMostlyInvalid(rows: Row[]): boolean {
  const first = rows.slice(0, 1000)
  return first.filter((row) => row.hasInvalidBytes).length > first.length / 2
}

interface Decided {
  row: Row
  result: RowResult
  before: Subscriber | null
  /** The subscriber after an `added` or `updated` row. */
  after: Subscriber | null
  /** Set where the row failed. */
  fault: Fault | null
}

function decideAll(rows: Row[], given: ModelledImport): Decided[] {
  const seen = new Set<string>()
  return rows.map((row) => {
    const isRepeated = row.identity !== null && seen.has(row.identity)
    if (row.identity !== null) seen.add(row.identity)
    return { row, ...decide(row, isRepeated, given) }
  })
}

/** The order of the checks (2.7). The limit comes later: it needs all rows. */
function decide(row: Row, isRepeated: boolean, given: ModelledImport): Omit<Decided, 'row'> {
  const { options, list } = given
  const before = row.identity === null ? null : (given.existing.get(row.identity) ?? null)
  const ended = (result: RowResult) => ({
    result,
    before,
    after: null,
    fault: result === 'failed' ? row.fault : null,
  })
  if (row.identity === null) return ended('failed')
  if (isRepeated) return ended('skipped_duplicate')
  if (row.content === null) return ended('failed')
  if (before !== null && !options.overwrite) return ended('skipped_overwrite')
  if (before !== null && !options.overwrite_when_status[before.status])
    return ended(`skipped_${before.status}`)
  const after =
    before === null
      ? addedSubscriber(row.identity, row.content, list, options)
      : updatedSubscriber(before, row.content, list, options)
  if (after === null)
    return { ...ended('failed'), fault: faultOfSubscriber(row.cells, before, row.content, given) }
  return { result: before === null ? 'added' : 'updated', before, after, fault: null }
}

/** "Then by column": of several fields at fault the one whose column is the first; those without a column come last. */
function faultOfSubscriber(
  cells: string[],
  before: Subscriber | null,
  content: RowContent,
  { options, list }: ModelledImport,
): Fault {
  const names = fieldsAtFault(before, content, list, options).map(({ name }) => name)
  const column = options.column_mapping.findIndex((name) => name !== null && names.includes(name))
  return {
    column: column === -1 ? null : column,
    kind: before === null ? 'no value' : 'not clearable',
    field: options.column_mapping[column] ?? names[0]!,
    example: column === -1 ? null : cutExample(cells[column] ?? ''),
  }
}

/** "Largest first, then by `first_record`; at most 20." */
function failureSummaryOf(decided: Decided[], file: SplitFile, characterSet: CharacterSet): ExpectedFault[] {
  const faults = new Map<string, ExpectedFault>()
  for (const { row, fault } of decided) {
    if (fault === null) continue
    const { column, kind, field, example } = fault
    const key = `${column} ${kind} ${field}`
    const known = faults.get(key)
    const header = column === null ? undefined : file.header?.[column]
    faults.set(key, {
      column: column === null ? null : column + 1,
      header: header === undefined ? null : decode(header, characterSet),
      field,
      rows: (known?.rows ?? 0) + 1,
      first_record: known?.first_record ?? row.number + 1,
      example: known === undefined ? example : known.example,
    })
  }
  return [...faults.values()]
    .toSorted((a, b) => b.rows - a.rows || a.first_record - b.first_record)
    .slice(0, 20)
}

/** "Active subscribers that existed when the import began and whose identity is in no record" (2.8). */
function absentSubscribers(given: ModelledImport, rows: Row[]): Subscriber[] {
  if (!given.options.deactivate_subscribers_not_in_import) return []
  const present = new Set(rows.map((row) => row.identity))
  return [...given.existing.values()].filter(
    (subscriber) => subscriber.status === 'active' && !present.has(subscriber.identity),
  )
}

function countsOf(decided: Decided[], deactivated: Subscriber[]): ExpectedEnd['counts'] {
  const counts = noCounts()
  for (const { result } of decided) counts[result] += 1
  counts.deactivated = deactivated.length
  return counts
}

/** "Every other log is sorted by identity (comparison form; ties by record number)" (2.9). */
function logsOf(decided: Decided[], deactivated: Subscriber[]): ExpectedEnd['logs'] {
  const logs: ExpectedEnd['logs'] = {}
  for (const kind of logKinds) {
    if (kind === 'failed') continue
    const entries =
      kind === 'deactivated'
        ? deactivated.map(({ identity, email }) => ({ identity, email }))
        : decided
            .filter(({ result }) => result === kind)
            .map(({ row }) => ({ identity: row.identity!, email: row.typedEmail }))
    // Stable, so ties stay in file order.
    entries.sort((a, b) => compareByBytes(a.identity, b.identity))
    // A cell that isn't checked (a repeated key's email) may have line breaks; a line of the log can't.
    if (entries.length > 0) logs[kind] = entries.map(({ email }) => email.replace(/[\r\n]+/g, ' '))
  }
  return logs
}

/**
 * "The record's cells as typed, padded to the mapping ... header only if the input had one" (2.9); in file order.
 * "`?line=true` puts a column `line` before `error`" (beyond 1).
 */
function failedLogOf(
  decided: Decided[],
  file: SplitFile,
  options: ImportOptions,
  characterSet: CharacterSet,
): string[][] {
  const failed = decided.filter(({ result }) => result === 'failed').map(({ row }) => row)
  if (failed.length === 0) return []
  const header = file.header?.map((cell) => decode(cell, characterSet))
  const withLine = (cells: string[], line: string) => [...padded(cells, options.column_mapping.length), line]
  return [
    ...(header === undefined ? [] : [withLine(header, 'line')]),
    ...failed.map(({ cells, line }) => withLine(cells, String(line))),
  ]
}

const padded = (cells: string[], length: number): string[] => [
  ...cells,
  ...Array.from({ length: Math.max(0, length - cells.length) }, () => ''),
]

function tableAfter(
  existing: SubscriberTable,
  decided: Decided[],
  deactivated: Subscriber[],
): SubscriberTable {
  const table = new Map(existing)
  for (const { after } of decided) if (after !== null) table.set(after.identity, after)
  // "Who becomes or is made non-active gets `remove_time` now."
  for (const subscriber of deactivated)
    table.set(subscriber.identity, { ...subscriber, status: 'deactivated', removeTime: 'now' })
  return table
}

/**
 * The subscriber limit (2.8): rows that add an active subscriber or make one active need a place. "Places that an
 * import's own updates free may or may not serve its later rows."
 */
function overLimit({ quota }: ModelledImport, decided: Decided[]): ExpectedEnd['overLimit'] {
  if (quota === null) return null
  const wasActive = ({ before }: Decided) => before?.status === 'active'
  const isActive = ({ after }: Decided) => after?.status === 'active'
  const changing = decided.filter(({ after }) => after !== null)
  const taken = changing.filter((row) => isActive(row) && !wasActive(row)).length
  const freed = changing.filter((row) => !isActive(row) && wasActive(row)).length
  const free = Math.max(0, quota)
  const most = Math.max(0, taken - free)
  return most === 0 ? null : { least: Math.max(0, taken - free - freed), most }
}
