import type { ChartConfiguration, ChartDataset } from 'chart.js'
import type { NamedLatency, NamedTimelines, Timeline } from '../scenario.ts'
import type { Report } from './report.ts'
import { capitalize } from './text.ts'

/** A plot as Chart.js takes it. There are no functions in it, so it can be written as JSON. */
type Chart = ChartConfiguration<'scatter'>

type Line = ChartDataset<'scatter'>
type Point = { x: number; y: number }

/** The plots of a report that have at least one line. Lines over time are those of the middle round. */
export function drawCharts(report: Report): Chart[] {
  const ofContenders = report.contenders.map(({ name, rounds }): NamedTimelines => ({
    name,
    rounds: rounds.flatMap(({ timeline }) => timeline ?? []),
  }))
  const works = [...ofContenders, ...report.timelines].map(({ rounds, ...work }) => ({
    of: 'rows',
    ...work,
    middle: middleRound(rounds),
  }))
  return [
    ...byPlot(works).map(([title, list]) => drawThroughput(title, list)),
    ...byPlot(report.latencies).map(([title, list]) => drawLatencies(title, list)),
    drawMemory(works),
    drawCores(works),
  ].filter(({ data }) => data.datasets.some((line) => line.data.length > 1))
}

type Work = Omit<NamedTimelines, 'rounds'> & { of: string; middle: Timeline }

const nothing: Timeline = { seconds: [], rows: null, cpuSeconds: {}, memoryMB: {} }

function middleRound(rounds: Timeline[]): Timeline {
  const bySpeed = rounds.toSorted((a, b) => (a.seconds.at(-1) ?? 0) - (b.seconds.at(-1) ?? 0))
  return bySpeed[Math.floor(rounds.length / 2)] ?? nothing
}

/** What shares a plot, with the beginning of the plot's title. */
function byPlot<T extends { plot?: string }>(all: T[]): [title: string, list: T[]][] {
  const groups = Map.groupBy(all, ({ plot }) => (plot === undefined ? '' : `${capitalize(plot)}. `))
  return [...groups]
}

const timeAxis = 'seconds since the beginning'

function drawThroughput(title: string, works: Work[]): Chart {
  const units = [...new Set(works.map(({ of }) => of))].join(' or ')
  const lines = works.map(({ name, middle: { seconds, rows } }, i) =>
    drawLine(name, rates(seconds, rows ?? []), i),
  )
  return drawChart(`${title}Throughput over time, in the middle round`, timeAxis, `${units} a second`, lines)
}

function drawMemory(works: Work[]): Chart {
  const lines = works.flatMap(({ name, middle: { seconds, memoryMB } }, color) =>
    Object.entries(memoryMB).map(([process, values], dash) => {
      const points = values.map((y, i) => ({ x: seconds[i]!, y }))
      return drawLine(`${name}: ${process}`, points, color, dash)
    }),
  )
  return drawChart('Resident memory over time, in the middle round', timeAxis, 'MB', lines)
}

function drawCores(works: Work[]): Chart {
  const lines = works.flatMap(({ name, middle: { seconds, cpuSeconds } }, color) => {
    const { mongod = [], ...clients } = cpuSeconds
    const ofClients = Object.values(clients)
    const client = ofClients[0]?.map((_, i) => ofClients.reduce((sum, values) => sum + values[i]!, 0)) ?? []
    return [
      drawLine(`${name}: client`, rates(seconds, client), color, 0),
      drawLine(`${name}: mongod`, rates(seconds, mongod), color, 1),
    ].filter(({ data }) => data.length > 0)
  })
  return drawChart('Cores in use over time, in the middle round', timeAxis, 'cores', lines)
}

/** The slowest of all is one in their number. On a logarithmic scale each further nine has the same width. */
function drawLatencies(title: string, latencies: NamedLatency[]): Chart {
  const kinds = [...new Set(latencies.map(({ of }) => of))].join(', ')
  const lines = latencies.map(({ name, count, quantiles }, i) => {
    const points = quantiles.map(([share, milliseconds]) => ({
      x: 1 / Math.max(1 - share, 1 / count),
      y: Math.max(milliseconds, 0.1),
    }))
    return drawLine(name, points, i)
  })
  const axis = 'one in how many took longer (2: the median, 100: the 99th percentile)'
  return drawChart(`${title}Time of ${kinds}`, axis, 'milliseconds', lines, 'logarithmic')
}

/** Distinct without red and green, on white and on black (after Okabe and Ito). */
const colors = ['#0072b2', '#d55e00', '#009e73', '#b0578d', '#b07a00', '#2b8fc4']
const dashes = [[], [6, 4], [2, 3]]

function drawLine(
  label: string,
  data: Point[],
  color: number,
  dash = Math.floor(color / colors.length),
): Line {
  const borderColor = colors[color % colors.length]!
  const borderDash = dashes[dash % dashes.length]!
  return { label, data, borderColor, borderDash, borderWidth: 2, pointRadius: 0, showLine: true }
}

function drawChart(
  title: string,
  x: string,
  y: string,
  datasets: Line[],
  type: 'linear' | 'logarithmic' = 'linear',
): Chart {
  const axis = (text: string) => ({ type, beginAtZero: type === 'linear', title: { display: true, text } })
  return {
    type: 'scatter',
    data: { datasets },
    options: {
      animation: false,
      plugins: { title: { display: true, text: title } },
      scales: { x: axis(x), y: axis(y) },
    },
  }
}

const windows = 30

/** Growth a second over windows of a thirtieth of the time: over a shorter one each batch's end would be a peak. */
function rates(seconds: number[], totals: number[]): Point[] {
  const width = (seconds.at(-1) ?? 0) / windows
  const points: Point[] = []
  let from = 0
  for (let to = 1; to < totals.length; to += 1) {
    const lasted = seconds[to]! - seconds[from]!
    if (lasted === 0 || lasted < width) continue
    points.push({ x: (seconds[from]! + seconds[to]!) / 2, y: (totals[to]! - totals[from]!) / lasted })
    from = to
  }
  return points
}
