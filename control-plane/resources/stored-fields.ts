import { z } from 'zod'

/** Schemas of stored fields for a view: integers lose the bounds that only the database needs. */
export function shownFields<Shape extends Record<string, z.ZodType>>(stored: Shape): Shape {
  const shown = Object.entries(stored).map(([name, schema]) => {
    if (schema instanceof z.ZodNumber) return [name, z.int()]
    const isNullableInteger = schema instanceof z.ZodNullable && schema.unwrap() instanceof z.ZodNumber
    return [name, isNullableInteger ? z.int().nullable() : schema]
  })
  return Object.fromEntries(shown) as Shape
}

/** The values of those fields that a document and its view have under the same name. */
export function sameFields<Shape extends z.ZodRawShape, Document extends object>(
  view: z.ZodObject<Shape>,
  document: Document,
) {
  type Same = keyof Shape & keyof Document
  const names = Object.keys(view.shape).filter((name) => name in document) as Same[]
  return Object.fromEntries(names.map((name) => [name, document[name]])) as Pick<Document, Same>
}
