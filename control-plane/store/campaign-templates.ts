import type { CampaignTemplateDocument } from '../../shared/contract/schemas/campaign-template.ts'
import type { Collections } from '../../shared/contract/schemas/collections.ts'

/** Writes of `campaign_templates`. Names are unique on a list by an index, whose error passes through. */

export async function insertTemplate(
  { campaignTemplates }: Collections,
  document: CampaignTemplateDocument,
): Promise<void> {
  await campaignTemplates.insertOne(document)
}

/** False when it is gone. */
export async function deleteTemplateDocument(
  { campaignTemplates }: Collections,
  id: number,
): Promise<boolean> {
  const { deletedCount } = await campaignTemplates.deleteOne({ _id: id })
  return deletedCount === 1
}

/** Optimistic lock: false when the template has another revision by now, or is gone. */
export async function updateTemplate(
  { campaignTemplates }: Collections,
  { _id, ...fields }: CampaignTemplateDocument,
  readRevision: number,
): Promise<boolean> {
  const { matchedCount } = await campaignTemplates.updateOne(
    { _id, revision: readRevision },
    { $set: fields },
  )
  return matchedCount === 1
}
