import { Counter, type Registry } from 'prom-client'

/**
 * Makes a counter with known label values. All series exist with 0 from the start, so that their first increase is
 * visible.
 */
export function knownCounter<Label extends string>(
  registry: Registry,
  { name, help, labels }: { name: string; help: string; labels: Record<Label, readonly string[]> },
): Counter<Label> {
  const labelNames = Object.keys(labels) as Label[]
  const counter = new Counter({ name, help, labelNames, registers: [registry] })
  let series: Partial<Record<Label, string>>[] = [{}]
  for (const label of labelNames)
    series = series.flatMap((known) => labels[label].map((value) => ({ ...known, [label]: value })))
  for (const each of series) counter.inc(each, 0)
  return counter
}
