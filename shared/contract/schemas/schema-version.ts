import { z } from 'zod'
import { integer } from './bson-schema.ts'

/**
 * Version of the stored data. `minor` is raised by changes with which older processes still work: a new collection,
 * index or optional field. Older processes then leave validators and indexes unchanged. `major` is raised by all other
 * changes, and older processes refuse to start on such a database. Without a version an older process that starts during
 * an upgrade would set the validators back, and they would refuse what newer processes write. Running processes don't
 * notice another major version, so an upgrade to it stops them all.
 */
export const schemaVersion: SchemaVersion = { major: 1, minor: 2 }

export interface SchemaVersion {
  major: number
  minor: number
}

/** The single document with the version of the database: the highest version that was ever started on it. */
export const schemaDocument = z.object({
  _id: z.literal('schema'),
  major: integer().min(1),
  minor: integer().min(0),
})
