/** The value of a series in the text of a /metrics page, such as `rollcall_x{stage="import"}`; NaN where it has none. */
export function metricValue(page: string, series: string): number {
  const line = page.split('\n').find((text) => text.startsWith(`${series} `))
  return Number(line?.slice(series.length + 1) ?? NaN)
}
