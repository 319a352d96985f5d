import { batchRecords } from '../../shared/csv/chunk-records.ts'
import type { Latency } from '../scenario.ts'

/** How long the engine's batches took, from its histogram: known as exactly as that has bounds. */
export async function batchTimes(metricsUrl: string): Promise<{ since: () => Promise<Latency> }> {
  const before = await readBuckets(metricsUrl)
  return {
    async since() {
      const buckets = (await readBuckets(metricsUrl)).map(
        ([bound, count], i) => [bound, count - (before[i]?.[1] ?? 0)] as const,
      )
      const total = buckets.at(-1)?.[1] ?? 0
      return {
        of: `a batch of ${batchRecords.toLocaleString('en')} rows`,
        count: total,
        quantiles: buckets
          .filter(([bound, count], i) => Number.isFinite(bound) && count > (buckets[i - 1]?.[1] ?? 0))
          .map(([bound, count]) => [count / total, bound * 1_000]),
      }
    },
  }
}

/** Bounds in seconds, and how many didn't exceed them. */
async function readBuckets(metricsUrl: string): Promise<[bound: number, count: number][]> {
  const text = await (await fetch(metricsUrl)).text()
  return [
    ...text.matchAll(/^rollcall_bulk_write_duration_seconds_bucket\{[^}]*le="([^"]+)"[^}]*\} (\d+)$/gm),
  ].map((match) => [match[1] === '+Inf' ? Infinity : Number(match[1]), Number(match[2])])
}
