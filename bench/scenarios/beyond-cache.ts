import { rollcallImport } from '../contenders/rollcall-import.ts'
import { writeSubscriberFile } from '../datasets/subscriber-file.ts'
import type { Comparison } from '../scenario.ts'

/** More than the server's cache holds: neither the time of a row nor the engine's memory may grow with the file. */
export const beyondCache: Comparison = {
  name: 'beyond-cache',
  summary: 'many new rows on a server with 0.5 GB of cache, against a tenth of them there',
  defaultRows: 10_000_000,
  quick: false,
  cacheMB: 512,
  async prepare(context) {
    const sizes = [context.rows, Math.ceil(context.rows / 10)]
    const files = []
    for (const rows of sizes)
      files.push(await writeSubscriberFile({ ...context, rows }, { name: `rows-${rows}.csv` }))
    return files.map((written) =>
      rollcallImport(context, { name: `${written.dataset.rows.toLocaleString('en')} rows`, ...written }),
    )
  },
}
