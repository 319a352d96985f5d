import { hasEnded, type ImportState } from '../../../shared/contract/import-state.ts'
import type { FieldType } from '../../../shared/contract/schemas/custom-field.ts'
import { invalid, notFound, takenByAnother } from '../../api/refusal.ts'

export const noCustomField = notFound('custom field')

export const nameTaken = takenByAnother('custom field of the list', 'Plan')
const notOfType = (keys: string, example: FieldType) =>
  invalid((type: FieldType) => `${keys} are not possible for a field of type ${type}`, example)

/** What the settings of a field are refused for. */
export const faultySettings = {
  nameOfColumn: invalid(
    (name: string) => `name ${JSON.stringify(name)} is that of a built-in column`,
    'Email',
  ),
  nameOfPrototype: invalid('name can\'t be "__proto__"'),
  optionsMissing: invalid(
    (type: FieldType) => `options must have at least 1 entry for a field of type ${type}`,
    'select_single_dropdown',
  ),
  optionsOfOtherType: notOfType('options', 'text'),
  lengthsOfOtherType: notOfType('minimum_length and maximum_length', 'number'),
  valuesOfOtherType: notOfType('minimum_value and maximum_value', 'text'),
  sameOptions: invalid('options must differ by more than case'),
  noLengthPossible: invalid('minimum_length must not be more than maximum_length'),
  noValuePossible: invalid('minimum_value must not be more than maximum_value'),
  badDefault: invalid((expectation: string) => `default must be ${expectation}`, 'an integer'),
}

export const otherType = invalid("field_type can't be changed")
export const keyMustBeRequired = invalid('required must be true for the primary key of the list')

/** Fields are bounded, because each subscriber's record shows all of them, and requests on the list read all. */
export const maxFields = 500
export const maxDefinitionBytes = 4_000_000

export const tooManyFields = invalid(
  (listId: number, count: number) =>
    `mailing list ${listId} has ${count} custom fields, and at most ${maxFields} are possible`,
  12,
  maxFields,
)
export const fieldsTooLarge = invalid(
  (listId: number) =>
    `the custom fields of mailing list ${listId} would have more than ${maxDefinitionBytes} bytes in all: give them fewer or shorter options`,
  12,
)
export const isPrimaryKey = invalid(
  (id: number) => `custom field ${id} is the primary key of the list and can't be deleted`,
  31,
)
export const isMapped = invalid(
  (id: number, importId: number, state: ImportState) =>
    `custom field ${id} is mapped by import ${importId}, which is ${hasEnded(state) ? `cleared up (it is ${state}): try again in some seconds` : 'unfinished: wait for it, or cancel it'}`,
  31,
  4711,
  'importing',
)
