import type { z } from 'zod'
import type { foundSubscriberView } from '../schemas.ts'
import type { FoundInList } from './service.ts'

type FoundView = z.infer<typeof foundSubscriberView>

export const toFoundView = ({ subscriber, list }: FoundInList): FoundView => ({
  id: subscriber.id,
  status: subscriber.status,
  email: subscriber.email,
  mailing_list: { id: list._id, name: list.name },
})

export function toFoundViewWithOrganization(
  found: FoundInList,
  organizationNames: ReadonlyMap<number, string>,
): FoundView {
  const id = found.list.organization_id
  return { ...toFoundView(found), organization: { id, name: organizationNames.get(id) ?? '' } }
}
