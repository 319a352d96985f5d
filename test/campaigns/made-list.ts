import { fieldTypes, type FieldType, type FieldValue } from '../../shared/contract/schemas/custom-field.ts'
import { plainSettings } from '../helpers/make-plan.ts'
import type { Random } from './random.ts'

/** Lists and custom fields as the campaign makes them. */

export interface MadeField {
  name: string
  field_type: FieldType
  required: boolean
  options: string[]
  default: FieldValue | null
  minimum_length: number | null
  maximum_length: number | null
  minimum_value: number | null
  maximum_value: number | null
}

export interface MadeList {
  timeZone: string
  hasFormat: boolean
  hasConfirmed: boolean
  /** Its organization has a subscriber limit. */
  hasLimit: boolean
  fields: MadeField[]
  /** Name of the alternate primary key. */
  primaryKey: string | null
  /** Identities of the list's subscribers, as cells: the rows of a file are mostly about these. */
  own?: readonly string[]
}

export const timeZones = [
  ...['UTC', 'America/New_York', 'Europe/Berlin', 'Asia/Kolkata', 'Australia/Lord_Howe'],
  ...['Pacific/Apia', 'America/St_Johns', 'Africa/Casablanca', 'America/Sao_Paulo'],
  ...['Asia/Kathmandu', 'Europe/Dublin', 'Pacific/Chatham', 'Antarctica/Troll', 'Africa/Monrovia'],
]

const fieldNames = [
  ...['Name', 'größe', 'a,b', 'Plan "x"', 'Σ', 'two words', '$x.y', 'constructor', 'Points', "it's"],
]

/** Gives the share to consecutive numbers evenly: a random choice would give a short run too few. */
const isAmong = (number: number, share: number): boolean =>
  Math.floor((number + 1) * share) > Math.floor(number * share)

export function madeList(number: number, limitShare: number, random: Random): MadeList {
  const names = random.shuffled(fieldNames).slice(0, random.between(0, 6))
  const fields = names.map((name) => madeField(name, random))
  const hasKey = isAmong(number, 0.3)
  return {
    timeZone: random.oneOf(timeZones),
    hasFormat: isAmong(number, 0.5),
    hasConfirmed: isAmong(number, 0.65),
    hasLimit: isAmong(number, limitShare),
    fields: hasKey ? [...fields, madeKey(random)] : fields,
    primaryKey: hasKey ? 'Member' : null,
  }
}

const plainField = (name: string, type: FieldType): MadeField => ({
  name,
  field_type: type,
  ...plainSettings,
})

function madeKey(random: Random): MadeField {
  const field = plainField('Member', random.chance(0.6) ? 'text' : 'number')
  if (field.field_type === 'text' && random.chance(0.3)) field.maximum_length = random.between(3, 12)
  return { ...field, required: true }
}

export const optionSets = [
  ['Free', 'Team', 'Business'],
  ['A', 'A, B', 'B', 'B|C'],
  ['yes', 'Ja|Nein', 'Straße', 'ÉTÉ'],
  ['1', '10', '1,0', ' 2 0 '.trim()],
  ['ΟΔΟΣ', 'Istanbul', 'İzmir', 'K'],
  ['A;B', 'A', '"B"', 'say "x"', '5"'],
]

function madeField(name: string, random: Random): MadeField {
  const field = plainField(name, random.oneOf(fieldTypes))
  field.required = random.chance(0.15)
  if (field.field_type.startsWith('select')) field.options = random.oneOf(optionSets)
  if (field.field_type.startsWith('text') && random.chance(0.4)) {
    field.minimum_length = random.chance(0.5) ? random.between(0, 3) : null
    field.maximum_length = random.chance(0.7) ? random.between(3, 12) : null
  }
  if (field.field_type === 'number' && random.chance(0.5)) {
    field.minimum_value = random.chance(0.7) ? random.between(-20, 5) : null
    field.maximum_value = random.chance(0.7) ? random.between(5, 100) : null
  }
  if (random.chance(0.25)) field.default = canonicalValue(field, random)
  return field
}

/** A value of the field as it is stored. */
export function canonicalValue(field: MadeField, random: Random): FieldValue {
  switch (field.field_type) {
    case 'text':
    case 'text_multiline':
      return 'xyzäöüxyzäöü'.slice(0, random.between(Math.max(1, field.minimum_length ?? 1), 3))
    case 'number':
      return random.between(field.minimum_value ?? -5, field.maximum_value ?? 50)
    case 'date':
      return random.oneOf(['2024-02-29', '1999-12-31', '2026-01-05'])
    case 'day_of_year':
      return random.oneOf(['02-29', '12-31', '01-05'])
    case 'select_single_dropdown':
    case 'select_single_radio':
      return random.oneOf(field.options)
    case 'select_multiple_checkboxes': {
      const chosen = random.some(field.options, 0.5)
      return chosen.length > 0 ? chosen : field.options.slice(0, 1)
    }
    case 'boolean':
      return random.chance(0.5)
  }
}
