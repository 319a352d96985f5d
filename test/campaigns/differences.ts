import { isDeepStrictEqual } from 'node:util'
import { logKinds, type LogKind } from '../../shared/contract/schemas/import.ts'
import type { ExpectedEnd, Moment, Subscriber, SubscriberTable } from '../model/subscriber-table.ts'
import type { ObservedEnd } from './observed-end.ts'

/** When the import ran, and which subscribers the list had before. */
interface Context {
  existing: SubscriberTable
  from: Date
  to: Date
}

/** The subscriber limit decides between these logs: "how many, not which rows" (2.7). */
const underLimit: readonly LogKind[] = ['added', 'updated', 'skipped_over_limit']

/** Names the differences between an import's end and the model's. */
export function differencesOf(expected: ExpectedEnd, observed: ObservedEnd, around: Context): string[] {
  const { view } = observed
  const differences = [...observed.flaws]
  const compare = (what: string, expectedOne: unknown, observedOne: unknown) => {
    if (!isDeepStrictEqual(expectedOne, observedOne))
      differences.push(`${what}: expected ${shown(expectedOne)}, came ${shown(observedOne)}`)
  }
  const compareLog = (kind: LogKind, lines: (string | null)[], found: string[]) => {
    const known = found.map((line, i) => (lines[i] === null ? null : line))
    compare(`log ${kind}`, lines, known)
  }
  compare('state', expected.state, view.state)
  if (view.state !== expected.state) return [...differences, `error_message: ${view.error_message}`]
  if (expected.refusal !== null) {
    const { says, saysNot = [] } = expected.refusal
    const message: string = view.error_message
    const isRight =
      says.every((pattern) => pattern.test(message)) && !saysNot.some((one) => one.test(message))
    if (!isRight)
      differences.push(`error_message: expected ${says.join()}, not ${saysNot.join()}, came ${message}`)
  } else {
    compare('detected_character_set', expected.detectedSet, view.detected_character_set)
    compare('detected_csv_field_separator', expected.detectedSeparator, view.detected_csv_field_separator)
    for (const { pattern, isExpected } of expected.warnings)
      if (view.warnings.some((warning: string) => pattern.test(warning)) !== isExpected)
        differences.push(
          `warning ${pattern}: ${isExpected ? 'expected' : 'not expected'}, came ${shown(view.warnings)}`,
        )
  }
  const { overLimit } = expected
  const together = overLimit === null ? [] : underLimit
  compare('counts', countsShown(expected.counts, together), countsShown(view.stats.subscribers, together))
  compare('records_imported', sumOf(view.stats.subscribers), view.stats.records_imported)
  if (expected.state === 'finished')
    compare('number_of_records', expected.numberOfRecords, view.stats.number_of_records)
  for (const kind of logKinds)
    if (kind !== 'failed' && !together.includes(kind))
      compareLog(kind, expected.logs[kind] ?? [], linesOf(observed.logs[kind]))
  if (overLimit !== null) {
    const lines = (logs: ExpectedEnd['logs']) =>
      underLimit.flatMap((kind) => logs[kind as keyof typeof logs] ?? []).toSorted()
    const observedLines = underLimit.flatMap((kind) => linesOf(observed.logs[kind])).toSorted()
    compare('logs of written rows and of those over the limit', lines(expected.logs), observedLines)
  }
  const { failedLog } = expected
  compare(
    'failed log',
    withoutLongOnes(failedLog, failedLog),
    withoutLongOnes(failedCells(observed), failedLog),
  )
  compare('failure_summary', expected.failureSummary, summaryWithoutReasons(view.failure_summary))
  const { min, max } = overLimit ?? { min: 0, max: 0 }
  const skipped: number = view.stats.subscribers.skipped_over_limit
  if (skipped < min || skipped > max)
    differences.push(`skipped_over_limit: expected ${min} to ${max}, came ${skipped}`)
  return [...differences, ...tableDifferences(expected, observed, around)]
}

const shown = (value: unknown): string => {
  const text = JSON.stringify(value) ?? 'nothing'
  return text.length > 1500 ? `${text.slice(0, 1500)}… (${text.length} characters)` : text
}

const countsShown = (counts: Record<string, number>, together: readonly string[]) => ({
  ...Object.fromEntries(
    Object.entries(counts).filter(([kind, count]) => count > 0 && !together.includes(kind)),
  ),
  together: together.reduce((sum, kind) => sum + (counts[kind] ?? 0), 0),
})

const sumOf = (counts: Record<string, number>): number =>
  Object.entries(counts).reduce((sum, [kind, count]) => sum + (kind === 'deactivated' ? 0 : count), 0)

