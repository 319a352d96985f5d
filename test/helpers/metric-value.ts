import { until } from './service.ts'

/** The value of a series in the text of a /metrics page, such as `rollcall_x{stage="import"}`; NaN where it has none. */
export function metricValue(page: string, series: string): number {
  const line = page.split('\n').find((text) => text.startsWith(`${series} `))
  return Number(line?.slice(series.length + 1) ?? NaN)
}

/** By how much a series has grown. */
type Growth = (series: string) => Promise<number>

/**
 * Reads a /metrics page; resolves to a function that tells by how much a series has grown since. A series without a
 * value counts as 0.
 */
export async function growthSince(url: string): Promise<Growth> {
  const page = async () => (await fetch(url)).text()
  const before = await page()
  return async (series) => (metricValue(await page(), series) || 0) - (metricValue(before, series) || 0)
}

/** Waits until exactly so many imports of a source have been counted as finished and as failed. */
export async function untilEndedImports(
  growth: Growth,
  source: string,
  wanted: { finished: number; failed: number },
): Promise<void> {
  const ended = (state: string) => growth(`rollcall_imports_ended_total{state="${state}",source="${source}"}`)
  await until(
    `${wanted.finished} finished and ${wanted.failed} failed imports`,
    async () => [await ended('finished'), await ended('failed')],
    ([finished, failed]) => finished === wanted.finished && failed === wanted.failed,
  )
}
