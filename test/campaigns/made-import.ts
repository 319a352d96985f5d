import type { FieldValue } from '../../shared/contract/schemas/custom-field.ts'
import {
  characterSets,
  subscriberDefaults,
  type ImportOptions,
} from '../../shared/contract/schemas/import.ts'
import { emailFormats, subscriberStatuses } from '../../shared/contract/schemas/subscriber.ts'
import { sameWithoutCase } from '../model/comparison-form.ts'
import { madeFile } from './made-file.ts'
import { canonicalValue, type MadeField, type MadeList } from './made-list.ts'
import type { Random } from './random.ts'

/** An import's options and file as the campaign makes them. */
export interface MadeImport {
  options: ImportOptions
  /** The mapping as the request spells it; as in the options where there is none. */
  spelledMapping?: (string | null)[]
  /** The character set as the request spells it. */
  spelledSet?: string
  bytes: Uint8Array
  isInline: boolean
}

export function madeImport(list: MadeList, random: Random): MadeImport {
  const options = madeOptions(list, random)
  const bytes = madeFile(options, list, random)
  return {
    options,
    spelledMapping: options.column_mapping.map((name) => (random.chance(0.1) ? respelled(name) : name)),
    ...(random.chance(0.2) ? { spelledSet: options.file_format.character_set.toUpperCase() } : {}),
    bytes,
    isInline: canBeInline(bytes) && random.chance(0.75),
  }
}

/** "Built-in names without case"; "custom fields match exactly first, then without case" (decisions 2.1). */
function respelled(name: string | null): string | null {
  if (name === null) return ''
  const upper = name.toUpperCase()
  return sameWithoutCase(upper, name) ? upper : name
}

/** JSON carries text alone, and the API refuses text that is blank. */
function canBeInline(bytes: Uint8Array): boolean {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes).trim() !== ''
  } catch {
    return false
  }
}

export function madeOptions(list: MadeList, random: Random): ImportOptions {
  const flag = (probability: number) => random.chance(probability)
  const separator = random.oneOf([',', ',', '\t', ';', '|', 'auto'] as const)
  const given = random.some(subscriberDefaults, 0.6)
  return {
    ...(separator === ',' && flag(0.5) ? { default_separator: true as const } : {}),
    overwrite: flag(0.8),
    deactivate_subscribers_not_in_import: flag(0.2),
    autoresponders: {
      subscription: { trigger: false, also_trigger_on_updated_subscribers: false },
      api: { trigger_new: null, trigger_updated: null },
    },
    overwrite_what: {
      custom_fields: flag(0.75),
      confirmed: flag(0.7),
      format: flag(0.6),
      status: flag(0.7),
    },
    overwrite_when_status: {
      active: flag(0.8),
      unsubscribed: flag(0.6),
      bounced: flag(0.6),
      deactivated: flag(0.6),
      scomp: flag(0.6),
    },
    column_mapping: madeMapping(list, random),
    default_custom_fields: Object.fromEntries(
      random.some(list.fields, 0.15).map((field) => [field.name, madeDefault(field, random)]),
    ),
    subscriber_defaults: {
      status: given.includes('status') && flag(0.5) ? random.oneOf(subscriberStatuses) : 'active',
      confirmed: given.includes('confirmed') && flag(0.5),
      format: given.includes('format') ? random.oneOf(emailFormats) : 'both',
    },
    given_defaults: given,
    file_format: {
      csv_has_headers: flag(0.7),
      character_set: flag(0.4) ? 'utf-8' : random.oneOf([...characterSets, 'auto', 'auto', 'auto']),
      csv_field_separator: separator,
      csv_field_enclosure: random.oneOf(['"', '"', '"', "'"]),
      csv_field_escape: random.oneOf([null, null, '\\']),
      csv_skip_lines: random.oneOf([0, 0, 0, 1, 3]),
      date_format: random.oneOf(['mdy', 'dmy']),
    },
    dry_run: flag(0.12),
    blank_cells: random.oneOf(['keep', 'clear']),
    apply_custom_field_defaults: flag(0.7),
  }
}

function madeMapping(list: MadeList, random: Random): (string | null)[] {
  const times = random.some(['subscribe_time', 'subscribe_ip', 'remove_time', 'remove_ip'], 0.2)
  const columns = [
    'email',
    ...(random.chance(0.7) ? [random.oneOf(['status', 'status', 'consent'])] : []),
    ...times,
    ...(list.hasFormat ? random.some(['email_format'], 0.7) : []),
    ...(list.hasConfirmed ? random.some(['confirmed', 'confirm_time'], 0.7) : []),
    ...list.fields
      .filter((field) => field.name === list.primaryKey || random.chance(0.8))
      .map(({ name }) => name),
    ...(random.chance(0.15) ? [null] : []),
  ]
  return random.chance(0.5) ? columns : random.shuffled(columns)
}

/** A default value as JSON, in some cases as a cell's text. */
function madeDefault(field: MadeField, random: Random): FieldValue {
  const value = canonicalValue(field, random)
  if (typeof value === 'boolean') return random.chance(0.7) ? value : value ? 'Yes' : 'OFF'
  if (typeof value === 'number') return random.chance(0.7) ? value : ` ${value}`
  if (Array.isArray(value)) return random.chance(0.7) ? value.toReversed() : value.join('|')
  return value
}
