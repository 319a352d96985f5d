import { parse } from 'csv-parse/browser/esm/sync'
import { comparisonForm } from '../../shared/values/identity.ts'
import { statusFromConsent, statusFromText } from '../../shared/values/subscriber-status.ts'
import type { InspectionView } from '../resources/import-inspection/schemas.ts'
import type { ImportView } from '../resources/subscriber-imports/schemas.ts'
import { getLog } from './api.ts'
import { may } from './session.ts'

const maxBytes = 10_000_000

/**
 * What the rows that a check would add become, where a column says it: the API counts rows by outcome, not by status.
 * Null for a file that the browser doesn't read: a large one, and one that isn't UTF-8.
 */
export async function addedStatuses(
  file: File,
  { check, inspection }: { check: ImportView; inspection: InspectionView },
): Promise<Record<string, number> | null> {
  const { column_mapping: mapping } = check
  const telling = mapping.findIndex((name) => name === 'status' || name === 'consent')
  if (
    !may('subscriber', 'read') ||
    telling === -1 ||
    file.size > maxBytes ||
    inspection.character_set !== 'utf-8'
  )
    return null
  const log = await getLog(`/subscriber_imports/${check.id}/logs/added`)
  if (log === null) return null
  const added = new Set((await log.text()).split('\n').map(comparisonForm))
  const { csv_field_separator: delimiter, csv_field_enclosure: quote, csv_skip_lines: skipped } = inspection
  const rows = parse(await file.text(), {
    ...{ delimiter, quote, escape: inspection.csv_field_escape ?? quote, bom: true, from_line: skipped + 1 },
    ...{ relax_column_count: true, relax_quotes: true, skip_records_with_error: true, trim: true },
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
