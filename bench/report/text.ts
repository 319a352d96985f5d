import type { Machine } from '../machine.ts'
import type { Spread } from '../statistics.ts'
import type { ContenderReport, Report } from './report.ts'

/** What a benchmark prints. */

export const describe = ({ cpu, cores, memory_gb, system }: Machine): string =>
  `${cpu}, ${cores} cores, ${memory_gb} GB, ${system}`

export const describeVersions = (versions: Record<string, string>): string =>
  Object.entries(versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(', ')

export const whole = (value: number): string => Math.round(value).toLocaleString('en')

export const withRange = ({ median, least, most }: Spread, show: (value: number) => string): string =>
  least === most ? show(median) : `${show(median)} (${show(least)} to ${show(most)})`

export function tablesOf(report: Report): string[] {
  const { contenders, comparisons, machine } = report
  if (contenders.length === 0) return []
  const heads = ['rows/s', 'client us/row', 'server us/row']
  const width = Math.max(24, ...contenders.map(({ name }) => name.length + 2))
  return [
    '',
    ''.padEnd(width) + heads.map((head) => head.padStart(cellWidth)).join('') + '   peak memory MB',
    ...contenders.map((contender) => rowOf(contender, width)),
    '',
    ...comparisons.map(
      ({ of, to, speed, cpu }) =>
        `${of} / ${to}: ${withRange(speed, two)} by rows/s, ${withRange(cpu, two)} by CPU a row`,
    ),
    '',
    ...contenders.flatMap(describeContender),
    `load average ${machine.load_average_before.toFixed(1)} before, ${machine.load_average_after.toFixed(1)} after`,
    describeVersions(report.versions),
  ]
}

export const capitalize = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

export const two = (value: number): string => value.toFixed(2)

/** Enough for "58,000 (47,200 to 63,600)" and a gap. */
const cellWidth = 27

function rowOf(contender: ContenderReport, width: number): string {
  const { rows_per_second: speed, client_us_per_row: client, server_us_per_row: server } = contender
  const one = (value: number) => value.toFixed(1)
  const cells = [withRange(speed, whole), withRange(client, one), withRange(server, one)]
  return `${contender.name.padEnd(width)}${cells.map((cell) => cell.padStart(cellWidth)).join('')}   ${peaksOf(contender)}`
}

export const peaksOf = ({ peak_memory_mb }: ContenderReport): string =>
  Object.entries(peak_memory_mb)
    .map(([name, megabytes]) => `${name} ${whole(megabytes)}`)
    .join(', ')

/** Only where there is something to say. */
function describeContender(contender: ContenderReport): string[] {
  const told = particularsOf(contender)
  return told === '' ? [] : [`${contender.name}: ${told}`]
}

export function particularsOf({ version, settings, note }: ContenderReport): string {
  const told = Object.entries(settings).map(([name, value]) => `${name.replaceAll('_', ' ')} ${value}`)
  return [...(version === undefined ? [] : [version]), ...told, ...(note === undefined ? [] : [note])].join(
    '; ',
  )
}

/** What runs it again. */
export const commandOf = ({ benchmark, work }: Report): string =>
  ['npm run bench --', benchmark, ...Object.entries(work).map(([name, value]) => `--${name} ${value}`)].join(
    ' ',
  )
