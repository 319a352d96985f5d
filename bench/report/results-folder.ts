import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { chartsOf } from './charts.ts'
import type { Report } from './report.ts'
import { resultsPage } from './results-page.ts'

/**
 * `RESULTS.md` and, beside it, `results/` with the figures of the last run of each benchmark (`NAME.json`) and their
 * plots. Each file is written under another name and renamed, the page last: who breaks off a run finds whole files.
 */
export class ResultsFolder {
  readonly #folder: string
  /** Benchmarks in the order of the page. */
  readonly #names: string[]

  constructor(folder: string, names: string[]) {
    this.#folder = folder
    this.#names = names
  }

  async keep(benchmark: string, json: string): Promise<void> {
    await mkdir(this.#results, { recursive: true })
    await replace(path.join(this.#results, `${benchmark}.json`), json)
  }

  /** Makes page and plots from what is kept, and removes plots that nothing shows any more. */
  async writePage(): Promise<string> {
    const results = (await this.#reports()).map((report) => ({ report, charts: chartsOf(report) }))
    const plots = new Set<string>()
    for (const { report, charts } of results)
      for (const { name, svg } of charts) {
        const file = `${report.benchmark}-${name}.svg`
        await replace(path.join(this.#results, file), svg)
        plots.add(file)
      }
    const page = path.join(this.#folder, 'RESULTS.md')
    await replace(page, resultsPage(results, this.#names))
    for (const file of await readdir(this.#results))
      if (file.endsWith('.part') || (file.endsWith('.svg') && !plots.has(file)))
        await rm(path.join(this.#results, file))
    return page
  }

  get #results(): string {
    return path.join(this.#folder, 'results')
  }

  async #reports(): Promise<Report[]> {
    await mkdir(this.#results, { recursive: true })
    const files = new Set(await readdir(this.#results))
    const known = this.#names.filter((name) => files.has(`${name}.json`))
    return Promise.all(
      known.map(
        async (name) =>
          JSON.parse(await readFile(path.join(this.#results, `${name}.json`), 'utf8')) as Report,
      ),
    )
  }
}

async function replace(file: string, text: string): Promise<void> {
  await writeFile(`${file}.part`, text)
  await rename(`${file}.part`, file)
}
