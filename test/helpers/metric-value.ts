/** The value of a series in the text of a /metrics page, such as `rollcall_x{stage="import"}`; NaN where it has none. */
export function metricValue(page: string, series: string): number {
  const line = page.split('\n').find((text) => text.startsWith(`${series} `))
  return Number(line?.slice(series.length + 1) ?? NaN)
}

/**
 * Reads a /metrics page; resolves to a function that tells by how much a series has grown since. A series without a
 * value counts as 0.
 */
export async function growthSince(url: string): Promise<(series: string) => Promise<number>> {
  const page = async () => (await fetch(url)).text()
  const before = await page()
  return async (series) => (metricValue(await page(), series) || 0) - (metricValue(before, series) || 0)
}
