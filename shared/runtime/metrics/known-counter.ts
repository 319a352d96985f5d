import { Counter, type Registry } from 'prom-client'

/** A counter whose labels' values are known: each series is there at 0 from the start, so its first increase shows. */
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
