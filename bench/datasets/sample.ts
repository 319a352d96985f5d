import { isDeepStrictEqual } from 'node:util'

/** Whole documents are compared beside counts and a sum, which don't show a wrong address or text. */
const sampleSize = 400

/** Rows spread evenly over a file, with its first and its last one. */
export function sampleRows(rows: number): number[] {
  const size = Math.min(sampleSize, rows)
  const last = Math.max(1, size - 1)
  return Array.from({ length: size }, (_, i) => Math.floor((i * (rows - 1)) / last))
}

/** Documents by key; null where none may be stored. */
export type Sample = Map<string, Record<string, unknown> | null>

/** A sentence about the first difference; null where there is none. */
export function wrongSample(found: Sample, expected: Sample): string | null {
  for (const [key, right] of expected) {
    const stored = found.get(key) ?? null
    if (!isDeepStrictEqual(stored, right))
      return `${key} is stored as ${JSON.stringify(stored)}, not ${JSON.stringify(right)}`
  }
  return null
}
