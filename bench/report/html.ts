import { drawCharts } from './charts.ts'
import { escapeXml } from './plot.ts'
import { compactJson, type Report } from './report.ts'
import {
  contenderNotes,
  describeLoad,
  describeMachine,
  describeVersions,
  formatCommand,
  tablesFor,
  two,
  type Table,
} from './text.ts'

/** A page of one run that needs no other file: tables, plots, and their numbers. */
export function htmlPage(report: Report): string {
  const { benchmark, summary, at, took_seconds, machine, versions, contenders, goals } = report
  const rounds = contenders.flatMap(({ name, rounds }) =>
    rounds.map((round, i) => [
      name,
      String(i + 1),
      two(round.seconds),
      two(round.client_us_per_row),
      two(round.server_us_per_row),
      round.is_right ? 'right' : 'WRONG',
    ]),
  )
  const heads = ['', 'round', 'seconds', 'client us/row', 'server us/row', 'result']
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escapeXml(benchmark)}: a benchmark of Rollcall</title>
<style>
:root { color-scheme: light dark; --line: #8884 }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1320px; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }
th, td { padding: .3rem .8rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap }
th:first-child, td:first-child { text-align: left }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 560px), 1fr)); gap: 1rem }
svg { width: 100%; height: auto } pre { overflow-x: auto }
</style>
</head>
<body>
<h1>${escapeXml(benchmark)}</h1>
<p>${escapeXml(summary)}</p>
<p><code>${escapeXml(formatCommand(report))}</code><br>
${escapeXml(at)}, ${took_seconds} s in all<br>
${escapeXml(describeMachine(machine))}; ${escapeXml(describeLoad(machine))}<br>
${escapeXml(describeVersions(versions))}</p>
${report.is_right ? '' : '<p><strong>A result was wrong: this run proves nothing.</strong></p>'}
${listItems(goals.map(({ what, isMet }) => `${isMet ? 'met' : 'MISSED'}: ${what}`))}
${tablesFor(report).map(formatTable).join('')}
${listItems(contenderNotes(report).map(({ name, note }) => `${name}: ${note}`))}
<p>Medians, with the lowest and the highest of all rounds. Memory is the highest of all rounds.</p>
<div class="plots">
${drawCharts(report)
  .map(({ svg }) => svg)
  .join('')}</div>
${rounds.length === 0 ? '' : `<details><summary>Each round</summary>${formatTable([heads, ...rounds])}</details>`}
<details><summary>Output</summary><pre>${escapeXml(report.transcript.join('\n'))}</pre></details>
<details><summary>All numbers (JSON)</summary><pre>${escapeXml(compactJson(report))}</pre></details>
</body>
</html>
`
}

const listItems = (items: string[]): string =>
  items.length === 0 ? '' : `<ul>${items.map((item) => `<li>${escapeXml(item)}</li>`).join('\n')}</ul>`

function formatTable([heads = [], ...rows]: Table): string {
  const formatRow = (cells: string[], tag: string) =>
    `<tr>${cells.map((cell) => `<${tag}>${escapeXml(cell)}</${tag}>`).join('')}</tr>`
  const body = rows.map((row) => formatRow(row, 'td')).join('\n')
  return `<table>\n<thead>${formatRow(heads, 'th')}</thead>\n<tbody>\n${body}\n</tbody>\n</table>\n`
}
