import type { Filter } from 'mongodb'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { DeletedFieldDocument } from '../../shared/contract/schemas/bookkeeping.ts'
import { matchWritingImports } from '../../shared/store/imports.ts'

/** A request that read the field before it was deleted has ended by then. */
const secondPassDelayMs = 5 * 60_000

/** Matches the field while its pass is the one that was read, so that an engine that lags behind changes nothing. */
const samePass = ({ _id, second_pass_at }: DeletedFieldDocument): Filter<DeletedFieldDocument> => ({
  _id,
  second_pass_at: second_pass_at ?? { $exists: false },
})

/**
 * Fields whose values have to be removed now: in a first pass, or in a second one that is due. A second one waits for the
 * imports that began with the field, because they give its default to rows until they end.
 */
export async function dueDeletedFields(collections: Collections): Promise<DeletedFieldDocument[]> {
  const isDue = { $expr: { $lte: [{ $ifNull: ['$second_pass_at', '$$NOW'] }, '$$NOW'] } }
  const fields: DeletedFieldDocument[] = []
  for (const field of await collections.deletedFields.find(isDue).toArray())
    if (field.second_pass_at === undefined || !(await isWritten(collections, field))) fields.push(field)
  return fields
}

async function isWritten(
  { imports }: Collections,
  { _id, mailing_list_id: listId }: DeletedFieldDocument,
): Promise<boolean> {
  // The plan of a small import is stored with its end only.
  const mayHaveField = { $or: [{ 'plan.fields.id': _id }, { plan: null, state: 'splitting' as const }] }
  const writing = { $and: [matchWritingImports(listId), mayHaveField], 'options.dry_run': false }
  return (await imports.findOne(writing, { projection: { _id: 1 } })) !== null
}

/** Removes the field's values of one range of subscribers. Resolves to the number of subscribers that had one. */
export async function removeValues(
  { subscribers, deletedFields }: Collections,
  field: DeletedFieldDocument,
  range: { $gte: string; $lt: string },
): Promise<number> {
  const path = `custom_fields.${field._id}`
  const { modifiedCount } = await subscribers.updateMany(
    { _id: range, [path]: { $exists: true } },
    { $unset: { [path]: '' } },
  )
  // Several engines may run the pass at the same time; $max keeps the furthest position.
  await deletedFields.updateOne(samePass(field), { $max: { removed_to: range.$lt } })
  return modifiedCount
}

/** Ends a pass: after the first one a second follows 5 minutes later at the earliest, and after that the field is forgotten. */
export async function endPass({ deletedFields }: Collections, field: DeletedFieldDocument): Promise<void> {
  if (field.second_pass_at !== undefined) await deletedFields.deleteOne({ _id: field._id })
  else
    await deletedFields.updateOne(samePass(field), [
      { $set: { second_pass_at: { $add: ['$$NOW', secondPassDelayMs] } } },
      { $unset: 'removed_to' },
    ])
}
