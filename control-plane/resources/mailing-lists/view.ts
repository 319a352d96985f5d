import type { z } from 'zod'
import type { ImportDocument } from '../../../shared/contract/schemas/import.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import { noStatusCounts, type StatusCounts } from '../../../shared/store/subscriber-counts.ts'
import { formatInstant } from '../../../shared/values/time-zone.ts'
import { sameFields } from '../stored-fields.ts'
import { mailingListView, type fullMailingListView, type MailingListView } from './schemas.ts'

export type FullMailingListView = z.infer<typeof fullMailingListView>
export type NewestImport = Pick<ImportDocument, '_id' | 'state' | 'created_at' | 'finished_at'>

export const toView = (list: MailingListDocument): MailingListView => ({
  id: list._id,
  ...sameFields(mailingListView, list),
})

/** A list without `counts` has no subscribers, and one without `newest` no import. */
export function toFullView(
  list: MailingListDocument,
  {
    counts = noStatusCounts(),
    newest,
    zone,
  }: { counts: StatusCounts | undefined; newest: NewestImport | undefined; zone: string },
): FullMailingListView {
  return {
    ...toView(list),
    counts,
    last_import:
      newest === undefined
        ? null
        : {
            id: newest._id,
            state: newest.state,
            created_at: formatInstant(newest.created_at, zone),
            finished_at: newest.finished_at === null ? null : formatInstant(newest.finished_at, zone),
          },
  }
}
