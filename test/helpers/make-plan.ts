import type { FieldDefinition } from '../../shared/contract/schemas/custom-field.ts'
import type {
  BuiltInColumn,
  ContentFormat,
  ImportOptions,
  ImportPlan,
} from '../../shared/contract/schemas/import.ts'
import { RecordCells } from '../../shared/csv/csv-cells.ts'
import { recordFlags } from '../../shared/csv/record-scanner.ts'

/** Plans and options for tests of what lies below an import: complete, with the defaults of the API. */

export const utf8Format: ContentFormat = {
  csv_has_headers: false,
  character_set: 'utf-8',
  csv_field_separator: ',',
  csv_field_enclosure: '"',
  csv_field_escape: null,
  date_format: 'mdy',
}

/** A record with these cells. */
export function cellsOf(cells: readonly string[]): RecordCells {
  const bytes = Buffer.from(cells.map((cell) => `"${cell.replaceAll('"', '""')}"`).join(','))
  return new RecordCells(utf8Format).read(bytes, 0, bytes.length, recordFlags.enclosed)
}

export function makeOptions(changes: Partial<ImportOptions> = {}): ImportOptions {
  return {
    overwrite: false,
    deactivate_subscribers_not_in_import: false,
    autoresponders: {
      subscription: { trigger: false, also_trigger_on_updated_subscribers: false },
      api: { trigger_new: null, trigger_updated: null },
    },
    overwrite_what: { custom_fields: true, confirmed: false, format: false, status: false },
    overwrite_when_status: {
      active: true,
      unsubscribed: false,
      bounced: false,
      deactivated: false,
      scomp: false,
    },
    column_mapping: ['email'],
    default_custom_fields: {},
    subscriber_defaults: { status: 'active' },
    given_defaults: [],
    file_format: { ...utf8Format, csv_skip_lines: 0 },
    dry_run: false,
    blank_cells: 'keep',
    apply_custom_field_defaults: true,
    ...changes,
  }
}

/** Built-in columns by their names, custom fields by their ids, and null for a column that is ignored. */
export const columnsOf = (...columns: (BuiltInColumn | number | null)[]): ImportPlan['columns'] =>
  columns.map((column) => {
    if (column === null) return null
    return typeof column === 'number'
      ? { kind: 'field', field_id: column }
      : { kind: 'built_in', name: column }
  })

export function makePlan(changes: Partial<ImportPlan> = {}): ImportPlan {
  return {
    time_zone_name: 'UTC',
    has_format: false,
    has_confirmed: false,
    identity: { kind: 'email', column: 0, field_id: null },
    columns: columnsOf('email'),
    fields: [],
    default_values: {},
    reactions: {
      on_subscription: { added: [], updated: [] },
      by_api: { added: [], updated: [] },
      delays: [],
    },
    active_at_start: 0,
    has_subscriber_limit: false,
    list_was_empty: true,
    ...changes,
  }
}

/** The settings of a field that has only a name and a type. */
export const plainSettings: Omit<FieldDefinition, 'id' | 'name' | 'field_type'> = {
  required: false,
  options: [],
  default: null,
  minimum_length: null,
  maximum_length: null,
  minimum_value: null,
  maximum_value: null,
}

export function makeField(changes: Partial<FieldDefinition> & { id: number; name: string }): FieldDefinition {
  return { field_type: 'text', ...plainSettings, ...changes }
}
