import type { NamedLatency, NamedTimelines, Timeline } from '../scenario.ts'
import { drawPlot, type Plot, type Series } from './plot.ts'
import type { Report } from './report.ts'
import { capitalize } from './text.ts'

/** The plots of a report, each by a name that is fit for a file. */
export interface Chart {
  name: string
  title: string
  svg: string
}

export function chartsOf(report: Report): Chart[] {
  const seen = [
    ...report.contenders.map(({ name, rounds }): NamedTimelines => ({
      name,
      rounds: rounds.flatMap(({ timeline }) => timeline ?? []),
    })),
    ...(report.timelines ?? []),
  ].map(({ name, of = 'rows', plot, rounds }): Seen => ({ name, of, plot, timelines: middleFirst(rounds) }))
  const plots = [
    ...byPlot('throughput', seen, throughput),
    ...byPlot('latency', report.latencies, latency),
    { name: 'memory', plot: memory(seen) },
    { name: 'cpu', plot: cpu(seen) },
  ]
  return plots
    .filter(({ plot }) => plot.series.some(({ lines }) => lines.some((points) => points.length > 1)))
    .map(({ name, plot }) => ({ name, title: plot.title, svg: drawPlot(plot) }))
}

/** What names a plot of its own is drawn there. */
function byPlot<T extends { plot?: string | undefined }>(
  name: string,
  all: T[],
  draw: (list: T[]) => Plot,
): { name: string; plot: Plot }[] {
  const named = [...new Set(all.map(({ plot }) => plot))]
  return named.map((own) => {
    const plot = draw(all.filter(({ plot }) => plot === own))
    if (own === undefined) return { name, plot }
    return {
      name: `${name}-${own.replaceAll(/\W+/g, '-')}`,
      plot: { ...plot, title: `${capitalize(own)}. ${plot.title}` },
    }
  })
}

interface Seen {
  name: string
  of: string
  plot: string | undefined
  /** The round in the middle by its time comes first. */
  timelines: Timeline[]
}

function middleFirst(rounds: Timeline[]): Timeline[] {
  const bySpeed = [...rounds].sort((a, b) => a.seconds.at(-1)! - b.seconds.at(-1)!)
  return [...bySpeed.splice(Math.floor(rounds.length / 2), 1), ...bySpeed]
}

const inSeconds = { label: 'seconds since the beginning', scale: 'linear' } as const

function throughput(seen: Seen[]): Plot {
  return {
    title: 'Throughput over time: each round a line, the middle one strong',
    x: inSeconds,
    y: { label: `${[...new Set(seen.map(({ of }) => of))].join(' or ')} a second`, scale: 'linear' },
    series: seen.map(({ name, timelines }, i) => ({
      name,
      ...stylesOf(i),
      lines: timelines.flatMap(({ seconds, rows }) => (rows === null ? [] : [rates(seconds, rows)])),
    })),
  }
}

function memory(seen: Seen[]): Plot {
  return {
    title: 'Resident memory over time, in the middle round',
    x: inSeconds,
    y: { label: 'MB', scale: 'linear' },
    series: seen.flatMap(({ name, timelines }, color) =>
      Object.entries(timelines[0]?.memoryMB ?? {}).map(([process, values], i): Series => ({
        name: `${name}: ${process}`,
        color,
        ...(process === 'mongod' ? { stroke: 'dashed' } : i > 0 ? { stroke: 'dotted' } : {}),
        lines: [timelines[0]!.seconds.map((second, i) => [second, values[i]!])],
      })),
    ),
  }
}

function cpu(seen: Seen[]): Plot {
  return {
    title: 'Cores in use over time, in the middle round',
    x: inSeconds,
    y: { label: 'cores', scale: 'linear' },
    series: seen.flatMap(({ name, timelines: [timeline] }, color): Series[] => {
      if (timeline === undefined) return []
      const { mongod, ...clients } = timeline.cpuSeconds
      if (mongod === undefined) return []
      const client = timeline.seconds.map((_, i) =>
        Object.values(clients).reduce((sum, values) => sum + values[i]!, 0),
      )
      const ofClient = { name: `${name}: client`, color, lines: [rates(timeline.seconds, client)] }
      return [
        ...(Object.keys(clients).length === 0 ? [] : [ofClient]),
        { name: `${name}: mongod`, color, stroke: 'dashed', lines: [rates(timeline.seconds, mongod)] },
      ]
    }),
  }
}

function latency(latencies: NamedLatency[]): Plot {
  const kinds = [...new Set(latencies.map(({ of }) => of))]
  return {
    title: `Time of ${kinds.join(', ')}: what so great a part of them didn't exceed`,
    x: { label: 'part of them', scale: 'tail' },
    y: { label: 'milliseconds', scale: 'log' },
    series: latencies.map(({ name, quantiles }, i): Series => ({
      name,
      ...stylesOf(i),
      lines: [quantiles],
    })),
  }
}

/** There are six colours. */
const stylesOf = (i: number): Pick<Series, 'color' | 'stroke'> => ({
  color: i,
  ...(i < 6 ? {} : { stroke: i < 12 ? 'dashed' : 'dotted' }),
})

const windows = 30

/**
 * Growth a second, over windows of a thirtieth of the time: a look is too short, a batch that ends makes a peak of it,
 * and so does what is left of a window at the end.
 */
function rates(seconds: number[], totals: number[]): [x: number, y: number][] {
  const last = seconds.at(-1) ?? 0
  const points: [x: number, y: number][] = []
  let from = 0
  for (let to = 1; to < seconds.length; to += 1) {
    const lasted = seconds[to]! - seconds[from]!
    if (lasted === 0 || lasted < last / windows) continue
    points.push([(seconds[from]! + seconds[to]!) / 2, (totals[to]! - totals[from]!) / lasted])
    from = to
  }
  return points
}
