import {
  contentFormat,
  faultKinds,
  type FaultCount,
  type ImportDocument,
  type PlannedColumn,
} from '../contract/schemas/import.ts'
import { characterSetName } from '../csv/character-set.ts'
import { cellReason, faultReasons } from '../csv/row-fault.ts'
import { columnExpectation } from '../csv/row-reader.ts'
import { valuesTooLarge } from '../store/value-bytes.ts'

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

function faultReason(document: ImportDocument, fault: FaultCount): string {
  const { plan, options } = document
  const kind = faultKinds.find((known) => known === fault.kind)
  switch (kind) {
    case 'encoding':
      return `invalid ${characterSetName(contentFormat(document).character_set)}`
    case 'too_large':
      return valuesTooLarge
    case 'nul':
    case 'too_long':
    case 'unterminated':
    case 'surplus_cells':
    case 'no_value':
      return faultReasons[kind]
    default: {
      const column = fault.column === null ? defaultOf(fault) : plan?.columns[fault.column]
      // An engine of a later version may have counted a kind that is not known here.
      if (kind === undefined || plan === null || !column) return 'the row is not valid'
      return cellReason(kind, columnExpectation(column, plan, options))
    }
  }
}

/** A value without a column is a default of the request. */
const defaultOf = ({ field_id: fieldId }: FaultCount): PlannedColumn =>
  fieldId === null ? null : { kind: 'field', field_id: fieldId }