/** The lines of a log; each of them ends with a line end, the last one too. */
const linesOf = (log: string | undefined): string[] => (log === undefined ? [] : log.split('\n').slice(0, -1))

/** The failed log without its messages. */
const failedCells = ({ failedLog }: ObservedEnd): string[][] => failedLog.map((cells) => cells.slice(0, -1))

/** The reasons are the service's own texts. Two faults of one column have different ones. */
const summaryWithoutReasons = (summary: Record<string, unknown>[]) =>
  summary.map(({ reason, ...fault }) => {
    const alike = summary.filter(
      (other) =>
        other['reason'] === reason &&
        other['column'] === fault['column'] &&
        other['field'] === fault['field'],
    )
    return alike.length > 1 || typeof reason !== 'string' ? { reason, ...fault } : fault
  })

/** The log keeps the beginning of a record that is too long; how much of it is nowhere said. */
const withoutLongOnes = (lines: string[][], expected: string[][]): string[][] =>
  lines.map((cells, line) =>
    (expected[line]?.join().length ?? 0) > 500_000 ? [cells[0]!.slice(0, 4)] : cells,
  )

/** Rows that the limit cut off may have written nothing, so their number is compared with the counted one. */
function tableDifferences(
  { table, overLimit }: ExpectedEnd,
  { table: observed, view }: ObservedEnd,
  around: Context,
): string[] {
  const { existing } = around
  const cutOff = new Set<string>()
  const differences = [...new Set([...table.keys(), ...observed.keys()])].flatMap((identity) => {
    const wanted = table.get(identity)
    const found = observed.get(identity)
    const differing = differencesAt(identity, wanted, found, around)
    const before = existing.get(identity)
    const countsAgainstQuota = wanted?.status === 'active' && before?.status !== 'active'
    if (overLimit === null || !countsAgainstQuota || differing.length === 0) return differing
    if (differencesAt(identity, before, found, around).length > 0) return differing
    cutOff.add(identity)
    return []
  })
  const skipped = view.stats.subscribers.skipped_over_limit
  // A dry run changes no subscriber.
  if (table !== existing && cutOff.size !== skipped)
    differences.push(`the table lacks ${cutOff.size} rows, ${skipped} were over the limit`)
  return differences
}

function differencesAt(
  identity: string,
  wanted: Subscriber | undefined,
  found: Subscriber | undefined,
  around: Context,
): string[] {
  if (wanted === undefined && found === undefined) return []
  if (wanted === undefined) return [`${shown(identity)} is in the table and shouldn't be`]
  if (found === undefined) return [`${shown(identity)} isn't in the table`]
  return subscriberDifferences(wanted, found, around)
}

function subscriberDifferences(expected: Subscriber, observed: Subscriber, now: Context): string[] {
  return (Object.keys(expected) as (keyof Subscriber)[]).flatMap((key) => {
    const wanted = expected[key]
    const found = observed[key]
    const isSame = key.endsWith('Time')
      ? isSameMoment(wanted as Moment | null, found as Date | null, now)
      : isDeepStrictEqual(wanted, found)
    return isSame
      ? []
      : [`${shown(expected.identity)} ${key}: expected ${shown(wanted)}, came ${shown(found)}`]
  })
}

function isSameMoment(expected: Moment | null, observed: Date | null, now: Context): boolean {
  if (expected === 'now') return observed !== null && observed >= now.from && observed <= now.to
  return expected?.getTime() === observed?.getTime()
}

/** Counts what an import changed of existing subscribers, by kind of change. */
export function changesOf(before: SubscriberTable, after: SubscriberTable): Record<string, number> {
  const changes: Record<string, number> = {}
  const note = (what: string, isSo: boolean) => {
    if (isSo) changes[what] = (changes[what] ?? 0) + 1
  }
  for (const [identity, was] of before) {
    const is = after.get(identity)
    if (is === undefined) continue
    note(`changes of ${was.status} ones`, !isDeepStrictEqual(was, is))
    note('made active', was.status !== 'active' && is.status === 'active')
    note('made non-active', was.status === 'active' && is.status !== 'active')
    note('confirmed', !was.confirmed && is.confirmed)
    note('confirmed no more', was.confirmed && !is.confirmed)
    note('other times of confirmation', was.confirmed && !isDeepStrictEqual(was.confirmTime, is.confirmTime))
    note('other formats', was.format !== is.format)
    // The change of an address that is no identity.
    note('other emails', was.email !== is.email)
    const values = Object.keys(was.values).map((id) => [was.values[Number(id)], is.values[Number(id)]])
    note(
      'values cleared',
      values.some(([old, now]) => old !== null && now === null),
    )
  }
  return changes
}
