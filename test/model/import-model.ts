import { logKinds, noCounts, type RowResult } from '../../shared/contract/schemas/import.ts'
import { addedSubscriber, fieldsAtFault, updatedSubscriber } from './changes.ts'
import { decode, isValid, writtenIn, type SplitSet } from './character-set.ts'
import { compareByBytes } from './comparison-form.ts'
import { isSplitAsItIs, readContent, type FileContent, type Refusal } from './file-content.ts'
import { isMonthFirst, isNoDate } from './dates.ts'
import { emailKey, hasInvisible } from './email-address.ts'
import { splitFile, type RawRecord, type SplitFile, type SplitFormat } from './records.ts'
import { cutExample, readRow, textOf, type Fault, type Row, type RowContent } from './rows.ts'
import type {
  ExpectedEnd,
  ExpectedFault,
  ExpectedLogFormat,
  ModelledImport,
  Subscriber,
  SubscriberTable,
} from './subscriber-table.ts'

/** The end of an import, as decisions 2.4 to 2.9 describe it. */
export function expectedEnd(model: ModelledImport): ExpectedEnd {
  const content = readContent(model)
  if ('says' in content) return failedEarly(model, content)
  const { set: characterSet, separator, skippedLines } = content
  const { csv_field_escape: escape, ...format } = model.options.file_format
  const splitFormat = { ...format, csv_field_separator: separator, csv_field_escape: escape }
  const file = splitFile(content.raw, splitFormat)
  for (const record of file.records) record.line += skippedLines
  const rows = file.records.map((record, number) => readRow(record, number, { ...model, characterSet }))
  if (isMostlyInvalid(rows)) return failedEarly(model, refusalOfHalf(model, content))
  const decided = decideAll(rows, model)
  const everyRowFailed = decided.every(({ result }) => result === 'failed')
  const isFailed = model.options.deactivate_subscribers_not_in_import && everyRowFailed
  const mayMissRecords = holdsRecords(file, splitFormat, model.options.column_mapping, characterSet)
  const deactivated = isFailed || mayMissRecords ? [] : absentSubscribers(model, rows)
  return {
    state: isFailed ? 'failed' : 'finished',
    numberOfRecords: rows.length,
    counts: countsOf(decided, deactivated),
    logs: logsOf(decided, deactivated),
    failedLog: failedLogOf(decided, file, model, content),
    logFormat: logFormatOf(model, content),
    detectedSet: content.detectedSet,
    detectedSeparator: content.detectedSeparator,
    warnings: [
      ...content.warnings,
      ...warningsOf(file, model, content),
      ...cellWarnings(decided, model),
      ...headerWarnings(file, characterSet),
      { pattern: /may have swallowed others, the first at line/, isExpected: mayMissRecords },
      { pattern: /the file has no record/, isExpected: rows.length === 0 },
    ],
    refusal: null,
    failureSummary: failureSummaryOf(decided, file, characterSet),
    table: model.options.dry_run ? model.existing : tableAfter(model.existing, decided, deactivated),
    overLimit: overLimit(model, decided),
  }
}

const failedEarly = (model: ModelledImport, refusal: Refusal): ExpectedEnd => ({
  state: 'failed',
  numberOfRecords: null,
  counts: noCounts(),
  logs: {},
  failedLog: [],
  failureSummary: [],
  logFormat: null,
  detectedSet: null,
  detectedSeparator: null,
  warnings: [],
  refusal,
  table: model.existing,
  overLimit: null,
})

/** "If more than half of the first 1,000 records (of all, if there are fewer) do" (2.4). */
function isMostlyInvalid(rows: Row[]): boolean {
  const first = rows.slice(0, 1000)
  return first.filter((row) => row.hasInvalidBytes).length > first.length / 2
}

