import type { ClientSession } from 'mongodb'
import type { Collections } from '../../shared/contract/schemas/collections.ts'
import type { OrganizationDocument } from '../../shared/contract/schemas/organization.ts'

/** Writes of `organizations`. */

export async function insertOrganization(
  { organizations }: Collections,
  document: OrganizationDocument,
  session: ClientSession,
): Promise<void> {
  await organizations.insertOne(document, { session })
}

export async function updateOrganization(
  { organizations }: Collections,
  id: number,
  fields: Partial<OrganizationDocument>,
  session: ClientSession,
): Promise<void> {
  await organizations.updateOne({ _id: id }, { $set: fields }, { session })
}
