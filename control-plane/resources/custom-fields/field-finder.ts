import { comparisonForm } from '../../../shared/values/identity.ts'

/**
 * Finds custom fields of a list by name, without case; no two fields of a list differ in case alone. Made once for any
 * number of names, each of which takes time by its length and not by the number of fields.
 */
export function fieldFinder<Field>(
  fields: readonly Field[],
  nameOf: (field: Field) => string,
): (name: string) => Field | undefined {
  const byForm = new Map(fields.map((field) => [comparisonForm(nameOf(field)), field]))
  return (name) => byForm.get(comparisonForm(name))
}
