import type { NamedLatency, NamedTimelines, Timeline } from '../scenario.ts'
import { drawPlot, type Plot, type Series } from './plot.ts'
import type { Report } from './report.ts'
import { capitalize } from './text.ts'

interface Chart {
  name: string
  title: string
  svg: string
}

/** The plots of a report that have at least one line. */
export function drawCharts(report: Report): Chart[] {
  const ofContenders = report.contenders.map(({ name, rounds }) => ({
    name,
    rounds: rounds.flatMap(({ timeline }) => timeline ?? []),
  }))
  const kinds = [...ofContenders, ...report.timelines].map(({ rounds, ...kind }: NamedTimelines): Kind => ({
    of: 'rows',
    ...kind,
    rounds: middleFirst(rounds),
  }))
  return [
    ...splitByPlot('throughput', kinds, plotThroughput),
    ...splitByPlot('latency', report.latencies, plotLatency),
    { name: 'memory', plot: plotMemory(kinds) },
    { name: 'cpu', plot: plotCpu(kinds) },
  ]
    .filter(({ plot }) => plot.series.some(({ lines }) => lines.some((points) => points.length > 1)))
    .map(({ name, plot }) => ({ name, title: plot.title, svg: drawPlot(plot) }))
}

type Kind = NamedTimelines & { of: string }

function splitByPlot<T extends { plot?: string }>(
  name: string,
  all: T[],
  draw: (list: T[]) => Plot,
): { name: string; plot: Plot }[] {
  return [...new Set(all.map(({ plot }) => plot))].map((title) => {
    const plot = draw(all.filter((one) => one.plot === title))
    if (title === undefined) return { name, plot }
    return {
      name: `${name}-${title.replaceAll(/\W+/g, '-')}`,
      plot: { ...plot, title: `${capitalize(title)}. ${plot.title}` },
    }
  })
}

/** The round whose time is in the middle comes first. */
function middleFirst(rounds: Timeline[]): Timeline[] {
  const bySpeed = [...rounds].sort((a, b) => (a.seconds.at(-1) ?? 0) - (b.seconds.at(-1) ?? 0))
  return [...bySpeed.splice(Math.floor(rounds.length / 2), 1), ...bySpeed]
}

const timeAxis = { label: 'seconds since the beginning', scale: 'linear' } as const

function plotThroughput(kinds: Kind[]): Plot {
  return {
    title: 'Throughput over time: each round a line, the middle one strong',
    x: timeAxis,
    y: { label: `${[...new Set(kinds.map(({ of }) => of))].join(' or ')} a second`, scale: 'linear' },
    series: kinds.map(({ name, rounds }, i) => ({
      name,
      ...styleFor(i),
      lines: rounds.flatMap(({ seconds, rows }) => (rows === null ? [] : [rates(seconds, rows)])),
    })),
  }
}

function plotMemory(kinds: Kind[]): Plot {
  return {
    title: 'Resident memory over time, in the middle round',
    x: timeAxis,
    y: { label: 'MB', scale: 'linear' },
    series: kinds.flatMap(({ name, rounds: [middle] }, color) =>
      Object.entries(middle?.memoryMB ?? {}).map(([process, values], i): Series => ({
        name: `${name}: ${process}`,
        color,
        ...(process === 'mongod' ? { stroke: 'dashed' } : i > 0 ? { stroke: 'dotted' } : {}),
        lines: [zip(middle?.seconds ?? [], values)],
      })),
    ),
  }
}

function plotCpu(kinds: Kind[]): Plot {
  return {
    title: 'Cores in use over time, in the middle round',
    x: timeAxis,
    y: { label: 'cores', scale: 'linear' },
    series: kinds.flatMap(({ name, rounds: [middle] }, color): Series[] => {
      if (middle === undefined) return []
      const { seconds, cpuSeconds } = middle
      const { mongod, ...clients } = cpuSeconds
      if (mongod === undefined) return []
      const client = seconds.map((_, i) =>
        Object.values(clients).reduce((sum, values) => sum + (values[i] ?? 0), 0),
      )
      const ofClient = { name: `${name}: client`, color, lines: [rates(seconds, client)] }
      return [
        ...(Object.keys(clients).length === 0 ? [] : [ofClient]),
        { name: `${name}: mongod`, color, stroke: 'dashed', lines: [rates(seconds, mongod)] },
      ]
    }),
  }
}

function plotLatency(latencies: NamedLatency[]): Plot {
  const kinds = [...new Set(latencies.map(({ of }) => of))]
  return {
    title: `Time of ${kinds.join(', ')}: the milliseconds that a share of them didn't exceed`,
    x: { label: 'share of them', scale: 'nines' },
    y: { label: 'milliseconds', scale: 'log' },
    series: latencies.map(({ name, quantiles }, i) => ({ name, ...styleFor(i), lines: [quantiles] })),
  }
}

/** There are six colours. */
const styleFor = (i: number): Pick<Series, 'color' | 'stroke'> => ({
  color: i,
  ...(i < 6 ? {} : { stroke: i < 12 ? 'dashed' : 'dotted' }),
})

const zip = (xs: number[], ys: number[]): [x: number, y: number][] =>
  xs.flatMap((x, i) => ys.slice(i, i + 1).map((y): [number, number] => [x, y]))

const windows = 30

/** Growth a second over windows of a thirtieth of the time: over a shorter one each batch's end would be a peak. */
function rates(seconds: number[], totals: number[]): [x: number, y: number][] {
  const width = (seconds.at(-1) ?? 0) / windows
  const rated: [x: number, y: number][] = []
  const [first, ...later] = zip(seconds, totals)
  let from = first
  for (const [second, total] of later) {
    const [start, before] = from ?? [second, total]
    const lasted = second - start
    if (lasted === 0 || lasted < width) continue
    rated.push([(start + second) / 2, (total - before) / lasted])
    from = [second, total]
  }
  return rated
}
