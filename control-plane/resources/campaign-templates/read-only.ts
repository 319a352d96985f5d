import { isHash } from '../../api/validation.ts'

/** What the service keeps: here, and nowhere else in the API, a request that brings it is refused. */
const ofTemplate = [
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
const ofDispatch = [
  'state',
  'state_description',
  'virtual_mta_type',
  'bounce_email_user_id',
  'bounce_email_domain_id',
  'seed_lists',
  'started_at',
  'finished_at',
]

/** A sentence on each of these keys that a document brings, with whatever value. */
export function readOnlyFaults(document: unknown): string[] {
  if (!isHash(document)) return []
  const dispatch = document['dispatch_attributes']
  const found = [
    ...ofTemplate.filter((key) => Object.hasOwn(document, key)),
    ...(isHash(dispatch)
      ? ofDispatch.filter((key) => Object.hasOwn(dispatch, key)).map((key) => `dispatch_attributes.${key}`)
      : []),
  ]
  return found.map((name) => `${name} is read-only and must not be sent`)
}
