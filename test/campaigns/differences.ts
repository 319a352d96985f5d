import { isDeepStrictEqual } from 'node:util'
import { logKinds } from '../../shared/schemas/import.ts'
import type { ExpectedEnd, Moment, Subscriber, SubscriberTable } from '../model/subscriber-table.ts'
import type { ObservedEnd } from './observed-end.ts'

/** Where an import's end differs from the model's; empty when nowhere. */
export interface Window {
  from: Date
  to: Date
}

export function differencesOf(expected: ExpectedEnd, observed: ObservedEnd, now: Window): string[] {
  const { view } = observed
  const differences = [...observed.flaws]
  const compare = (what: string, expectedOne: unknown, observedOne: unknown) => {
    if (!isDeepStrictEqual(expectedOne, observedOne))
      differences.push(`${what}: expected ${shown(expectedOne)}, came ${shown(observedOne)}`)
  }
  compare('state', expected.state, view.state)
  if (view.state !== expected.state) return [...differences, `error_message: ${view.error_message}`]
  if (expected.overLimit !== null) return [...differences, ...limitDifferences(expected, observed)]
  compare('counts', countsShown(expected.counts), countsShown(view.stats.subscribers))
  compare('records_imported', sumOf(view.stats.subscribers), view.stats.records_imported)
  if (expected.state === 'finished')
    compare('number_of_records', expected.numberOfRecords, view.stats.number_of_records)
  for (const kind of logKinds)
    if (kind !== 'failed') compare(`log ${kind}`, logText(expected.logs[kind]), observed.logs[kind])
  const { failedLog } = expected
  compare(
    'failed log',
    withoutLongOnes(failedLog, failedLog),
    withoutLongOnes(failedCells(observed), failedLog),
  )
  return [...differences, ...tableDifferences(expected.table, observed.table, now)]
}

const shown = (value: unknown): string => {
  const text = JSON.stringify(value) ?? 'nothing'
  return text.length > 1500 ? `${text.slice(0, 1500)}… (${text.length} characters)` : text
}

const countsShown = (counts: Record<string, number>) =>
  Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0))

const sumOf = (counts: Record<string, number>): number =>
  Object.entries(counts).reduce((sum, [kind, count]) => sum + (kind === 'deactivated' ? 0 : count), 0)

const logText = (lines: string[] | undefined) => lines?.map((line) => `${line}\n`).join('')

/** Without the message. */
const failedCells = ({ failedLog }: ObservedEnd): string[][] => failedLog.map((cells) => cells.slice(0, -1))

/** The log keeps the beginning of a record that is too long; how much of it is nowhere said. */
const withoutLongOnes = (lines: string[][], expected: string[][]): string[][] =>
  lines.map((cells, line) =>
    (expected[line]?.join().length ?? 0) > 500_000 ? [cells[0]!.slice(0, 4)] : cells,
  )

/** "Of `skipped_over_limit`: how many, not which rows." */
function limitDifferences({ counts, overLimit }: ExpectedEnd, { view }: ObservedEnd): string[] {
  const came: Record<string, number> = view.stats.subscribers
  const { least, most } = overLimit!
  const differences: string[] = []
  const skipped = came['skipped_over_limit']!
  if (skipped < least || skipped > most)
    differences.push(`skipped_over_limit: expected ${least} to ${most}, came ${skipped}`)
  const written = came['added']! + came['updated']! + skipped
  if (written !== counts.added + counts.updated)
    differences.push(
      `added, updated and over the limit: expected ${counts.added + counts.updated}, came ${written}`,
    )
  for (const kind of logKinds) {
    if (['added', 'updated', 'skipped_over_limit'].includes(kind) || came[kind] === counts[kind]) continue
    differences.push(`${kind}: expected ${counts[kind]}, came ${came[kind]}`)
  }
  return differences
}

function tableDifferences(expected: SubscriberTable, observed: SubscriberTable, now: Window): string[] {
  const identities = new Set([...expected.keys(), ...observed.keys()])
  return [...identities].flatMap((identity) => {
    const wanted = expected.get(identity)
    const found = observed.get(identity)
    if (wanted === undefined) return [`${shown(identity)} is in the table and shouldn't be`]
    if (found === undefined) return [`${shown(identity)} isn't in the table`]
    return subscriberDifferences(wanted, found, now)
  })
}

function subscriberDifferences(expected: Subscriber, observed: Subscriber, now: Window): string[] {
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

function isSameMoment(expected: Moment | null, observed: Date | null, now: Window): boolean {
  if (expected === 'now') return observed !== null && observed >= now.from && observed <= now.to
  return expected?.getTime() === observed?.getTime()
}
