import type { Machine } from '../machine.ts'
import type { Unit } from '../scenario.ts'
import type { Spread } from '../statistics.ts'

export const describeMachine = ({ cpu, cores, memory_gb, system }: Machine): string =>
  `${cpu}, ${cores} cores, ${memory_gb} GB, ${system}`

export const whole = (value: number): string => Math.round(value).toLocaleString('en')
export const one = (value: number): string => value.toFixed(1)
export const two = (value: number): string => value.toFixed(2)

export const plural = (unit: Unit): string => (unit === 'row' ? 'rows' : unit)

export const capitalize = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

export const withRange = ({ median, min, max }: Spread, show: (value: number) => string): string =>
  min === max ? show(median) : `${show(median)} (${show(min)} to ${show(max)})`

export const describePeaks = (peakMemoryMB: Record<string, number>): string =>
  Object.entries(peakMemoryMB)
    .map(([name, peak]) => `${name} ${whole(peak)}`)
    .join(', ')

/** The first row has the heads; the first cells are texts, most others numbers. */
export type Table = string[][]

export function alignColumns(table: Table, between = '   '): string[] {
  const widths = table[0]?.map((_, column) => Math.max(...table.map((cells) => cells[column]!.length))) ?? []
  const pad = (cell: string, i: number) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))
  return table.map((cells) => cells.map(pad).join(between))
}
