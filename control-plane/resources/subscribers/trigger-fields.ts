import { readGiven, type Reading } from './given-values.ts'
import type { FieldsBySection } from './trigger-schemas.ts'

/** Custom fields of a trigger call, by what becomes of the subscriber: `for_all` with the specific ones over it. */
export type FieldSections = Record<'for_new' | 'for_active' | 'for_reactivated', Record<string, unknown>>

/**
 * All sections are checked in every call, so that a fault in one shows before the first subscriber whom it is for.
 * What is wrong with them goes to `problems`.
 */
export function readSections(given: FieldsBySection, { context, problems }: Reading): FieldSections {
  const read = (section: keyof FieldsBySection): Record<string, unknown> => {
    const custom_fields = given[section] ?? {}
    readGiven({ custom_fields }, { context, problems, fieldsAt: `custom_fields.${section}` })
    // By the field's own name: one spelling must not stand beside another.
    return Object.fromEntries(
      Object.entries(custom_fields).map(([name, value]) => [
        context.fieldNamed(name.trim())?.field.name ?? name,
        value,
      ]),
    )
  }
  const forAll = read('for_all')
  return {
    for_new: { ...forAll, ...read('for_new') },
    for_active: { ...forAll, ...read('for_active') },
    for_reactivated: { ...forAll, ...read('for_reactivated') },
  }
}
