import { MongoServerError, type Db } from 'mongodb'
import { StartError } from '../contract/errors.ts'
import { toBsonSchema } from '../contract/schemas/bson-schema.ts'
import { collectionDefinitions } from '../contract/schemas/collection-definitions.ts'
import { openCollections, wakeUpCollectionName } from '../contract/schemas/collections.ts'
import { schemaVersion, type SchemaVersion } from '../contract/schemas/schema-version.ts'
import { isDuplicateKey } from './driver-errors.ts'
import type { Logger } from './logger.ts'

/**
 * Creates or updates the collections, validators and indexes of `collectionDefinitions`. It leaves them unchanged when
 * they are current or a newer version made them. Several processes may run it at once. Throws a StartError when this
 * version can't work with the database.
 */
export async function ensureSchema(db: Db, log: Logger, version = schemaVersion): Promise<void> {
  if (!(await recordSchemaVersion(db, version))) return
  const collections = await db.listCollections({}, { nameOnly: false }).toArray()
  const existing = new Map(collections.map(({ name, options }) => [name, options]))
  for (const definition of collectionDefinitions) {
    await ensureCollection(db, definition, existing.get(definition.name)?.['validator'], log)
    if (definition.indexes.length === 0) continue
    await db
      .collection(definition.name)
      .createIndexes(definition.indexes.map(({ keys, options }) => ({ key: keys, ...options })))
  }
  if (!existing.has(wakeUpCollectionName))
    await createIfMissing(db, wakeUpCollectionName, { capped: true, size: 64 * 1024 })
}

/**
 * Stores this version in the database before the schema is changed, so that older processes no longer change it. False
 * when a newer version was started on the database.
 */
async function recordSchemaVersion(db: Db, { major, minor }: SchemaVersion): Promise<boolean> {
  const { schema } = openCollections(db)
  const isOlder = [{ major: { $lt: major } }, { major, minor: { $lt: minor } }]
  await schema
    .updateOne({ _id: 'schema', $or: isOlder }, { $set: { major, minor } }, { upsert: true })
    .catch((error: unknown) => {
      // A version is stored, and it is not older.
      if (!isDuplicateKey(error)) throw error
    })
  const stored = (await schema.findOne({ _id: 'schema' }))!
  if (stored.major > major)
    throw new StartError(
      `the database ${JSON.stringify(db.databaseName)} was changed by a newer Rollcall: its schema has version ${stored.major}, and this version of Rollcall works with ${major}; start the newer version, or restore a backup from before the upgrade (docs/upgrading.md)`,
    )
  return stored.minor === minor
}

async function ensureCollection(
  db: Db,
  definition: (typeof collectionDefinitions)[number],
  present: unknown,
  log: Logger,
): Promise<void> {
  const validator = { $jsonSchema: toBsonSchema(definition.schema) }
  if (JSON.stringify(present) === JSON.stringify(validator)) return
  if (present === undefined && (await createIfMissing(db, definition.name, { validator }))) return
  log.debug(`the validator of ${definition.name} is brought up to date`)
  await db.command({
    collMod: definition.name,
    validator,
    validationLevel: 'strict',
    validationAction: 'error',
  })
}

async function createIfMissing(db: Db, name: string, options: object): Promise<boolean> {
  try {
    await db.createCollection(name, options)
    return true
  } catch (error) {
    if (error instanceof MongoServerError && error.codeName === 'NamespaceExists') return false
    throw error
  }
}
