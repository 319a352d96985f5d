import { measure } from '../measure.ts'
import { measuredProcess } from '../processes.ts'
import type { Measured, Timeline, Work } from '../scenario.ts'
import type { MeasuredService } from './service-client.ts'

/** What is kept of a round's cost: CPU microseconds a row, and the highest memory of each process in MB. */
export type Cost = Pick<Measured, 'clientMicroseconds' | 'serverMicroseconds'> & {
  peakMemoryMB: Record<string, number>
}

/**
 * Does work that is about so many rows, or so many of something else, and says what it cost the service's processes and
 * the server.
 */
export async function costOf<T>(
  { database, metrics }: MeasuredService,
  rows: number,
  work: () => Promise<T>,
  looks: Pick<Work, 'progress' | 'lookEveryMs'> = {},
): Promise<{ done: T; cost: Cost; timeline: Timeline }> {
  let done: T | undefined
  const { clientMicroseconds, serverMicroseconds, processes, timeline } = await measure(
    database.client,
    rows,
    {
      processes: [
        measuredProcess('engine', metrics['engine']!),
        measuredProcess('control plane', metrics['control_plane']!),
      ],
      do: async () => {
        done = await work()
      },
      ...looks,
    },
  )
  return {
    done: done as T,
    cost: { clientMicroseconds, serverMicroseconds, peakMemoryMB: peaksOf(processes) },
    timeline,
  }
}

export function describeCost(
  { clientMicroseconds, serverMicroseconds, peakMemoryMB }: Cost,
  of = 'row',
): string {
  return `client ${clientMicroseconds.toFixed(1)} and server ${serverMicroseconds.toFixed(1)} us a ${of}; ${describePeaks(peakMemoryMB)}`
}

export const peaksOf = (processes: Measured['processes']): Cost['peakMemoryMB'] =>
  Object.fromEntries(Object.entries(processes).map(([name, { peakMemoryMB }]) => [name, peakMemoryMB]))

export const describePeaks = (peakMemoryMB: Cost['peakMemoryMB']): string =>
  `peak memory in MB: ${Object.entries(peakMemoryMB)
    .map(([name, peak]) => `${name} ${Math.round(peak)}`)
    .join(', ')}`
