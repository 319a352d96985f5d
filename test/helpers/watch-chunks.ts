import type { Test } from 'tap'
import { until, type Service } from './service.ts'

/** Counts the chunks that are made from now on. The result waits until there are more than `few`. */
export function watchChunks(t: Test, { collections }: Service): (few: number) => Promise<unknown> {
  const splits = collections.chunks.watch([{ $match: { operationType: 'insert' } }])
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
