import type { Machine } from '../machine.ts'
import type { Measured } from '../scenario.ts'
import { summarize, type Spread } from '../statistics.ts'
import type { Report } from './report.ts'

export const describeMachine = ({ cpu, cores, memory_gb, system }: Machine): string =>
  `${cpu}, ${cores} cores, ${memory_gb} GB, ${system}`

export const describeLoad = ({ load_average_before: before, load_average_after: after }: Machine): string =>
  `load average ${before.toFixed(1)} before, ${after.toFixed(1)} after`

export const describeVersions = (versions: Record<string, string>): string =>
  Object.entries(versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(', ')

export const whole = (value: number): string => Math.round(value).toLocaleString('en')
const one = (value: number): string => value.toFixed(1)
export const two = (value: number): string => value.toFixed(2)

export const capitalize = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

export const withRange = ({ median, min, max }: Spread, show: (value: number) => string): string =>
  min === max ? show(median) : `${show(median)} (${show(min)} to ${show(max)})`

export const describePeaks = (peakMemoryMB: Record<string, number>): string =>
  Object.entries(peakMemoryMB)
    .map(([name, peak]) => `${name} ${whole(peak)}`)
    .join(', ')

export function describeCosts(measured: Measured[], of: string): string {
  const { client_us_per_row: client, server_us_per_row: server, peak_memory_mb } = summarize(measured)
  return `client ${withRange(client, one)} and server ${withRange(server, one)} us ${of}; peak memory in MB: ${describePeaks(peak_memory_mb)}`
}

/** The first row has the heads; the first cells are texts, most others numbers. */
export type Table = string[][]

/** The medians of all contenders, and how the first compares with the others. Empty without contenders. */
export function tablesFor({ contenders, comparisons }: Report): Table[] {
  const medians = contenders.map((contender) => [
    contender.name,
    withRange(contender.rows_per_second, whole),
    withRange(contender.client_us_per_row, one),
    withRange(contender.server_us_per_row, one),
    describePeaks(contender.peak_memory_mb),
  ])
  const compared = comparisons.map(({ of, to, speed, cpu }) => [
    `${of} / ${to}`,
    withRange(speed, two),
    withRange(cpu, two),
  ])
  return [
    [['', 'rows/s', 'client CPU us/row', 'server CPU us/row', 'peak memory MB'], ...medians],
    [['ratio within each round', 'rows/s', 'CPU a row, inverted'], ...compared],
  ].filter((table) => table.length > 1)
}

export function alignColumns(table: Table): string[] {
  const widths = (table[0] ?? []).map((_, column) =>
    Math.max(...table.map((cells) => (cells[column] ?? '').length)),
  )
  return table.map((cells) =>
    cells
      .map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart((widths[i] ?? 0) + 3)))
      .join(''),
  )
}

/** What a run prints at its end. */
export function closingLines(report: Report): string[] {
  return [
    ...tablesFor(report).flatMap((table) => ['', ...alignColumns(table)]),
    ...contenderNotes(report).map(({ name, note }) => `${name}: ${note}`),
    ...report.goals.map(({ what, isMet }) => `${isMet ? 'met    ' : 'MISSED '} ${what}`),
    describeLoad(report.machine),
    describeVersions(report.versions),
  ]
}

/** Versions, settings and notes of the contenders that have any. */
export function contenderNotes({ contenders }: Report): { name: string; note: string }[] {
  return contenders
    .map(({ name, version, settings, note }) => {
      const shown = Object.entries(settings).map(
        ([setting, value]) => `${setting.replaceAll('_', ' ')} ${value}`,
      )
      return { name, note: [version, ...shown, note].filter((part) => part !== undefined).join('; ') }
    })
    .filter(({ note }) => note !== '')
}

/** The command that runs it again. */
export const formatCommand = ({ benchmark, work }: Report): string => {
  const options = Object.entries(work).map(([name, value]) => `--${name} ${value}`)
  return ['npm run bench --', benchmark, ...options].join(' ')
}
