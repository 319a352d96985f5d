import { isHash } from '../../api/validation.ts'

/** Keys that only replies have. Only this resource refuses requests with such keys; others ignore them. */
const readOnlyKeys = [
  'id',
  'mailing_list_id',
  'mailing_list_name',
  'organization_id',
  'organization_name',
  'segmentation_criteria_name',
  'dispatch',
  'created_at',
  'updated_at',
  'archived',
  'content_determined',
  'template',
  'stat_summary',
  'content_stats',
  'automatic_winner_selection',
  'campaign_contents',
]
const readOnlyDispatchKeys = [
  'state',
  'state_description',
  'virtual_mta_type',
  'bounce_email_user_id',
  'bounce_email_domain_id',
  'seed_lists',
  'started_at',
  'finished_at',
]

/** A sentence for each read-only key in a document, whatever its value. */
export function readOnlyFaults(document: unknown): string[] {
  if (!isHash(document)) return []
  const dispatch = document['dispatch_attributes']
  const found = [
    ...readOnlyKeys.filter((key) => Object.hasOwn(document, key)),
    ...(isHash(dispatch)
      ? readOnlyDispatchKeys
          .filter((key) => Object.hasOwn(dispatch, key))
          .map((key) => `dispatch_attributes.${key}`)
      : []),
  ]
  return found.map((name) => `${name} is read-only and must not be sent`)
}
