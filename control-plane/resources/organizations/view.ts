import type { OrganizationDocument } from '../../../shared/contract/schemas/organization.ts'
import type { OrganizationView } from './schemas.ts'

export function toView(organization: OrganizationDocument): OrganizationView {
  const { _id, name, time_zone_name, subscriber_limit } = organization
  return { id: _id, name, time_zone_name, subscriber_limit }
}
