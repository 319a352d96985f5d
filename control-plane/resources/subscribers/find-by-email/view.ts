import type { z } from 'zod'
import type { foundSubscriberView } from '../schemas.ts'
import type { FoundInList } from './service.ts'

export type FoundView = z.infer<typeof foundSubscriberView>

/** With the names of organizations, by id, it has that of its list's organization. */
export const toFoundView = (
  { subscriber, list }: FoundInList,
  names?: ReadonlyMap<number, string>,
): FoundView => ({
  id: subscriber.id,
  status: subscriber.status,
  email: subscriber.email,
  mailing_list: { id: list._id, name: list.name },
  ...(names && { organization: { id: list.organization_id, name: names.get(list.organization_id) ?? '' } }),
})
