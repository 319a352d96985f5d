import { measure } from '../measure.ts'
import { measuredProcess } from '../processes.ts'
import { withRange } from '../report/text.ts'
import type { Measured, Timeline, Work } from '../scenario.ts'
import { spread, type Spread } from '../statistics.ts'
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
  rows: number | (() => number),
  work: () => Promise<T>,
  looks: Pick<Work, 'progress' | 'pollIntervalMs'> = {},
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

/** What several rounds cost: medians with their spread, and the highest memory of each process in all of them. */
export function costOfRounds(costs: Cost[]) {
  return {
    client_us: spread(costs.map(({ clientMicroseconds }) => clientMicroseconds)),
    server_us: spread(costs.map(({ serverMicroseconds }) => serverMicroseconds)),
    peak_memory_mb: highestOf(costs.map(({ peakMemoryMB }) => peakMemoryMB)),
  }
}

export function highestOf(peaks: Cost['peakMemoryMB'][]): Cost['peakMemoryMB'] {
  const highest: Cost['peakMemoryMB'] = {}
  for (const [name, peak] of peaks.flatMap((one) => Object.entries(one)))
    highest[name] = Math.max(highest[name] ?? 0, peak)
  return highest
}

export function describeCosts(costs: Cost[], of = 'a row'): string {
  const { client_us, server_us, peak_memory_mb } = costOfRounds(costs)
  const shown = (figure: Spread) => withRange(figure, (value) => value.toFixed(1))
  return `client ${shown(client_us)} and server ${shown(server_us)} us ${of}; ${describePeaks(peak_memory_mb)}`
}

export const peaksOf = (processes: Measured['processes']): Cost['peakMemoryMB'] =>
  Object.fromEntries(Object.entries(processes).map(([name, { peakMemoryMB }]) => [name, peakMemoryMB]))

export const describePeaks = (peakMemoryMB: Cost['peakMemoryMB']): string =>
  `peak memory in MB: ${Object.entries(peakMemoryMB)
    .map(([name, peak]) => `${name} ${Math.round(peak)}`)
    .join(', ')}`
