import { setTimeout as sleep } from 'node:timers/promises'
import { pollImport, startImport, uploaded } from '../imports.ts'
import type { Service } from '../service.ts'
import type { LoadedSubscribers } from './subscribers.ts'

const fileCount = 3

/**
 * Imports into the list that requests read and write, one after the other without a pause, until it is stopped. Half of
 * a file's rows update subscribers, the other half are new.
 */
export class RunningImport {
  readonly #service: Service
  readonly #loaded: LoadedSubscribers
  readonly #rowsOfFile: number
  #stopped = false
  #running: Promise<void> = Promise.resolve()
  #current = 0
  #rows = 0
  #seconds = 0

  constructor(service: Service, loaded: LoadedSubscribers, rowsOfFile: number) {
    this.#service = service
    this.#loaded = loaded
    this.#rowsOfFile = rowsOfFile
  }

  /** Resolves when the first import writes rows. */
  async start(): Promise<void> {
    const { file, big } = this.#loaded
    const half = Math.min(Math.floor(this.#rowsOfFile / 2), big.size)
    const more = this.#rowsOfFile - half
    for (let i = 0; i < fileCount; i += 1) {
      const updated = { first: (i * half) % Math.max(1, big.size - half), count: half }
      const added = { first: big.size + i * more, count: more }
      await this.#service.place(file.bytes(file.columns, [updated, added]), `running-${i}.csv`)
    }
    await this.#begin(0)
    await pollImport(this.#service.client, this.#current, ({ stats }) => stats.records_imported > 0)
    this.#running = this.#repeat()
    // `stop` reports its error.
    this.#running.catch(() => undefined)
  }

  /** Cancels the current import and waits for its last batch; resolves to the rows and the time of all imports. */
  async stop(): Promise<{ rows: number; seconds: number }> {
    this.#stopped = true
    const { client, database } = this.#service
    await client.post(`/subscriber_imports/${this.#current}/cancel`).catch(() => undefined)
    await this.#running
    while ((await database.collections.imports.countDocuments({ settled: false })) > 0) await sleep(250)
    return { rows: this.#rows, seconds: this.#seconds }
  }

  async #repeat(): Promise<void> {
    for (let i = 1; ; i += 1) {
      const startedAt = performance.now()
      const view = await pollImport(this.#service.client, this.#current)
      this.#rows += view.stats.records_imported
      this.#seconds += (performance.now() - startedAt) / 1000
      if (this.#stopped) return
      if (view.state !== 'finished')
        throw new Error(`import ${view.id} is ${view.state}: ${view.error_message}`)
      await this.#begin(i)
    }
  }

  async #begin(i: number): Promise<void> {
    const { file, big } = this.#loaded
    const request = { file_source: uploaded(`running-${i % fileCount}.csv`), overwrite: true }
    this.#current = await startImport(this.#service.client, big.id, file, request)
  }
}
