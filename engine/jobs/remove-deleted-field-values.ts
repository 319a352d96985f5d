import type { Database } from '../../shared/runtime/database.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import { keyRanges } from '../../shared/store/key-ranges.ts'
import { minuteMs } from '../../shared/values/durations.ts'
import { subscribersOfList } from '../../shared/values/identity.ts'
import { dueDeletedFields, endPass, removeValues } from '../store/deleted-fields.ts'
import type { MaintenanceJob } from './maintenance.ts'

/**
 * Removes the subscribers' values of deleted custom fields. A run may break off anywhere: the next one, in any engine,
 * resumes after the last key range that was done. A request that read the field before it was deleted may write a value
 * into a range that is already done. So a second pass over all subscribers of the list follows minutes later
 * (`second_pass_at`).
 */
export function removeDeletedFieldValues({ collections }: Database, log: Logger): MaintenanceJob {
  return {
    name: 'removing the values of deleted custom fields',
    everyMs: minuteMs,
    runOnce: async () => {
      let subscribers = 0
      for (const field of await dueDeletedFields(collections)) {
        const list = subscribersOfList(field.mailing_list_id)
        const rest = { ...list, $gte: field.removed_to ?? list.$gte }
        let removed = 0
        for await (const range of keyRanges(collections.subscribers, rest))
          removed += await removeValues(collections, field, range)
        await endPass(collections, field)
        subscribers += removed
        if (removed > 0 || field.second_pass_at === undefined)
          log.info(
            { field_id: field._id, subscribers: removed },
            'removed the values of a deleted custom field',
          )
      }
      return { subscribers }
    },
  }
}
