import { parse } from 'csv-parse/browser/esm/sync'
import { comparisonForm } from '../../shared/values/identity.ts'
import { statusFromConsent, statusFromText } from '../../shared/values/subscriber-status.ts'
import type { InspectionView } from '../resources/import-inspection/schemas.ts'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { getStream } from './api.ts'
import { may } from './session.ts'

/** What the browser can tell of a file. */

/** A file of up to this size goes inline; of a larger one this much is looked at while the whole uploads. */
export const sampleBytes = 1_000_000

/** The beginning of a file as text, up to the end of a line; null where it is no UTF-8 text or is packed. */
export async function readSample(file: File): Promise<string | null> {
  const bytes = new Uint8Array(await file.slice(0, sampleBytes).arrayBuffer())
  const isWhole = file.size <= sampleBytes
  if (isPacked(bytes) || bytes.includes(0)) return null
  try {
    // The last character may be incomplete where the file is longer.
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes, {
      stream: !isWhole,
    })
    return isWhole ? text : text.slice(0, text.lastIndexOf('\n') + 1) || text
  } catch {
    return null
  }
}

const magics = [
  [0x1f, 0x8b],
  [0x50, 0x4b, 3, 4],
  [0x28, 0xb5, 0x2f, 0xfd],
]
const isPacked = (bytes: Uint8Array): boolean =>
  magics.some((magic) => magic.every((byte, i) => bytes[i] === byte))

const maxCountedBytes = 1_000_000_000

/** Lines end with LF, CR or both. Null for a very large file, and for one that is packed or UTF-16. */
export async function countLines(file: File): Promise<number | null> {
  const start = new Uint8Array(await file.slice(0, 64).arrayBuffer())
  if (file.size > maxCountedBytes || isPacked(start) || start.includes(0)) return null
  const reader = file.stream().getReader()
  let lines = 0
  let last = 0x0a
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return lines + Number(last !== 0x0a && last !== 0x0d)
    for (const byte of value) {
      if ((byte === 0x0a && last !== 0x0d) || byte === 0x0d) lines += 1
      last = byte
    }
  }
}

/** The name of the console's own upload for an import: the service deletes what is left of such ones after a day. */
export function ownUploadName(name: string, random: string): string {
  const plain = name
    .normalize('NFC')
    .replaceAll(/[\p{Cc}/\\]/gu, '_')
    .replace(/^\.+/, '')
  const [ending = ''] = /(\.[A-Za-z0-9]{1,8}){0,2}$/.exec(plain) ?? []
  const stem = Array.from(plain.slice(0, plain.length - ending.length))
    .slice(0, 30)
    .join('')
  return `.console-${random}-${stem === '' ? 'file' : stem}${ending}`
}

const maxReadBytes = 10_000_000

/**
 * What the rows that a check would add become, where a column says it: the API counts rows by outcome, not by status.
 * Null for a file that the browser doesn't read: a large one, and one that isn't UTF-8.
 */
export async function addedStatuses(
  file: File,
  check: ImportView,
  inspection: InspectionView,
): Promise<Record<string, number> | null> {
  const { column_mapping: mapping } = check
  const telling = mapping.findIndex((name) => name === 'status' || name === 'consent')
  const isTold = telling !== -1 && check.stats.subscribers.added > 0 && may('subscriber', 'read')
  if (!isTold || file.size > maxReadBytes || inspection.character_set !== 'utf-8') return null
  const log = await getStream(`/subscriber_imports/${check.id}/logs/added`)
  const added = new Set((await log.text()).split('\n').map(comparisonForm))
  const { csv_field_separator: delimiter, csv_field_enclosure: quote, csv_skip_lines: skipped } = inspection
  const rows = parse(await file.text(), {
    delimiter,
    quote,
    escape: inspection.csv_field_escape ?? quote,
    bom: true,
    from_line: skipped + 1,
    relax_column_count: true,
    relax_quotes: true,
    skip_records_with_error: true,
    trim: true,
  })
  const counts: Record<string, number> = { active: 0 }
  for (const row of rows.slice(Number(inspection.csv_has_headers))) {
    // A later row of the same address is a duplicate.
    if (!added.delete(comparisonForm(row[mapping.indexOf('email')] ?? ''))) continue
    const text = row[telling] ?? ''
    const status = mapping[telling] === 'consent' ? statusFromConsent(text) : statusFromText(text)
    counts[status ?? 'active'] = (counts[status ?? 'active'] ?? 0) + 1
  }
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0))
}
