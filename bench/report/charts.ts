import type { ChartConfiguration, ChartDataset } from 'chart.js'
import type { NamedLatency, Timeline } from '../scenario.ts'
import { middle } from '../statistics.ts'
import type { Report } from './report.ts'
import { capitalize, plural } from './text.ts'

/** A plot as Chart.js takes it. There are no functions in it, so it can be written as JSON. */
type Chart = ChartConfiguration<'scatter'>

type Line = ChartDataset<'scatter'>
type Point = { x: number; y: number }

/** The plots of a report that have at least one line. Lines over time are those of the middle round. */
export function drawCharts(report: Report): Chart[] {
  const works = report.contenders.flatMap(({ name, rounds }): Work[] => {
    const timeline = middle(rounds, ({ seconds }) => seconds)?.timeline
    return timeline === undefined ? [] : [{ name, ...timeline }]
  })
  const plots = Map.groupBy(report.latencies, ({ plot }) => plot)
  return [
    drawOverTime(
      'Throughput',
      `${plural(report.unit)} a second`,
      works.map(({ name, seconds, rows }, i) => drawLine(name, rates(seconds, rows), i)),
    ),
    ...[...plots].map(([plot, list]) =>
      drawLatencies(plot === undefined ? '' : `${capitalize(plot)}. `, list),
    ),
    drawCores(works),
  ].filter(({ data }) => data.datasets.some((line) => line.data.length > 1))
}

type Work = Timeline & { name: string }

function drawCores(works: Work[]): Chart {
  const lines = works.flatMap(({ name, seconds, cpu_seconds: { mongod = [], ...clients } }, color) => {
    const ofClients = Object.values(clients)
    const client = ofClients[0]?.map((_, i) => ofClients.reduce((sum, values) => sum + values[i]!, 0)) ?? []
    return [
      drawLine(`${name}: client`, rates(seconds, client), color, 0),
      drawLine(`${name}: mongod`, rates(seconds, mongod), color, 1),
    ].filter(({ data }) => data.length > 0)
  })
  return drawOverTime('Cores in use', 'cores', lines)
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

const drawOverTime = (what: string, y: string, lines: Line[]): Chart =>
  drawChart(`${what} over time, in the middle round`, 'seconds since the beginning', y, lines, 'linear')

function drawChart(
  title: string,
  x: string,
  y: string,
  datasets: Line[],
  type: 'linear' | 'logarithmic',
): Chart {
  const axis = (text: string) => ({ type, beginAtZero: type === 'linear', title: { display: true, text } })
  const plugins = { title: { display: true, text: title } }
  const options = { animation: false, plugins, scales: { x: axis(x), y: axis(y) } } as const
  return { type: 'scatter', data: { datasets }, options }
}

/** Growth a second over windows of a thirtieth of the time: over a shorter one each batch's end would be a peak. */
function rates(seconds: number[], totals: number[]): Point[] {
  const width = (seconds.at(-1) ?? 0) / 30
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
