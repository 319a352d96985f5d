import { isDeepStrictEqual } from 'node:util'

/**
 * Rows whose documents are looked at whole once the work is done: counts and a sum don't tell whether an address or a
 * text is stored as it was written.
 */
const sampleSize = 400

/** Spread evenly over a file, its first and its last row among them. */
export function sampledRows(rows: number): number[] {
  const size = Math.min(sampleSize, rows)
  const last = Math.max(1, size - 1)
  return Array.from({ length: size }, (_, i) => Math.floor((i * (rows - 1)) / last))
}

/** What has to be stored by its key; null for what mustn't be. */
export type Sample = Map<string, Record<string, unknown> | null>

/** The first that is stored otherwise, in words; null when there is none. */
export function wrongSample(found: Sample, expected: Sample): string | null {
  for (const [key, right] of expected) {
    const stored = found.get(key) ?? null
    if (!isDeepStrictEqual(stored, right))
      return `${key} is stored as ${JSON.stringify(stored)}, not ${JSON.stringify(right)}`
  }
  return null
}
