import type { Json } from './service.ts'

/**
 * The tables of fields in the API's document, as data: what a reply must have, whatever the schemas in the code say.
 * Types are those of JSON, `time` for ISO 8601 in whole seconds with an offset, and `date` for YYYY-MM-DD; `?` allows
 * null.
 */
interface FieldTable {
  /** The component of the description that has these fields. */
  schema: string
  /** Types by dotted path; `[]` is an entry of an array, `*` any key. */
  fields: Record<string, string>
  /** The only values that a field may have. */
  values?: Record<string, readonly string[]>
  /** There are no other fields, as the document says. */
  isWhole?: boolean
  /** Endpoints that reply with the entity or an array of it; at least one of their replies has an entry. */
  shownBy: string[]
}

const importStates = [
  ...['scheduled', 'downloading', 'splitting', 'importing', 'paused', 'finished', 'failed', 'cancelled'],
]
const statuses = ['active', 'bounced', 'unsubscribed', 'scomp', 'deactivated']
const formats = ['html', 'text', 'both']
const verbs = ['create', 'update', 'delete']

const importSummary = {
  id: 'integer',
  mailing_list_id: 'integer',
  mailing_list_name: 'string',
  created_at: 'time',
  state: 'string',
  begins_at: 'time',
  finished_at: 'time?',
  'file_source.type': 'string',
  'file_source.filename': 'string',
  'file_source.url': 'string?',
  'stats.number_of_records': 'integer?',
  'stats.records_imported': 'integer',
}

const templateSummary = {
  id: 'integer',
  name: 'string',
  mailing_list_id: 'integer',
  mailing_list_name: 'string',
  organization_id: 'integer',
  segmentation_criteria_id: 'integer?',
}

const typed = (type: string, names: string): Record<string, string> =>
  Object.fromEntries(names.split(/\s+/).map((name) => [name, type]))

const opens = 'opens_unique privacy_opens_unique nonprivacy_opens_unique'

