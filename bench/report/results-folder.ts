import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Scenario } from '../scenario.ts'
import { htmlPage } from './html.ts'
import { compactJson, withoutSamples, type Report } from './report.ts'
import { resultsPage } from './results-page.ts'

/**
 * `RESULTS.md`, made from `RESULTS.json`, which has the numbers of each benchmark's last run. `results/` has everything:
 * `NAME.json`, and `NAME.html` with plots. A file is written under another name and renamed, so that none is ever half.
 */
export class ResultsFolder {
  readonly #folder: string
  /** In the order of the page. */
  readonly #scenarios: Scenario[]

  constructor(folder: string, scenarios: Scenario[]) {
    this.#folder = folder
    this.#scenarios = scenarios
  }

  async keep(report: Report): Promise<void> {
    const results = path.join(this.#folder, 'results')
    await mkdir(results, { recursive: true })
    await replace(path.join(results, `${report.benchmark}.json`), compactJson(report))
    await replace(path.join(results, `${report.benchmark}.html`), htmlPage(report))
    const known = new Set(this.#scenarios.flatMap(({ name }) => [`${name}.json`, `${name}.html`]))
    for (const file of await readdir(results)) if (!known.has(file)) await rm(path.join(results, file))
    const others = (await this.#reports()).filter(({ benchmark }) => benchmark !== report.benchmark)
    const all = [...others, report].map((one) => compactJson(withoutSamples(one)))
    await replace(path.join(this.#folder, 'RESULTS.json'), `[\n${all.join(',\n')}]\n`)
  }

  /** Resolves to the page's path. */
  async writePage(): Promise<string> {
    const page = path.join(this.#folder, 'RESULTS.md')
    await mkdir(this.#folder, { recursive: true })
    await replace(page, resultsPage(await this.#reports(), this.#scenarios))
    return page
  }

  /** In the order of the page; those of scenarios that are gone are left out. */
  async #reports(): Promise<Report[]> {
    const text = await readFile(path.join(this.#folder, 'RESULTS.json'), 'utf8').catch(() => '[]')
    const reports = JSON.parse(text) as Report[]
    return this.#scenarios.flatMap(({ name }) => reports.filter(({ benchmark }) => benchmark === name))
  }
}

async function replace(file: string, text: string): Promise<void> {
  await writeFile(`${file}.part`, text)
  await rename(`${file}.part`, file)
}
