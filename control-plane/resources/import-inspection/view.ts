import type { ContentFormat } from '../../../shared/contract/schemas/import.ts'
import type { Proposal } from './column-proposals.ts'
import { shortened, type RehearsalResult } from './rehearsal.ts'
import type { InspectionView } from './schemas.ts'

interface InspectedSource {
  format: ContentFormat
  /** Lines before the table, given or else detected. */
  skipLines: number
  /** Given or else detected; null without evidence. */
  dateFormat: InspectionView['date_format']
  mapping: (string | null)[]
  columns: { header: string | null; values: string[] }[]
  /** In the order of the columns. A column without an entry has no proposal. */
  proposals: readonly Proposal[]
  rehearsal: RehearsalResult
  warnings: string[]
}

const noProposal: Proposal = { proposed: null, confidence: 0 }
const maxSampledValues = 5

export const toView = ({ format, rehearsal, ...inspected }: InspectedSource): InspectionView => ({
  character_set: format.character_set,
  csv_field_separator: format.csv_field_separator,
  csv_field_enclosure: format.csv_field_enclosure,
  csv_field_escape: format.csv_field_escape,
  csv_skip_lines: inspected.skipLines,
  csv_has_headers: format.csv_has_headers,
  date_format: inspected.dateFormat,
  column_mapping: inspected.mapping,
  columns: inspected.columns.map(({ header, values }, i) => ({
    header: header === null ? null : shortened(header),
    samples: [...new Set(values)].slice(0, maxSampledValues).map(shortened),
    ...(inspected.proposals[i] ?? noProposal),
  })),
  import_error: rehearsal.error,
  records: rehearsal.records,
  warnings: inspected.warnings,
})