export const fieldTables: FieldTable[] = [
  {
    schema: 'Autoresponder',
    fields: {
      ...typed('integer', 'id mailing_list_id delay_amount delay_time'),
      ...typed('string', 'name delay trigger content_format'),
      ...typed(
        'boolean',
        `paused use_external_delivery_setting track_links track_opens trigger_include_subscribers_from_import
        trigger_run_on_api`,
      ),
      ...typed(
        'integer?',
        `bounce_email_domain_id bounce_email_user_id url_domain_id virtual_mta_id special_sending_rule_id
        segmentation_criteria_id trigger_autoresponder_to_click_id trigger_autoresponder_to_open_id
        trigger_autoresponder_to_send_id trigger_campaign_to_click_id trigger_campaign_to_open_id`,
      ),
      ...typed(
        'string?',
        `delay_unit from_email from_name reply_to special_sending_rule_name segmentation_criteria_name content_subject
        content_html content_text`,
      ),
      ...typed('boolean?', 'trigger_autoresponder_to_click_on_any_url trigger_campaign_to_click_on_any_url'),
      ...typed('array?', 'trigger_autoresponder_to_click_urls trigger_campaign_to_click_urls'),
      paused_at: 'time?',
      triggered_on: 'date?',
    },
    values: {
      delay: ['immediately', 'with_delay'],
      delay_unit: ['minutes', 'hours', 'days', 'weeks', 'months'],
      trigger: [
        ...['subscription', 'api', 'campaign_open', 'campaign_click', 'autoresponder_open'],
        ...['autoresponder_nonopen', 'autoresponder_click', 'autoresponder_nonclick', 'autoresponder_send'],
      ],
      content_format: formats,
    },
    isWhole: true,
    shownBy: ['listAutoresponders', 'createAutoresponder', 'updateAutoresponder'],
  },
  {
    schema: 'AutoresponderStatistics',
    fields: {
      ...typed(
        'integer',
        `sent_text sent_html sent_multipart messages_sent messages_html messages_text bounces_total bounces_unique
        bounces_unique_hard bounces_unique_soft bounces_unique_other bounces_unique_local bounces_unique_remote
        bounces_status_updated bounced duplicate_bounces unbounced clicks_total clicks_unique clicks_unique_by_link
        duplicate_clicks unclicked opens_total opens_unique unopened duplicate_opens scomps_total scomps_unique
        scomps_status_updated duplicate_scomps unsubs_total unsubs_unique unsubs_status_updated duplicate_unsubs
        skips_error skips_request total_messages total_success total_failure total_failure_toolong accepted in_queue
        max_unique_activities`,
      ),
      ...typed(
        'number',
        `bounce_rate bounce_rate_hard bounce_rate_soft bounce_rate_other bounce_local_rate click_rate
        click_to_open_rate open_rate open_ratio scomp_rate unsub_rate accepted_rate in_queue_rate`,
      ),
      bounces_unique_by_code: 'object',
      ...Object.fromEntries(
        ['all_subscribers', 'privacy_subscribers', 'nonprivacy_subscribers'].flatMap((hash) =>
          Object.entries({
            ...typed('integer', `${opens} ${opens.replaceAll('unique', 'total')} subscriber_count`),
            ...typed('number', opens.replaceAll('unique', 'unique_rate')),
          }).map(([name, type]) => [`privacy_protection.${hash}.${name}`, type] as const),
        ),
      ),
    },
    isWhole: true,
    shownBy: ['getAutoresponderStatistics'],
  },
  {
    schema: 'SubscriberImportSummary',
    fields: importSummary,
    values: { state: importStates, 'file_source.type': ['json', 'upload_directory', 'url'] },
    isWhole: true,
    shownBy: ['listSubscriberImports'],
  },
  {
    schema: 'SubscriberImport',
    fields: {
      ...importSummary,
      overwrite: 'boolean',
      deactivate_subscribers_not_in_import: 'boolean',
      error_message: 'string?',
      'autoresponders.subscription.trigger': 'boolean',
      'autoresponders.subscription.also_trigger_on_updated_subscribers': 'boolean',
      'autoresponders.api.trigger_new': 'object?',
      'autoresponders.api.trigger_updated': 'object?',
      'overwrite_what.custom_fields': 'boolean',
      'overwrite_what.confirmed': 'boolean',
      'overwrite_what.format': 'boolean',
      'overwrite_what.status': 'boolean',
      'overwrite_when_status.active': 'boolean',
      'overwrite_when_status.unsubscribed': 'boolean',
      'overwrite_when_status.bounced': 'boolean',
      'overwrite_when_status.deactivated': 'boolean',
      'overwrite_when_status.scomp': 'boolean',
      column_mapping: 'array',
      'column_mapping.[]': 'string?',
      default_custom_fields: 'object',
      'subscriber_defaults.status': 'string',
      'file_format.csv_has_headers': 'boolean',
      'file_format.character_set': 'string',
      'file_format.csv_field_separator': 'string',
      'file_format.csv_field_enclosure': 'string',
      'file_format.csv_field_escape': 'string?',
      'file_format.csv_skip_lines': 'integer',
      'file_format.date_format': 'string',
      'stats.subscribers.added': 'integer',
      'stats.subscribers.updated': 'integer',
      'stats.subscribers.failed': 'integer',
      'stats.subscribers.skipped_overwrite': 'integer',
      'stats.subscribers.skipped_active': 'integer',
      'stats.subscribers.skipped_unsubscribed': 'integer',
      'stats.subscribers.skipped_scomp': 'integer',
      'stats.subscribers.skipped_bounced': 'integer',
      'stats.subscribers.skipped_deactivated': 'integer',
      'stats.subscribers.skipped_duplicate': 'integer',
      'stats.subscribers.skipped_over_limit': 'integer',
    },
    values: {
      state: importStates,
      'subscriber_defaults.status': statuses,
      'file_format.character_set': [
        ...[
          'utf-8',
          'iso-8859-1',
          'windows-1252',
          'windows-1250',
          'windows-1251',
          'iso-8859-2',
          'iso-8859-15',
        ],
        ...['utf-16le', 'utf-16be', 'utf-16', 'shift_jis', 'gbk', 'big5', 'euc-kr', 'auto'],
      ],
      'file_format.csv_field_separator': [',', '\t', ';', '|', 'auto'],
      'file_format.csv_field_enclosure': ['"', "'"],
      'file_format.csv_field_escape': ['\\'],
      'file_format.date_format': ['mdy', 'dmy'],
    },
    shownBy: [
      'getSubscriberImport',
      'createSubscriberImport',
      'pauseSubscriberImport',
      'unpauseSubscriberImport',
      'cancelSubscriberImport',
    ],
  },
  {
    schema: 'User',
    fields: {
      id: 'integer',
      full_name: 'string',
      email: 'string',
      active: 'boolean',
      role: 'string',
      show_quick_tips: 'boolean',
      default_preview_recipients: 'array',
      'default_preview_recipients.[]': 'string',
      terms_and_conditions_version: 'integer?',
      'permissions.mailing_list.[]': 'string',
      'permissions.subscriber.[]': 'string',
      'permissions.segmentation_criteria.[]': 'string',
      'permissions.autoresponder.[]': 'string',
      'permissions.web_form.[]': 'string',
      'permissions.custom_field.[]': 'string',
      'permissions.campaign.[]': 'string',
      'permissions.campaign/template.[]': 'string',
      'permissions.seed_list.[]': 'string',
      'password_failure_lockout.is_locked_out': 'boolean',
      'password_failure_lockout.expires_at': 'time?',
    },
    values: {
      role: ['system_admin', 'organization_admin', 'standard'],
      'permissions.mailing_list.[]': verbs,
      'permissions.subscriber.[]': [...verbs, 'read', 'import', 'export'],
      'permissions.segmentation_criteria.[]': verbs,
      'permissions.autoresponder.[]': [...verbs, 'update_state', 'read_stats'],
      'permissions.web_form.[]': verbs,
      'permissions.custom_field.[]': verbs,
      'permissions.campaign.[]': [...verbs, 'send', 'update_state', 'read_stats'],
      'permissions.campaign/template.[]': verbs,
      'permissions.seed_list.[]': verbs,
    },
    shownBy: ['listUsers', 'getUser', 'createUser', 'updateUser', 'authenticateUser'],
  },
  {
    schema: 'CampaignTemplateSummary',
    fields: templateSummary,
    isWhole: true,
    shownBy: ['listTemplatesOfList'],
  },
  {
    schema: 'CampaignTemplate',
    fields: {
      ...templateSummary,
      organization_name: 'string',
      segmentation_criteria_name: 'null',
      segmentation_criteria_remote_sql: 'string?',
      contents: 'array',
      'contents.[].id': 'integer',
      'contents.[].name': 'string?',
      'contents.[].subject': 'string?',
      'contents.[].format': 'string',
      ...typed('string?', 'content_subject email_format content_html content_text'),
      ...typed('boolean', 'archived content_determined template'),
      ...typed('time', 'created_at updated_at'),
      custom_dynamic_template_id: 'integer?',
      ...typed('null', 'stat_summary automatic_winner_selection'),
      ...typed('array', 'content_stats campaign_contents'),
    },
    values: { 'contents.[].format': formats, email_format: formats },
    shownBy: ['getTemplate', 'createTemplate', 'updateTemplate'],
  },
  {
    schema: 'CampaignTemplateDispatch',
    fields: {
      ...typed('string', 'state state_description'),
      speed: 'integer',
      ...typed('boolean', 'track_opens track_links paused autowinner_enabled'),
      seed_lists: 'array',
      ...typed(
        'integer?',
        `virtual_mta_id bounce_email_user_id bounce_email_domain_id url_domain_id seed_list_id special_sending_rule_id
        autowinner_delay_amount`,
      ),
      ...typed(
        'string?',
        `virtual_mta_name virtual_mta_type bounce_email_id bounce_email_name bounce_email_email url_domain_name
        url_domain_domain seed_list_name special_sending_rule_name from_name from_email reply_to sender_email
        autowinner_percentage autowinner_delay_unit autowinner_metric`,
      ),
      ...typed('time?', 'begins_at started_at finished_at'),
    },
    values: {
      autowinner_delay_unit: ['minutes', 'hours', 'days'],
      autowinner_metric: [
        'opens_unique',
        'clicks_unique',
        'opens_total',
        'clicks_total',
        'click_to_open_rate',
      ],
    },
    isWhole: true,
    // It is a part of a template, and only there when it was given.
    shownBy: [],
  },
  {
    schema: 'Subscriber',
    fields: {
      id: 'integer',
      mailing_list_id: 'integer',
      email: 'string',
      created_at: 'time',
      created_at_epoch: 'integer',
      status: 'string',
      subscribe_time: 'time',
      subscribe_time_epoch: 'integer',
      subscribe_ip: 'string?',
      custom_fields: 'object',
      'custom_fields.*.name': 'string',
      'custom_fields.*.type': 'string',
    },
    values: { status: statuses, email_format: formats },
    shownBy: ['listSubscribers', 'getSubscribers', 'createSubscriber', 'updateSubscriber', 'unsubscribe'],
  },
  {
    schema: 'FoundSubscriber',
    fields: {
      id: 'integer',
      status: 'string',
      email: 'string',
      'mailing_list.id': 'integer',
      'mailing_list.name': 'string',
    },
    values: { status: statuses },
    shownBy: ['findSubscribersByEmail', 'findSubscribersByEmailInList'],
  },
  {
    schema: 'Job',
    fields: {
      id: 'integer',
      mailing_list_id: 'integer',
      organization_id: 'integer',
      suppression_list_id: 'null',
      state: 'string',
      state2: 'null',
      paused: 'boolean',
      name: 'string',
      progress_value: 'integer',
      progress_total: 'integer?',
      job_type: 'string',
      begins_at: 'time',
      started_at: 'time?',
      finished_at: 'time?',
      created_at: 'time',
      updated_at: 'time',
      retry_at: 'time?',
    },
    values: { state: importStates, job_type: ['SubscriberImport'] },
    isWhole: true,
    shownBy: ['listJobs', 'listUnfinishedJobs', 'listJobsOfOrganization'],
  },
  {
    schema: 'SubscriberCounts',
    fields: {
      'organization.id': 'integer',
      'organization.name': 'string',
      ...countsAt('counts'),
      mailing_lists: 'array',
      'mailing_lists.[].mailing_list.id': 'integer',
      'mailing_lists.[].mailing_list.name': 'string',
      ...countsAt('mailing_lists.[].counts'),
    },
    isWhole: true,
    shownBy: ['getSubscriberCounts', 'getSubscriberCountsOfOrganization'],
  },
]