/** "Its message suggests `auto` and `windows-1252`, but never what was given" (beyond 1). */
function refusalOfHalf({ options }: ModelledImport, { detectedSet }: FileContent): Refusal {
  const usedSets = [options.file_format.character_set, detectedSet]
  const suggested = ['auto', 'windows-1252'].map((name) => ({ name, pattern: new RegExp(`"${name}"`) }))
  return {
    says: suggested.filter(({ name }) => !usedSets.includes(name as 'auto')).map(({ pattern }) => pattern),
    saysNot: suggested.filter(({ name }) => usedSets.includes(name as 'auto')).map(({ pattern }) => pattern),
  }
}

const hasControls = ({ bytes }: RawRecord): boolean => /[\x80-\x9f]/.test(bytes)
const meantSets: Partial<Record<SplitSet, RegExp>> = {
  'iso-8859-1': /0x80-0x9F.*windows-1252/,
  'iso-8859-2': /0x80-0x9F.*windows-1250/,
  'iso-8859-15': /0x80-0x9F.*windows-1252/,
}

/**
 * "Where a record spans lines and one of its later lines, read alone, would be a record of the mapping's width with a
 * valid address" (2.4). An enclosure that the line leaves open is a plain character, as in a header. Of a record that is
 * too long only the beginning is looked at; random files have none with line breaks.
 */
function holdsRecords(
  { headerRecord, records }: SplitFile,
  format: SplitFormat,
  mapping: readonly (string | null)[],
  characterSet: SplitSet,
): boolean {
  const email = mapping.indexOf('email')
  return [...(headerRecord === null ? [] : [headerRecord]), ...records].some(({ bytes }) =>
    bytes
      .split(/\r\n|\r|\n/)
      .slice(1)
      .some((line) => {
        const cells = splitFile(line, { ...format, csv_has_headers: true }).header ?? []
        const address = textOf(decode(cells[email] ?? '', characterSet))
        return cells.length === mapping.length && emailKey(address) !== null
      }),
  )
}

/** Warnings about records. How much of a record that is too long is looked at is nowhere said. */
function warningsOf(
  { records }: SplitFile,
  { options }: ModelledImport,
  { set }: FileContent,
): ExpectedEnd['warnings'] {
  if (records.some(({ isTooLong }) => isTooLong)) return []
  const meant = meantSets[set]
  const isDetected = options.file_format.character_set === 'auto'
  const firstInvalid = 1 + records.findIndex(({ bytes }) => !isValid(bytes, set))
  return [
    ...(meant === undefined ? [] : [{ pattern: meant, isExpected: records.some(hasControls) }]),
    {
      pattern: isDetected && firstInvalid > 0 ? new RegExp(`from record ${firstInvalid} on`) : /from record/,
      isExpected: isDetected && firstInvalid > 0,
    },
  ]
}

/**
 * Warnings of what good cells have (2.1, 2.5, 2.6). One is expected where a written row has such a cell, and not expected
 * where no row has one. Of rows that fail, or are skipped, nothing is said.
 */
function cellWarnings(decided: Decided[], { options, list, quota }: ModelledImport): ExpectedEnd['warnings'] {
  const mapping = options.column_mapping
  const typeOf = (name: string) => list.fields.find((field) => field.name === name)?.field_type ?? 'built-in'
  const texts = (row: Row, isWanted: (name: string) => boolean) =>
    mapping.flatMap((name, i) => (name !== null && isWanted(name) ? [textOf(row.cells[i] ?? '')] : []))
  const dates = (row: Row) =>
    texts(
      row,
      (name) =>
        ['date', 'day_of_year'].includes(typeOf(name)) ||
        (typeOf(name) === 'built-in' && name.endsWith('_time')),
    )
  const emails = (row: Row) => texts(row, (name) => name === 'email')
  const kinds: { pattern: RegExp; has: (row: Row) => boolean }[] = [
    { pattern: /mark for no date/, has: (row) => dates(row).some(isNoDate) },
    {
      pattern: /month first .*although date_format is dmy/,
      has: (row) => options.file_format.date_format === 'dmy' && dates(row).some(isMonthFirst),
    },
    { pattern: /invisible characters were removed/, has: (row) => emails(row).some(hasInvisible) },
    {
      pattern: /with \|, \{ or \} before the @/,
      has: (row) => emails(row).some((text) => /[{|}].*@/.test(text)),
    },
  ]
  return kinds.flatMap(({ pattern, has }) => {
    const having = decided.filter(({ row }) => has(row))
    const isWritten = having.some(({ after }) => after !== null)
    return having.length === 0 || (isWritten && quota === null) ? [{ pattern, isExpected: isWritten }] : []
  })
}

