import { useEffect, useRef } from 'preact/hooks'
import { html } from 'htm/preact'
import UPlot from 'uplot'
import { clockTime, number, zone } from './format.ts'
import { Figures } from './page.ts'

/** Rows done at an instant, in seconds. */
export interface Sample {
  at: number
  rows: number
}

const maxSamples = 600

/** With one more sample. Beyond the bound every second one is left out, so that a long import takes no more memory. */
export function withSample(samples: Sample[], sample: Sample): Sample[] {
  const last = samples.at(-1)
  if (last !== undefined && sample.at - last.at < 0.5) return samples
  const all = [...samples, sample]
  return all.length <= maxSamples ? all : all.filter((_, i) => i % 2 === 0 || i === all.length - 1)
}

/** Rows a second over the last ten seconds, because the rate before a pause predicts nothing; null while unknown. */
export function currentRate(samples: Sample[]): number | null {
  const last = samples.at(-1)
  const first = last && samples.find(({ at }) => last.at - at <= 10)
  if (last === undefined || first === undefined || last.at - first.at < 0.5) return null
  return (last.rows - first.rows) / (last.at - first.at)
}

const rates = (samples: Sample[]): [number[], number[]] => [
  samples.slice(1).map(({ at }) => at),
  samples.slice(1).map(({ at, rows }, i) => (rows - samples[i]!.rows) / (at - samples[i]!.at)),
]

/** Rows a second as a plot, and the same figures in a table beside it. */
export function RatePlot({ samples }: { samples: Sample[] }) {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<UPlot | null>(null)
  const isShown = samples.length > 2
  const data = rates(samples)
  useEffect(() => {
    if (!isShown) return undefined
    const dark = matchMedia('(prefers-color-scheme: dark)')
    const make = () => {
      plot.current?.destroy()
      plot.current = new UPlot(options(box.current!), data, box.current!)
    }
    const fit = () => plot.current?.setSize({ width: box.current!.clientWidth, height: plotHeight })
    make()
    dark.addEventListener('change', make)
    addEventListener('resize', fit)
    return () => {
      dark.removeEventListener('change', make)
      removeEventListener('resize', fit)
      plot.current?.destroy()
      plot.current = null
    }
  }, [isShown])
  useEffect(() => plot.current?.setData(data), [samples])
  if (!isShown) return null
  const [, values] = data
  const last = samples.at(-1)!
  const mean = (last.rows - samples[0]!.rows) / (last.at - samples[0]!.at)
  const highest = values.reduce((most, value) => Math.max(most, value), 0)
  const figures: [string, number][] = [
    ['Now', currentRate(samples) ?? 0],
    ['Highest', highest],
    ['Mean', mean],
  ]
  const rows = figures.map(([name, value]) => [name, number(Math.round(value))])
  const named = rows.map(([name, value]) => `${name!.toLowerCase()} ${value}`).join(', ')
  return html`<div class="plot">
    <div ref=${box} role="img" aria-label=${`Rows a second: ${named}`} />
    <${Figures} label="Rows a second" rows=${rows} />
  </div>`
}

const plotHeight = 170

const wholeSeconds = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_800, 3_600]

function options(box: HTMLElement): UPlot.Options {
  const styles = getComputedStyle(box)
  const colour = (name: string) => styles.getPropertyValue(`--${name}`)
  const axis = {
    stroke: colour('soft'),
    font: '12px system-ui',
    grid: { stroke: colour('line'), width: 1 },
    ticks: { show: false },
  }
  return {
    width: box.clientWidth,
    height: plotHeight,
    legend: { show: false },
    cursor: { show: false },
    tzDate: (at) => UPlot.tzDate(new Date(at * 1000), zone()),
    axes: [
      { ...axis, size: 32, space: 90, incrs: wholeSeconds, values: (_plot, ticks) => ticks.map(clockTime) },
      { ...axis, size: 64, values: (_plot, ticks) => ticks.map((tick) => number(tick)) },
    ],
    scales: { y: { range: (_plot, _min, max) => [0, Math.max(1, max * 1.1)] } },
    series: [
      {},
      { stroke: colour('accent'), fill: colour('accent-ground'), width: 2, points: { show: false } },
    ],
  }
}
