import { scaleLinear, scaleLog, type ScaleContinuousNumeric } from 'd3-scale'
import { line } from 'd3-shape'

/** Drawn as an SVG document that follows the reader's light or dark scheme. */
export interface Plot {
  title: string
  x: Axis
  y: Axis
  series: Series[]
}

interface Axis {
  label: string
  /** `log` needs values above 0. `nines` is for shares and gives each further nine the same width. */
  scale: 'linear' | 'log' | 'nines'
}

export interface Series {
  name: string
  /** Number of the colour; related series share one. */
  color: number
  stroke?: 'dashed' | 'dotted'
  /** One a round. The first is drawn strong, the others faint. */
  lines: [x: number, y: number][][]
}

const [width, height] = [640, 300]
const margin = { top: 34, right: 24, bottom: 40, left: 62 }
const legendLine = 18
const colors = 6

/** Distinct without red and green, on white and on black (Okabe and Ito, the dark ones lightened). */
const style = `text{font:12px system-ui,sans-serif;fill:#444}.title{font-weight:600;fill:#111}
.grid{stroke:#ddd}.line{fill:none;stroke-width:2;stroke-linejoin:round}.faint{stroke-width:1;opacity:.35}.dashed{stroke-dasharray:6 4}.dotted{stroke-dasharray:2 3}
.c0{stroke:#0072b2}.c1{stroke:#d55e00}.c2{stroke:#009e73}.c3{stroke:#b0578d}.c4{stroke:#b07a00}.c5{stroke:#2b8fc4}
@media (prefers-color-scheme:dark){text{fill:#bbb}.title{fill:#eee}.grid{stroke:#3a3a3a}
.c0{stroke:#4cb1ee}.c1{stroke:#ff8a3d}.c2{stroke:#2fd6a5}.c3{stroke:#e58fc0}.c4{stroke:#f0c040}.c5{stroke:#9bd7ff}}`

export function drawPlot({ title, x, y, series }: Plot): string {
  const legend = drawLegend(series)
  const top = margin.top + legend.lines * legendLine
  const bottom = top + height - margin.top - margin.bottom
  const points = series.flatMap(({ lines }) => lines.flat())
  const xAxis = placeAxis(
    x,
    points.map(([value]) => value),
    [margin.left, width - margin.right],
  )
  const yAxis = placeAxis(
    y,
    points.map(([, value]) => value),
    [bottom, top],
  )
  const path = line(
    ([value]) => xAxis.place(value),
    ([, value]) => yAxis.place(value),
  )
  const drawn = series.flatMap(({ color, stroke = '', lines }) =>
    // The strong line is drawn last, above the others.
    lines
      .map((points, i) => {
        const classes = `line c${color % colors}${i > 0 ? ' faint' : ''}${stroke === '' ? '' : ` ${stroke}`}`
        return `<path class="${classes}" d="${shorten(path(points) ?? '')}"/>`
      })
      .reverse(),
  )
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${bottom + margin.bottom}" role="img" aria-label="${escapeXml(title)}">`,
    `<style>${style}</style>`,
    `<text class="title" x="${margin.left}" y="18">${escapeXml(title)}</text>`,
    ...legend.drawn,
    ...xAxis.ticks.map(
      ({ at, text }) => `<text x="${at}" y="${bottom + 16}" text-anchor="middle">${text}</text>`,
    ),
    ...yAxis.ticks.map(
      ({ at, text }) =>
        `<path class="grid" d="M${margin.left},${at}H${width - margin.right}"/><text x="${margin.left - 6}" y="${at + 4}" text-anchor="end">${text}</text>`,
    ),
    `<text x="${(margin.left + width - margin.right) / 2}" y="${bottom + 33}" text-anchor="middle">${escapeXml(x.label)}</text>`,
    `<text transform="translate(14,${(top + bottom) / 2})rotate(-90)" text-anchor="middle">${escapeXml(y.label)}</text>`,
    ...drawn,
    '</svg>',
    '',
  ].join('\n')
}

export const escapeXml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

/** Coordinates with a tenth of a pixel. */
const shorten = (path: string): string => path.replaceAll(/\d+\.\d+/g, (number) => Number(number).toFixed(1))

/** Names in as many lines as they need. Text widths are estimated: there is no browser. */
function drawLegend(series: Series[]): { lines: number; drawn: string[] } {
  let [left, lines] = [margin.left, 1]
  const drawn = series.map(({ name, color, stroke = '' }) => {
    const needed = 38 + name.length * 6.6
    if (left > margin.left && left + needed > width - margin.right) {
      left = margin.left
      lines += 1
    }
    const y = margin.top - 4 + (lines - 1) * legendLine
    const entry = `<path class="line c${color % colors}${stroke === '' ? '' : ` ${stroke}`}" d="M${left},${y}h18"/><text x="${left + 23}" y="${y + 4}">${escapeXml(name)}</text>`
    left = Math.round(left + needed)
    return entry
  })
  return { lines, drawn }
}

interface PlacedAxis {
  place: (value: number) => number
  ticks: { at: number; text: string }[]
}

function placeAxis({ scale: kind }: Axis, values: number[], range: [number, number]): PlacedAxis {
  if (kind === 'nines') return ninesAxis(range)
  const max = Math.max(...values, kind === 'log' ? 1 : 0)
  const scale: ScaleContinuousNumeric<number, number> =
    kind === 'log'
      ? scaleLog().domain([Math.max(0.1, Math.min(...values, max / 10)), max])
      : scaleLinear().domain([0, max === 0 ? 1 : max])
  scale.range(range).nice()
  const ticks = kind === 'log' ? scale.ticks().filter(isPowerOfTen) : scale.ticks(6)
  return {
    place: (value) => scale(kind === 'log' ? Math.max(value, 0.1) : value),
    ticks: ticks.map((tick) => ({ at: Math.round(scale(tick)), text: shortNumber(tick) })),
  }
}

const isPowerOfTen = (value: number): boolean => Math.abs(Math.log10(value) % 1) < 1e-9

/** From the fastest to the slowest of a thousand. */
const ninesTicks = [0, 0.5, 0.9, 0.99, 0.999]

function ninesAxis(range: [number, number]): PlacedAxis {
  const scale = scaleLinear().domain([0, 3]).range(range)
  const place = (part: number) => scale(Math.min(3, -Math.log10(1 - Math.min(part, 0.9999))))
  const label = (part: number) => (part === 0 ? 'fastest' : `p${part * 100}`)
  return { place, ticks: ninesTicks.map((part) => ({ at: Math.round(place(part)), text: label(part) })) }
}

function shortNumber(value: number): string {
  if (value >= 1e6) return `${value / 1e6} M`
  return value >= 1e4 ? `${value / 1e3} k` : value.toLocaleString('en')
}