function countsAt(path: string): Record<string, string> {
  return Object.fromEntries(statuses.map((status) => [`${path}.${status}`, 'integer']))
}

/** The values that creations use where a field is left out. */
export const creationDefaults: Record<string, Record<string, unknown>> = {
  createSubscriberImport: {
    overwrite: false,
    deactivate_subscribers_not_in_import: false,
    'overwrite_what.custom_fields': true,
    'overwrite_what.confirmed': false,
    'overwrite_what.format': false,
    'overwrite_what.status': false,
    'overwrite_when_status.active': true,
    'overwrite_when_status.unsubscribed': false,
    'overwrite_when_status.bounced': false,
    'overwrite_when_status.deactivated': false,
    'overwrite_when_status.scomp': false,
    default_custom_fields: {},
    'file_format.csv_has_headers': true,
    'file_format.character_set': 'utf-8',
    'file_format.csv_field_separator': ',',
    'file_format.date_format': 'mdy',
  },
  createUser: { show_quick_tips: true },
}

const date = /^\d{4}-\d\d-\d\d$/
const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)$/

/** Names where a reply's record differs from the table; `isWhole` concerns its top level. */
export function faultsOf(table: FieldTable, record: Json): string[] {
  const others = Object.keys(record).filter(
    (key) => !Object.keys(table.fields).some((path) => path.split('.')[0] === key),
  )
  return [
    ...(table.isWhole === true ? others.map((key) => `${key} is not in the table`) : []),
    ...Object.entries(table.fields).flatMap(([path, type]) =>
      valuesAt(record, path.split('.'))
        .filter((value) => !fits(value, type) || !isListed(value, table.values?.[path]))
        .map((value) => `${path} is ${JSON.stringify(value)}, not ${type}`),
    ),
  ]
}

function valuesAt(value: Json, [step, ...rest]: string[]): Json[] {
  if (step === undefined) return [value]
  if (step === '[]' || step === '*')
    return Object.values<Json>(value).flatMap((entry) => valuesAt(entry, rest))
  return valuesAt(value?.[step], rest)
}

const isListed = (value: Json, listed: readonly string[] | undefined): boolean =>
  value === null || listed === undefined || listed.includes(value)

function fits(value: unknown, type: string): boolean {
  if (value === null) return type.endsWith('?') || type === 'null'
  switch (type.replace('?', '')) {
    case 'integer':
      return Number.isInteger(value)
    case 'time':
      return typeof value === 'string' && time.test(value)
    case 'date':
      return typeof value === 'string' && date.test(value)
    case 'array':
      return Array.isArray(value)
    default:
      return typeof value === type.replace('?', '')
  }
}
