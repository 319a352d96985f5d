import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Scenario } from '../scenario.ts'
import { htmlPage } from './html.ts'
import { compactJson, withoutSamples, type Report } from './report.ts'
import { resultsPage } from './results-page.ts'

/**
 * Keeps a run: in `results/` everything, as `NAME.json`, and as `NAME.html` with plots; in `RESULTS.json` the numbers of
 * each benchmark's last run. Then writes the page. Resolves to the page's path.
 */
export async function keepReport(folder: string, scenarios: Scenario[], report: Report): Promise<string> {
  const { benchmark } = report
  await replace(path.join(folder, 'results', `${benchmark}.json`), compactJson(report))
  await replace(path.join(folder, 'results', `${benchmark}.html`), htmlPage(report))
  const others = (await readReports(folder, scenarios)).filter((other) => other.benchmark !== benchmark)
  const all = [...others, report].map((one) => compactJson(withoutSamples(one)))
  await replace(path.join(folder, 'RESULTS.json'), `[\n${all.join(',\n')}]\n`)
  return writePage(folder, scenarios)
}

/** Makes `RESULTS.md` of `RESULTS.json`. Resolves to the page's path. */
export async function writePage(folder: string, scenarios: Scenario[]): Promise<string> {
  const page = path.join(folder, 'RESULTS.md')
  await replace(page, resultsPage(await readReports(folder, scenarios), scenarios))
  return page
}

/** In the order of the page; those of scenarios that are gone are left out. */
async function readReports(folder: string, scenarios: Scenario[]): Promise<Report[]> {
  const text = await readFile(path.join(folder, 'RESULTS.json'), 'utf8').catch(() => '[]')
  const reports = JSON.parse(text) as Report[]
  return scenarios.flatMap(({ name }) => reports.filter(({ benchmark }) => benchmark === name))
}

/** Writes under another name and renames, so that no file is ever half. */
async function replace(file: string, text: string): Promise<void> {
  await mkdir(path.dirname(file), { recursive: true })
  await writeFile(`${file}.part`, text)
  await rename(`${file}.part`, file)
}
