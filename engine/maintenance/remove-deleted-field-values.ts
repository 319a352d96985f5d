import type { Database } from '../../shared/database.ts'
import type { Logger } from '../../shared/logger.ts'
import { keyRanges } from '../../shared/store/key-ranges.ts'
import { subscribersOfList } from '../../shared/values/identity.ts'
import type { Chore } from './maintenance.ts'

/**
 * Removes what subscribers hold of custom fields that were deleted. It may break off anywhere; the next run, of any
 * engine, resumes behind the last subscribers that were done.
 */
export function removeDeletedFieldValues({ collections }: Database, log: Logger): Chore {
  const { deletedFields, subscribers } = collections
  return {
    name: 'removing the values of deleted custom fields',
    everyMs: 60_000,
    async run() {
      for (const field of await deletedFields.find().toArray()) {
        const path = `custom_fields.${field._id}`
        let removed = 0
        const list = subscribersOfList(field.mailing_list_id)
        for await (const _id of keyRanges(subscribers, { ...list, $gte: field.removed_to ?? list.$gte })) {
          const { modifiedCount } = await subscribers.updateMany(
            { _id, [path]: { $exists: true } },
            { $unset: { [path]: '' } },
          )
          removed += modifiedCount
          // Several engines may be at it; the furthest counts.
          await deletedFields.updateOne({ _id: field._id }, { $max: { removed_to: _id.$lt } })
        }
        await deletedFields.deleteOne({ _id: field._id })
        log.info(
          { field_id: field._id, subscribers: removed },
          'removed the values of a deleted custom field',
        )
      }
    },
  }
}
