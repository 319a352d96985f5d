import type { Database } from '../../../shared/runtime/database.ts'
import type { Logger } from '../../../shared/runtime/logger.ts'
import { keyRanges } from '../../../shared/store/key-ranges.ts'
import { subscribersOfList } from '../../../shared/values/identity.ts'
import type { MaintenanceJob } from './maintenance.ts'

/** A request that read the field before it was deleted has ended by then. */
const secondPassDelayMs = 5 * 60_000

/**
 * Removes the subscribers' values of deleted custom fields. A run may break off anywhere: the next one, in any engine,
 * resumes behind the last key range that was done. A request that read the field before it was deleted may write a value
 * behind the pass. So a second pass over all subscribers of the list follows minutes later.
 */
export function removeDeletedFieldValues({ collections }: Database, log: Logger): MaintenanceJob {
  const { deletedFields, subscribers } = collections
  return {
    name: 'removing the values of deleted custom fields',
    everyMs: 60_000,
    async run() {
      const isDue = { $lte: [{ $ifNull: ['$walk_again_at', '$$NOW'] }, '$$NOW'] }
      for (const field of await deletedFields.find({ $expr: isDue }).toArray()) {
        const path = `custom_fields.${field._id}`
        const isSecondPass = field.walk_again_at !== undefined
        const samePass = { _id: field._id, walk_again_at: field.walk_again_at ?? { $exists: false } }
        let removed = 0
        const list = subscribersOfList(field.mailing_list_id)
        for await (const _id of keyRanges(subscribers, { ...list, $gte: field.removed_to ?? list.$gte })) {
          const { modifiedCount } = await subscribers.updateMany(
            { _id, [path]: { $exists: true } },
            { $unset: { [path]: '' } },
          )
          removed += modifiedCount
          // Several engines may run the pass at the same time; $max keeps the furthest position.
          await deletedFields.updateOne(samePass, { $max: { removed_to: _id.$lt } })
        }
        if (isSecondPass) await deletedFields.deleteOne({ _id: field._id })
        else
          await deletedFields.updateOne(samePass, [
            { $set: { walk_again_at: { $add: ['$$NOW', secondPassDelayMs] } } },
            { $unset: 'removed_to' },
          ])
        if (removed > 0 || !isSecondPass)
          log.info(
            { field_id: field._id, subscribers: removed },
            'removed the values of a deleted custom field',
          )
      }
    },
  }
}
