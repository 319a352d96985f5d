import { z } from 'zod'
import { integer } from './bson-schema.ts'

/**
 * The version of all that is stored. `minor` goes up with every change that processes of before can live with: a new
 * collection, index or optional field. They leave validators and indexes as they find them. `major` goes up with every
 * change that they can't live with: they refuse to start on such a database.
 */
export const schemaVersion: SchemaVersion = { major: 2, minor: 4 }

export interface SchemaVersion {
  major: number
  minor: number
}

/** The one document that says which version the database has: the highest that was ever started on it. */
export const schemaDocument = z.object({
  _id: z.literal('schema'),
  major: integer().min(1),
  minor: integer().min(0),
})
export type SchemaDocument = z.infer<typeof schemaDocument>