/** "A header line that holds an email address" (2.1). */
function headerWarnings({ header }: SplitFile, set: SplitSet): ExpectedEnd['warnings'] {
  const isExpected = header?.some((cell) => emailKey(textOf(decode(cell, set))) !== null) === true
  return [{ pattern: /the header row holds an email address/, isExpected }]
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

function decideAll(rows: Row[], model: ModelledImport): Decided[] {
  const seen = new Set<string>()
  return rows.map((row) => {
    const isRepeated = row.identity !== null && seen.has(row.identity)
    if (row.identity !== null) seen.add(row.identity)
    return { row, ...decide(row, isRepeated, model) }
  })
}

/** The order of the checks (2.7). The limit comes later: it needs all rows. */
function decide(row: Row, isRepeated: boolean, model: ModelledImport): Omit<Decided, 'row'> {
  const { options, list } = model
  const before = row.identity === null ? null : (model.existing.get(row.identity) ?? null)
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
    return { ...ended('failed'), fault: faultOfSubscriber(row.cells, before, row.content, model) }
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
function failureSummaryOf(decided: Decided[], file: SplitFile, characterSet: SplitSet): ExpectedFault[] {
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
function absentSubscribers(model: ModelledImport, rows: Row[]): Subscriber[] {
  if (!model.options.deactivate_subscribers_not_in_import) return []
  const present = new Set(rows.map((row) => row.identity))
  return [...model.existing.values()].filter(
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
            .map(({ row }) => ({ identity: row.identity!, email: row.isTooLong ? null : row.typedEmail }))
    // Stable, so ties stay in file order.
    entries.sort((a, b) => compareByBytes(a.identity, b.identity))
    // A cell that isn't checked (a repeated key's email) may have line breaks; a line of the log can't.
    if (entries.length > 0) logs[kind] = entries.map(({ email }) => email?.replace(/[\r\n]+/g, ' ') ?? null)
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
  model: ModelledImport,
  content: FileContent,
): string[][] {
  const failed = decided.filter(({ result }) => result === 'failed').map(({ row }) => row)
  if (failed.length === 0) return []
  const { set } = logFormatOf(model, content)
  const header = file.header?.map((cell) => decode(cell, content.set))
  const withLine = (cells: string[], line: string) => [
    ...padded(cells, model.options.column_mapping.length),
    line,
  ]
  return [
    ...(header === undefined ? [] : [withLine(header, 'line')]),
    ...failed.map(({ cells, line }) => withLine(cells, String(line))),
  ].map((cells) => cells.map((cell) => writtenIn(set, cell)))
}

/** "The failed log goes by the set that was asked for (under `auto` detected)." */
function logFormatOf({ options, isInline }: ModelledImport, content: FileContent): ExpectedLogFormat {
  const asked = options.file_format.character_set
  const set = asked === 'auto' ? content.detectedSet! : isInline ? 'utf-8' : asked
  return {
    set: isSplitAsItIs(set) ? set : 'utf-8',
    hasMark: !isSplitAsItIs(set),
    separator: content.separator,
    hasSeparatorLine: content.isSeparatorFromLine,
    skippedText: content.skippedText,
  }
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
  const max = Math.max(0, taken - free)
  return max === 0 ? null : { min: Math.max(0, taken - free - freed), max }
}
