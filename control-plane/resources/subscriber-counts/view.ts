import { addCounts, noStatusCounts, type StatusCounts } from '../../../shared/store/subscriber-counts.ts'
import type { SubscriberCountsView } from './schemas.ts'

interface NamedDocument {
  _id: number
  name: string
}

/** A list that is missing in `countsByList` has no subscribers. */
export function toView(
  organization: NamedDocument,
  lists: readonly NamedDocument[],
  countsByList: ReadonlyMap<number, StatusCounts>,
): SubscriberCountsView {
  const perList = lists.map(({ _id, name }) => ({
    mailing_list: { id: _id, name },
    counts: countsByList.get(_id) ?? noStatusCounts(),
  }))
  return {
    organization: { id: organization._id, name: organization.name },
    counts: perList.reduce((total, { counts }) => addCounts(total, counts), noStatusCounts()),
    mailing_lists: perList,
  }
}
