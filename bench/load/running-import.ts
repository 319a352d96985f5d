import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { importEnded, type ImportView } from '../../control-plane/cli/api-client.ts'
import type { MeasuredService } from './service-client.ts'
import { startImport, writeRows, type LoadedSubscribers } from './subscribers.ts'

/**
 * Imports into the list that requests read and write, one after the other without a pause, until it is stopped. Half of
 * a file's rows are subscribers that are there, which it updates, the other half are new ones.
 */
export class RunningImport {
  readonly #service: MeasuredService
  readonly #listId: number
  readonly #files: string[]
  #stopped = false
  #running: Promise<void> = Promise.resolve()
  #current: number | null = null
  #rows = 0
  #seconds = 0

  constructor(service: MeasuredService, listId: number, files: string[]) {
    this.#service = service
    this.#listId = listId
    this.#files = files
  }

  /** Resolves when the first one writes rows. */
  async start(): Promise<void> {
    await this.#begin(0)
    await this.#until((view) => view.stats.records_imported > 0)
    this.#running = this.#goOn()
    // Told by `stop`.
    this.#running.catch(() => undefined)
  }

  /** Cancels the one that runs, and waits for its last batch; the rows that all of them did, and in which time. */
  async stop(): Promise<{ rows: number; seconds: number }> {
    this.#stopped = true
    await this.#service.client.post(`/subscriber_imports/${this.#current}/cancel`).catch(() => undefined)
    await this.#running
    const { imports } = this.#service.database.collections
    while ((await imports.countDocuments({ settled: false })) > 0) await sleep(250)
    return { rows: this.#rows, seconds: this.#seconds }
  }

  async #goOn(): Promise<void> {
    for (let i = 1; ; i += 1) {
      const startedAt = performance.now()
      const view = await this.#until(importEnded)
      this.#rows += view.stats.records_imported
      this.#seconds += (performance.now() - startedAt) / 1000
      if (this.#stopped) return
      if (view.state !== 'finished')
        throw new Error(`import ${view.id} is ${view.state}: ${view.error_message}`)
      await this.#begin(i)
    }
  }

  async #begin(i: number): Promise<void> {
    const filename = this.#files[i % this.#files.length]!
    const { id } = await startImport(
      this.#service,
      this.#listId,
      { type: 'upload_directory', filename },
      { overwrite: true },
    )
    this.#current = id
  }

  async #until(isIt: (view: ImportView) => boolean): Promise<ImportView> {
    for (;;) {
      const view = await this.#service.client.get<ImportView>(`/subscriber_imports/${this.#current}`)
      if (isIt(view) || importEnded(view)) return view
      await sleep(250)
    }
  }
}

const fileCount = 3

/** Files for it: each with rows of its own, old and new. */
export async function writeImportFiles(
  service: MeasuredService,
  { lists, file }: LoadedSubscribers,
  rows: number,
): Promise<string[]> {
  const { size } = lists[0]!
  const half = Math.min(Math.floor(rows / 2), size)
  const names: string[] = []
  for (let i = 0; i < fileCount; i += 1) {
    const name = `running-${i}.csv`
    const first = (i * half) % Math.max(1, size - half)
    await writeRows(path.join(service.uploads, name), file, [
      { first, count: half },
      { first: size + i * (rows - half), count: rows - half },
    ])
    names.push(name)
  }
  return names
}
