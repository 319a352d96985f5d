import type { Database } from '../../../shared/runtime/database.ts'
import type { Logger } from '../../../shared/runtime/logger.ts'
import { keyRanges } from '../../../shared/store/key-ranges.ts'
import { subscribersOfList } from '../../../shared/values/identity.ts'
import type { Chore } from './maintenance.ts'

/** A change that read the field before it was deleted is written, or given up, by then. */
const walkAgainMs = 5 * 60_000

/**
 * Removes what subscribers hold of custom fields that were deleted. It may break off anywhere; the next run, of any
 * engine, resumes behind the last subscribers that were done. A request that had read the field before it was deleted
 * may write a value behind the walk, so all subscribers of the list are walked a second time, minutes later.
 */
export function removeDeletedFieldValues({ collections }: Database, log: Logger): Chore {
  const { deletedFields, subscribers } = collections
  return {
    name: 'removing the values of deleted custom fields',
    everyMs: 60_000,
    async run() {
      const isDue = { $lte: [{ $ifNull: ['$walk_again_at', '$$NOW'] }, '$$NOW'] }
      for (const field of await deletedFields.find({ $expr: isDue }).toArray()) {
        const path = `custom_fields.${field._id}`
        const isSecond = field.walk_again_at !== undefined
        const walk = { _id: field._id, walk_again_at: field.walk_again_at ?? { $exists: false } }
        let removed = 0
        const list = subscribersOfList(field.mailing_list_id)
        for await (const _id of keyRanges(subscribers, { ...list, $gte: field.removed_to ?? list.$gte })) {
          const { modifiedCount } = await subscribers.updateMany(
            { _id, [path]: { $exists: true } },
            { $unset: { [path]: '' } },
          )
          removed += modifiedCount
          // Several engines may be at it; the furthest counts.
          await deletedFields.updateOne(walk, { $max: { removed_to: _id.$lt } })
        }
        if (isSecond) await deletedFields.deleteOne({ _id: field._id })
        else
          await deletedFields.updateOne(walk, [
            { $set: { walk_again_at: { $add: ['$$NOW', walkAgainMs] } } },
            { $unset: 'removed_to' },
          ])
        if (removed > 0 || !isSecond)
          log.info(
            { field_id: field._id, subscribers: removed },
            'removed the values of a deleted custom field',
          )
      }
    },
  }
}
