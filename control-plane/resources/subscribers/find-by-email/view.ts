import type { z } from 'zod'
import type { foundSubscriberView } from '../schemas.ts'
import type { FoundInList } from './service.ts'

export type FoundView = z.infer<typeof foundSubscriberView>

/** `names`: of organizations, by id. With them, the view has the organization of the list. */
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
