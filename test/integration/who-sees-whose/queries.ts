import type { Records } from './records.ts'

/**
 * Values of the query keys of each endpoint, by its name in rows.ts, with what an admin is shown: `own` records, or
 * `nothing`. Written by hand from the contract, as the rows are.
 */
export type Queries = Record<string, [shows: 'own' | 'nothing', value: string][]>

const shows = (value: unknown): Queries[string] => [['own', String(value)]]
/** The first value finds own records, the second one would find foreign ones. */
const either = (ownValue: unknown, foreignValue: unknown): Queries[string] => [
  ['own', String(ownValue)],
  ['nothing', String(foreignValue)],
]

const pages: Queries = { page: shows(0), per_page: shows(500) }

export function queriesFor(own: Records, foreign: Records): Record<string, Queries> {
  const users: Queries = {
    ...pages,
    full_name: either(own.mark, foreign.mark),
    full_name_contains: either(own.mark.slice(0, -1), foreign.mark.slice(1)),
    email: either(own.email, foreign.email),
    email_contains: either(own.mark, foreign.mark),
    order_by: [...shows('full_name'), ...shows('email'), ...shows('id')],
  }
  const [longAgo, farAhead] = ['2000-01-31T08:00:00Z', '2100-01-31T08:00:00Z']
  const jobs: Queries = {
    ...pages,
    begins_at__after: shows(longAgo),
    begins_at__before: shows(farAhead),
    finished_at__after: shows(longAgo),
    finished_at__before: shows(farAhead),
    state: shows('scheduled'),
    job_type: shows('SubscriberImport'),
  }
  const unfinishedJobs: Queries = {
    ...jobs,
    finished_at__after: [['nothing', longAgo]],
    finished_at__before: [['nothing', farAhead]],
  }
  const scopes = ['active', 'finished', 'recent', 'all'].flatMap(shows)
  const imports: Queries = {
    ...{ ...pages, scope: scopes, order: shows('created') },
    ...{ state: shows('scheduled,finished'), view: shows('full') },
  }
  const lists: Queries = { ...pages, search: either(own.mark, foreign.mark), view: shows('full') }
  return {
    'GET /organizations': pages,
    'GET /api_keys': pages,
    'GET /organizations/:organization_id/api_keys': pages,
    'GET /users': users,
    'GET /organizations/:organization_id/users': users,
    'GET /mailing_lists': lists,
    'GET /organizations/:organization_id/mailing_lists': lists,
    'GET /mailing_lists/:mailing_list_id/custom_fields': pages,
    'GET /mailing_lists/:mailing_list_id/confirmation_forms': pages,
    'GET /mailing_lists/:mailing_list_id/autoresponders': {
      name: [...either(own.mark, foreign.mark), ...shows('*')],
      minimal: [...shows('true'), ...shows('false')],
    },
    'GET /mailing_lists/:mailing_list_id/subscribers': pages,
    'GET /subscribers_by_email/:email': pages,
    'GET /mailing_lists/:mailing_list_id/subscribers_by_email/:email': pages,
    'GET /organizations/all/subscribers_by_email/:email': pages,
    'GET /organizations/:organization_id/subscribers_by_email/:email': pages,
    'GET /mailing_lists/:mailing_list_id/autoresponders/:id/statistics': {
      start_date: shows('20000131'),
      end_date: shows('21000131'),
    },
    'GET /subscriber_imports': imports,
    'GET /mailing_lists/:mailing_list_id/subscriber_imports': imports,
    'GET /subscriber_imports/:id/logs/:kind': { safe: shows('true'), line: shows('true') },
    'GET /mailing_lists/:mailing_list_id/reactions': {
      ...pages,
      subscriber_id: either(own.subscriber, foreign.subscriber),
      autoresponder_id: either(own.autoresponder, foreign.autoresponder),
      state: shows('queued,held,due'),
    },
    'GET /audit_events': {
      per_page: shows(500),
      record_type: shows('mailing_list,custom_field'),
      action: shows('created'),
      record_id: shows(own.list),
      api_key_id: [['nothing', '999999999']],
      since: shows(longAgo),
      until: shows(farAhead),
      organization_id: shows(own.organization),
    },
    'GET /jobs/all': jobs,
    'GET /jobs/unfinished': unfinishedJobs,
    'GET /jobs/all_on_all_organizations': jobs,
    'GET /jobs/unfinished_on_all_organizations': unfinishedJobs,
    'GET /organizations/:organization_id/jobs/all': jobs,
    'GET /organizations/:organization_id/jobs/unfinished': unfinishedJobs,
  }
}

/** Where the token comes from that an endpoint's own list must refuse; by default from its foreign list. */
interface TokenSource {
  /** Another endpoint, where the foreign list has no second page. */
  of?: string
  /** A system admin's list has the foreign records. */
  isOfSystem?: true
  /** Two subscribers of one list have the email. */
  isOfOneList?: true
}

const wholeLists = { of: 'GET /mailing_lists' }
const tokenSources: Record<string, TokenSource> = {
  'GET /organizations': { isOfSystem: true },
  'GET /mailing_lists/:mailing_list_id/autoresponders': wholeLists,
  'GET /templates': wholeLists,
  'GET /mailing_lists/:mailing_list_id/templates': wholeLists,
  'GET /mailing_lists/:mailing_list_id/subscribers_by_email/:email': { isOfOneList: true },
  'GET /organizations/all/subscribers_by_email/:email': { of: 'GET /subscribers_by_email/:email' },
  'GET /jobs/all_on_all_organizations': { of: 'GET /jobs/all' },
  'GET /jobs/unfinished_on_all_organizations': { of: 'GET /jobs/unfinished' },
}

export const tokenSourceFor = (name: string): TokenSource => tokenSources[name] ?? {}
