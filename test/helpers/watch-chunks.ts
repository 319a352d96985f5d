import type { Test } from 'tap'
import { until, type Service } from './service.ts'

/** Counts the chunks that are made from now on. Resolves to a function that waits until there are more than `few`. */
export async function watchChunks(
  t: Test,
  { collections, db }: Service,
): Promise<(few: number) => Promise<unknown>> {
  const { operationTime } = await db.command({ ping: 1 })
  const splits = collections.chunks.watch([{ $match: { operationType: 'insert' } }], {
    startAtOperationTime: operationTime,
  })
  t.teardown(() => splits.close())
  let chunks = 0
  splits.on('change', () => (chunks += 1))
  return (few) =>
    until(
      'several chunks',
      async () => chunks,
      (made) => made > few,
    )
}
