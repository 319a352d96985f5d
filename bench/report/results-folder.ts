import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { htmlPage } from './html.ts'
import { resultsPage } from './page.ts'
import { compactJson, withoutSamples, type Report } from './report.ts'

/**
 * Keeps a run: in `results/` everything, as `NAME.json`, and as `NAME.html` with plots; in `RESULTS.json` the numbers of
 * each benchmark's last run. Then writes the page. Resolves to the page's path.
 */
export async function keepReport(folder: string, names: string[], report: Report): Promise<string> {
  const { benchmark } = report
  await replace(path.join(folder, 'results', `${benchmark}.json`), compactJson(report))
  await replace(path.join(folder, 'results', `${benchmark}.html`), htmlPage(report))
  const others = (await readReports(folder, names)).filter((other) => other.benchmark !== benchmark)
  const all = [...others, report].map((one) => compactJson(withoutSamples(one)))
  await replace(path.join(folder, 'RESULTS.json'), `[\n${all.join(',\n')}]\n`)
  return writePage(folder, names)
}

/** Makes `RESULTS.md` of `RESULTS.json`, in the order of the names. Resolves to the page's path. */
export async function writePage(folder: string, names: string[]): Promise<string> {
  const page = path.join(folder, 'RESULTS.md')
  await replace(page, resultsPage(await readReports(folder, names), names))
  return page
}

/** In the order of the names; those of benchmarks that are gone are left out. */
async function readReports(folder: string, names: string[]): Promise<Report[]> {
  const text = await readFile(path.join(folder, 'RESULTS.json'), 'utf8').catch(() => '[]')
  const reports = JSON.parse(text) as Report[]
  return names.flatMap((name) => reports.filter(({ benchmark }) => benchmark === name))
}

/** Writes under another name and renames, so that no file is ever half. */
async function replace(file: string, text: string): Promise<void> {
  await mkdir(path.dirname(file), { recursive: true })
  await writeFile(`${file}.part`, text)
  await rename(`${file}.part`, file)
}
