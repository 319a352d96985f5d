import { chartsOf } from './charts.ts'
import { escapeXml } from './plot.ts'
import { compactJson, type Report } from './report.ts'
import {
  commandOf,
  describe,
  describeVersions,
  particularsOf,
  peaksOf,
  two,
  whole,
  withRange,
} from './text.ts'

/** A page that needs nothing but itself: tables and plots of one run, and the figures that they are made from. */
export function htmlPage(report: Report): string {
  const { benchmark, summary, at, took_seconds, machine, versions } = report
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escapeXml(benchmark)}: a benchmark of Rollcall</title>
<style>
:root { color-scheme: light dark; --line: #ddd; --soft: #666; --bad: #b00020; --good: #00695c }
@media (prefers-color-scheme: dark) { :root { --line: #3a3a3a; --soft: #aaa; --bad: #ff8a80; --good: #4db6ac } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1320px; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }
th, td { padding: .3rem .8rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap }
th:first-child, td:first-child { text-align: left }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 560px), 1fr)); gap: 1rem }
.soft { color: var(--soft) } .missed, .wrong { color: var(--bad) } .met { color: var(--good) }
svg { width: 100%; height: auto } pre { overflow-x: auto }
</style>
</head>
<body>
<h1>${escapeXml(benchmark)}</h1>
<p>${escapeXml(summary)}</p>
<p class="soft"><code>${escapeXml(commandOf(report))}</code><br>
${escapeXml(at)}, ${whole(took_seconds)} s in all<br>
${escapeXml(describe(machine))}; load average ${machine.load_average_before.toFixed(1)} before, ${machine.load_average_after.toFixed(1)} after<br>
${escapeXml(describeVersions(versions))}</p>
${report.is_right ? '' : '<p class="wrong"><strong>A result was wrong: this run proves nothing.</strong></p>'}
${goals(report)}${contenders(report)}${comparisons(report)}
<div class="plots">
${chartsOf(report)
  .map(({ svg }) => svg)
  .join('')}</div>
${rounds(report)}
<details><summary>What it said while it ran</summary><pre>${escapeXml(report.transcript.join('\n'))}</pre></details>
<details><summary>All figures (JSON)</summary><pre>${escapeXml(compactJson(report))}</pre></details>
</body>
</html>
`
}

function goals({ goals }: Report): string {
  if (goals.length === 0) return ''
  const items = goals.map(
    ({ what, isMet }) =>
      `<li><strong class="${isMet ? 'met' : 'missed'}">${isMet ? 'met' : 'missed'}</strong> ${escapeXml(what)}</li>`,
  )
  return `<ul>\n${items.join('\n')}\n</ul>\n`
}

function contenders({ contenders }: Report): string {
  if (contenders.length === 0) return ''
  const one = (value: number) => value.toFixed(1)
  const particulars = contenders
    .map((contender) => ({ name: contender.name, told: particularsOf(contender) }))
    .filter(({ told }) => told !== '')
    .map(({ name, told }) => `<li><strong>${escapeXml(name)}</strong>: ${escapeXml(told)}</li>`)
  return `${table(
    ['', 'rows/s', 'seconds', 'client CPU us/row', 'server CPU us/row', 'peak memory MB'],
    contenders.map((contender) => [
      contender.name,
      withRange(contender.rows_per_second, whole),
      withRange(contender.seconds, one),
      withRange(contender.client_us_per_row, one),
      withRange(contender.server_us_per_row, one),
      peaksOf(contender),
    ]),
  )}<ul>${particulars.join('')}</ul>
<p class="soft">Medians, with the least and the most of all rounds. Memory is the highest of all rounds.</p>
`
}

function comparisons({ comparisons }: Report): string {
  if (comparisons.length === 0) return ''
  return table(
    ['ratio within each round', 'rows/s', 'CPU a row, the other way round'],
    comparisons.map(({ of, to, speed, cpu }) => [
      `${of} / ${to}`,
      withRange(speed, two),
      withRange(cpu, two),
    ]),
  )
}

function rounds({ contenders }: Report): string {
  if (contenders.length === 0) return ''
  const rows = contenders.flatMap(({ name, rounds }) =>
    rounds.map((round, i) => [
      name,
      String(i + 1),
      two(round.seconds),
      round.client_us_per_row.toFixed(1),
      round.server_us_per_row.toFixed(1),
      round.is_right ? 'right' : 'WRONG',
    ]),
  )
  return `<details><summary>Each round</summary>${table(['', 'round', 'seconds', 'client us/row', 'server us/row', 'result'], rows)}</details>`
}

function table(heads: string[], rows: string[][]): string {
  const lineOf = (cells: string[], tag: string) =>
    `<tr>${cells.map((cell) => `<${tag}>${escapeXml(cell)}</${tag}>`).join('')}</tr>`
  return `<table>
<thead>${lineOf(heads, 'th')}</thead>
<tbody>
${rows.map((row) => lineOf(row, 'td')).join('\n')}
</tbody>
</table>
`
}
