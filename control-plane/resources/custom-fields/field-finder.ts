import { comparisonForm } from '../../../shared/values/identity.ts'

/**
 * A function that finds a list's custom field by name, in any case; names of fields always differ by more than case. It
 * is made once for many names, so that each lookup takes the same time for any number of fields.
 */
export function fieldFinder<Field>(
  fields: readonly Field[],
  getName: (field: Field) => string,
): (name: string) => Field | undefined {
  const byForm = new Map(fields.map((field) => [comparisonForm(getName(field)), field]))
  return (name) => byForm.get(comparisonForm(name))
}
