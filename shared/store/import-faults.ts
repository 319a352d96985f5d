import {
  contentFormat,
  type FaultCount,
  type FaultKind,
  type ImportDocument,
} from '../contract/schemas/import.ts'
import { cellReason, faultReasons } from '../csv/row-fault.ts'
import { columnExpectation } from '../csv/row-reader.ts'
import { valuesTooLarge } from './value-bytes.ts'

/** A fault as the `failure_summary` of an import shows it. The reason holds no value of a cell. */
export interface FaultView {
  /** From 1. */
  column: number | null
  header: string | null
  field: string | null
  reason: string
  rows: number
  first_record: number
  example: string | null
}

const maxHeaderLength = 1_000

export const faultView = (document: ImportDocument, fault: FaultCount): FaultView => ({
  column: fault.column === null ? null : fault.column + 1,
  header: fault.column === null ? null : (document.header?.[fault.column]?.slice(0, maxHeaderLength) ?? null),
  field: fieldName(document, fault),
  reason: faultReason(document, fault),
  rows: fault.rows,
  first_record: fault.first.record,
  example: document.logs_purged_at === null ? fault.first.example : null,
})

function fieldName(
  { options, plan }: ImportDocument,
  { column, field_id: fieldId }: FaultCount,
): string | null {
  if (column !== null) return options.column_mapping[column] ?? null
  return plan?.fields.find(({ id }) => id === fieldId)?.name ?? null
}

function faultReason(document: ImportDocument, { kind, column }: FaultCount): string {
  const { plan, options } = document
  const known = kind as FaultKind
  switch (known) {
    case 'encoding':
      return `invalid ${contentFormat(document).character_set.toUpperCase()}`
    case 'too_large':
      return valuesTooLarge
    case 'nul':
    case 'too_long':
    case 'unterminated':
    case 'surplus_cells':
    case 'no_value':
      return faultReasons[known]
    default: {
      const planned = column === null ? null : plan?.columns[column]
      if (plan === null || planned === null || planned === undefined) return 'the row is not valid'
      return cellReason(known, columnExpectation(planned, plan, options))
    }
  }
}
