import type { Database } from '../../shared/database.ts'
import type { Logger } from '../../shared/logger.ts'
import { subscribersOfList } from '../../shared/values/identity.ts'
import type { Chore } from './maintenance.ts'

const subscribersAtOnce = 1_000

/** Removes what subscribers hold of custom fields that were deleted. It may break off anywhere and begin anew. */
export function removeDeletedFieldValues({ collections }: Database, log: Logger): Chore {
  return {
    name: 'removing the values of deleted custom fields',
    everyMs: 60_000,
    async run() {
      for (const { _id: fieldId, mailing_list_id: listId } of await collections.deletedFields
        .find()
        .toArray()) {
        const path = `custom_fields.${fieldId}`
        let removed = 0
        let range = subscribersOfList(listId)
        for (;;) {
          const piece = await collections.subscribers
            .find({ _id: range, [path]: { $exists: true } }, { projection: { _id: 1 } })
            .sort({ _id: 1 })
            .limit(subscribersAtOnce)
            .toArray()
          if (piece.length === 0) break
          const ids = piece.map(({ _id }) => _id)
          await collections.subscribers.updateMany({ _id: { $in: ids } }, { $unset: { [path]: '' } })
          removed += ids.length
          range = { ...range, $gte: ids.at(-1)! }
        }
        await collections.deletedFields.deleteOne({ _id: fieldId })
        log.info({ field_id: fieldId, subscribers: removed }, 'removed the values of a deleted custom field')
      }
    },
  }
}
