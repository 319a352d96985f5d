import { setTimeout as sleep } from 'node:timers/promises'
import { columns } from '../datasets/subscriber-file.ts'
import { pollImport, startImport, uploaded } from '../imports.ts'
import type { Service } from '../service.ts'
import type { LoadedSubscribers } from './subscribers.ts'

const fileCount = 3

/**
 * Imports into the list that requests read and write, one after the other without a pause, while the work is done. Half
 * of a file's rows update subscribers, the other half are new. Resolves to the rows a second of all imports.
 */
export async function whileImporting(
  { client, database, place }: Service,
  { file, big }: LoadedSubscribers,
  rowsOfFile: number,
  work: () => Promise<void>,
): Promise<number> {
  const half = Math.min(Math.floor(rowsOfFile / 2), big.size)
  const more = rowsOfFile - half
  for (let i = 0; i < fileCount; i += 1) {
    const updated = { first: (i * half) % Math.max(1, big.size - half), count: half }
    const added = { first: big.size + i * more, count: more }
    await place(file.bytes(columns, [updated, added]), `running-${i}.csv`)
  }
  const begin = (i: number) => {
    const request = { file_source: uploaded(`running-${i % fileCount}.csv`), overwrite: true }
    return startImport(client, big.id, request)
  }
  let current = await begin(0)
  let [isOver, rows, seconds] = [false, 0, 0]
  const importUntilOver = async () => {
    for (let i = 1; ; i += 1) {
      const startedAt = performance.now()
      const { id, state, stats, error_message } = await pollImport(client, current)
      rows += stats.records_imported
      seconds += (performance.now() - startedAt) / 1000
      if (isOver) return
      if (state !== 'finished') throw new Error(`import ${id} is ${state}: ${error_message}`)
      current = await begin(i)
    }
  }
  await pollImport(client, current, ({ stats }) => stats.records_imported > 0)
  const importing = importUntilOver()
  // Where the work fails, its error is the one that is reported.
  importing.catch(() => undefined)
  await Promise.race([importing, work()])
  isOver = true
  await client.post(`/subscriber_imports/${current}/cancel`).catch(() => undefined)
  await importing
  while ((await database.collections.imports.countDocuments({ finalized: false })) > 0) await sleep(250)
  return rows / seconds
}
