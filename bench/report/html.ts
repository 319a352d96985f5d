import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { marked } from 'marked'
import { drawCharts } from './charts.ts'
import { describeGoals, describeReport } from './page.ts'
import { compactJson, type Report } from './report.ts'

/** A page of one run that needs no other file: tables, plots, and their numbers. Plots are drawn by the browser. */
export function htmlPage(report: Report): string {
  const markdown = [
    ...describeReport(report),
    ...describeGoals(report),
    '<div id="charts"></div>',
    '',
    ...folded('Output', report.transcript.join('\n')),
    ...folded('All numbers (JSON)', compactJson(report)),
  ].join('\n')
  const charts = JSON.stringify(drawCharts(report)).replaceAll('<', String.raw`\u003c`)
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${report.benchmark}: a benchmark of Rollcall</title>
<style>
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1320px; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }
th, td { padding: .3rem .8rem; border-bottom: 1px solid #8884; text-align: right; white-space: nowrap }
th:first-child, td:first-child { text-align: left }
#charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 560px), 1fr)); gap: 1rem }
pre { overflow-x: auto }
</style>
${marked.parse(markdown, { async: false })}
<script>${readChartJs()}</script>
<script>
Chart.defaults.color = matchMedia('(prefers-color-scheme: dark)').matches ? '#bbb' : '#444'
Chart.defaults.borderColor = '#8884'
for (const chart of ${charts}) {
  const box = document.getElementById('charts').appendChild(document.createElement('div'))
  new Chart(box.appendChild(document.createElement('canvas')), chart)
}
</script>
</html>
`
}

/** A text that is shown when its title is clicked. */
const folded = (title: string, text: string): string[] => [
  `<details><summary>${title}</summary>`,
  '',
  '~~~~',
  text,
  '~~~~',
  '',
  '</details>',
  '',
]

/** The library as one script for a browser, which lies beside its main file. */
function readChartJs(): string {
  const main = createRequire(import.meta.url).resolve('chart.js')
  return readFileSync(path.join(path.dirname(main), 'chart.umd.min.js'), 'utf8')
}
