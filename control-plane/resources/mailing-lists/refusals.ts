import { hasEnded, type ImportState } from '../../../shared/contract/import-state.ts'
import { invalid, takenByAnother } from '../../api/refusal.ts'

export const nameTaken = takenByAnother('mailing list of the organization', 'Newsletter')

const primaryKey = <Values extends unknown[]>(reason: (...values: Values) => string, ...example: Values) =>
  invalid((...values: Values) => `primary_key_custom_field_id ${reason(...values)}`, ...example)

export const keyNamesNoField = primaryKey((listId: number) => `names no custom field of list ${listId}`, 12)
export const keyDoesNotFit = primaryKey(() => 'must name a required field of type text or number')
export const keyOfFullList = primaryKey(() => 'can be changed only while the list is empty')
export const keyWhileImporting = primaryKey(
  (importId: number, state: ImportState) =>
    `can't be changed while import ${importId} of the list ${hasEnded(state) ? `is cleared up (it is ${state}): try again in some seconds` : 'is unfinished'}`,
  4711,
  'importing',
)
