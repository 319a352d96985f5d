import { isHash } from '../api/validation.ts'
import { autoresponderTexts } from '../resources/autoresponders/field-texts.ts'
import { campaignTemplateTexts } from '../resources/campaign-templates/field-texts.ts'

/**
 * The texts of fields in the API description, each written once for requests and replies. A field gets the entry with
 * the longest dotted end of its path. A schema's own description has precedence. In the schemas most of them would stand
 * several times: of 211 texts 187 describe two or more fields.
 */
const fieldTexts: Record<string, string> = {
  ...autoresponderTexts,
  ...campaignTemplateTexts,
  id: 'its id, unique over all records of its kind and never reused',
  name: 'its name, trimmed',
  data: 'the result of the request',
  organization_id: 'the organization that it belongs to',
  mailing_list_id: 'the mailing list that it belongs to',
  mailing_list_name: 'name of that mailing list',
  created_at: "when it was created, ISO 8601 in the organization's time zone",
  finished_at: 'when it ended, with any result; null until then',

  time_zone_name:
    'IANA name of the time zone in which times without an offset are read and all times are shown',
  subscriber_limit: 'maximum of active subscribers over all lists; null is unlimited',

  'api_key.name': 'what it is for, 1 to 100 characters',
  role: 'what it may do; system_admin only in organization 1',
  'api_key.role':
    'what it may do; system_admin only in organization 1; uploads for a partner, who may send, list, read and delete files of the upload directory and nothing else',
  uploads_folder:
    'the folder of the upload directory that is all that a key with the role uploads sees; null for the whole directory. A key that gets another role loses it',
  active: 'whether it is accepted',
  user_id: "the user whose role and permissions apply in place of the key's own; null for none",

  'mailing_list.name': 'its name, unique in the organization without regard to case',
  has_format: 'whether its subscribers have an email format',
  has_confirmed: 'whether its subscribers are confirmed or not',
  is_remote_list:
    'whether its subscribers are kept in another system, so that they cannot be read or changed here',
  primary_key_custom_field_id:
    'the required text or number field that identifies its subscribers in place of the email; it can be set while the list is empty',

  'custom_field.name': 'its name, under 50 characters, unique on the list without regard to case',
  field_type: "the type of its values; it can't change",
  required: 'whether every subscriber must have a value',
  options: 'names of the options, of the select types',
  default: 'value of new subscribers without one; null for none',
  minimum_length: 'minimum number of characters of a text; null is any',
  maximum_length: 'maximum number of characters of a text; null is any',
  minimum_value: 'minimum value of a number; null is any',
  maximum_value: 'maximum value of a number; null is any',

  'user.active': 'whether the user can sign in',
  full_name: 'first and last name, at most 100 characters',
  email: 'the email address',
  show_quick_tips: 'whether hints are shown',
  default_preview_recipients: 'initial recipients of preview mails, at most 100',
  terms_and_conditions_version: 'the version of the terms that the user accepted; null for none',
  password_failure_lockout: 'whether the user is locked out after too many wrong passwords',
  password: 'the password to check',
  password1: 'the new password, 8 characters to 1,024 bytes; never returned',
  password2: 'the new password again',
  mailing_list: 'what may be done with mailing lists',
  subscriber: 'what may be done with subscribers',
  segmentation_criteria: 'what may be done with segments',
  autoresponder: 'what may be done with autoresponders',
  web_form: 'what may be done with confirmation forms',
  custom_field: 'what may be done with custom fields',
  campaign: 'what may be done with campaigns',
  'campaign/template': 'what may be done with campaign templates',
  seed_list: 'what may be done with seed lists',

  action: 'what was done',
  record_type: 'what kind of record it is; null for an erasure',
  record_id: 'id of the record; null for an erasure',
  record_name:
    'its name at that moment, of an import that of its file, of a user the full name; null for an erasure',
  by: 'api: a request; profile: an import profile; service: Rollcall itself',
  api_key_id: 'the API key that did it; null for none',
  api_key_name: 'name of that key at that moment',
  'created_by.user_id': 'the user of that key; null for none',
  'cancelled_by.user_id': 'the user of that key; null for none',
  user_name: 'full name of the user of that key at that moment; null for none',
  address: 'the address that the request came from; null for none',
  changes: "names of the request's fields whose value changed, sorted; empty unless the action is updated",

  num_records: 'records in all; null where they are not counted, with a token',
  num_pages: 'pages in all; null where the records are not counted',
  status: 'active, bounced, unsubscribed, scomp (complained of spam) or deactivated',
  subscribe_ip: 'the IP address of the subscription; null when it is not known',
  remove_time: 'when the subscriber became inactive; null for an active one',
  remove_time_epoch: 'the same in whole seconds since 1970',
  remove_ip: 'the IP address of the removal; null when it is not known',
  confirm_time: 'when the subscriber was confirmed; null for an unconfirmed one',
  confirm_time_epoch: 'the same in whole seconds since 1970',
  'custom_fields.type': 'type of the field',
  'custom_fields.value': "the field's value, in the form of its type; null for none",
  subscriber_ids_removed: 'ids of the subscribers that were removed',
  from_name: 'name of the sender; null for none',
  from_email: 'address of the sender; null for none',
  subject: 'subject of the mail',
  html: 'the mail as HTML; `%%confirmation_url%%` stands for the link',
  text: 'the mail as text; `%%confirmation_url%%` stands for the link',
  bytes_received: 'bytes that were received so far',

  state: 'its state',
  begins_at: 'when it begins or began',
  overwrite: 'whether existing subscribers with the same identity are overwritten',
  deactivate_subscribers_not_in_import:
    'whether active subscribers who are absent from the file are deactivated when it has succeeded',
  error_message: 'why it failed; null otherwise',
  autoresponders: 'autoresponders that run for subscribers that the import adds or updates',
  'autoresponders.subscription': 'those that run on a subscription',
  'subscription.trigger': 'whether they run for added subscribers, where they are set to run from imports',
  also_trigger_on_updated_subscribers: 'whether they run for updated subscribers too',
  'autoresponders.api': 'those of the type api',
  trigger_new: 'the one that runs for added subscribers; null for none',
  trigger_updated: 'the one that runs for updated subscribers; null for none',
  'trigger_new.id': 'its id',
  'trigger_new.name': 'its name, in any case; ignored when the id is given',
  'trigger_updated.id': 'its id',
  'trigger_updated.name': 'its name, in any case; ignored when the id is given',
  overwrite_what: 'which parts of an existing subscriber are overwritten',
  'overwrite_what.custom_fields': 'whether the custom fields are overwritten',
  'overwrite_what.confirmed': 'whether confirmed and its time are overwritten',
  'overwrite_what.format': 'whether the email format is overwritten',
  'overwrite_what.status': 'whether the status is overwritten, with its times and IP addresses',
  overwrite_when_status: 'which existing subscribers are overwritten, by their status',
  'overwrite_when_status.active': 'whether active ones are overwritten',
  'overwrite_when_status.unsubscribed': 'whether unsubscribed ones are overwritten',
  'overwrite_when_status.bounced': 'whether bounced ones are overwritten',
  'overwrite_when_status.deactivated': 'whether deactivated ones are overwritten',
  'overwrite_when_status.scomp': 'whether those who complained of spam are overwritten',
  column_mapping:
    'one entry for each CSV column: a built-in column, a custom field, or null for a column that is ignored; `status` takes the names of other services too (`subscribed`, `opted out`, `cleaned`), and `consent`, in its place, yes or no: active or unsubscribed',
  default_custom_fields:
    'values of custom fields by name, for records without a value; a record that would get one that its field no longer allows when the import starts fails',
  subscriber_defaults:
    'properties of added subscribers that the file does not set; given, also of existing ones where the same key of `overwrite_what` is on and no column brings it',
  'subscriber_defaults.status': 'their status',
  'subscriber_defaults.confirmed': 'whether they are confirmed, on lists with that field',
  'subscriber_defaults.format': 'their email format, on lists with that field',
  file_source: 'the source of the file',
  'file_source.type': 'inline text, a file in the upload directory, or a URL; in any case',
  'file_source.filename': 'name of the file; `data` for inline text',
  'file_source.url':
    'the URL with its password masked, and after the end also possible tokens in its query; null for other sources',
  file_format: 'the format of the file',
  csv_has_headers: 'whether its first line is a header',
  character_set:
    'its character set, in any case, as the WHATWG Encoding Standard names them; `auto` detects UTF-8, windows-1252, and UTF-16 with a byte order mark; without effect on inline text',
  csv_field_separator: 'the character between cells: comma, tab, semicolon or bar; `auto` detects it',
  csv_field_enclosure: 'the character that may enclose cells',
  csv_skip_lines: 'physical lines before the header or first record that are no part of the table',
  csv_field_escape: 'what escapes the enclosure inside a cell: a backslash, or null',
  date_format: 'whether 01/02/2014 is in January (mdy) or in February (dmy)',
  stats: 'its progress',
  number_of_records: 'records in the file; null until they are counted',
  records_imported: 'records that are done, with any result',
  'stats.subscribers': 'numbers of records by result',
  added: 'records that made a new subscriber',
  updated: 'records that overwrote a subscriber',
  failed: 'records with a fault; the log says which',
  skipped_overwrite: 'records of existing subscribers while overwrite is off',
  skipped_active: 'records of active subscribers, which are not to be overwritten',
  skipped_unsubscribed: 'the same for unsubscribed ones',
  skipped_scomp: 'the same for those who complained of spam',
  skipped_bounced: 'the same for bounced ones',
  skipped_deactivated: 'the same for deactivated ones',
  skipped_duplicate: 'records whose identity an earlier record of the file had',
  skipped_over_limit: "records above the organization's subscriber limit",
  'subscribers.deactivated': 'deactivated subscribers, who were absent from the file; not part of the sum',
  dry_run: 'whether it does everything but the writes, with the same counts and logs',
  blank_cells: 'whether a blank cell clears a custom field when an existing subscriber is overwritten',
  apply_custom_field_defaults:
    'whether an added subscriber gets the defaults of fields for which neither the file nor `default_custom_fields` has a value',
  callback_url: 'where the ended import is sent, masked as `file_source.url` is; null for none',
  waiting_for_import_id: 'the import of the same list for which it waits; null for none',
  warnings: 'sentences about what looks like a mistake, but does not fail',
  autoresponder_id: 'the autoresponder of the mail; null for a confirmation',
  subscriber_id: 'the subscriber that it is for',
  lease_token: 'the token of the lease under which it was taken',
  reply_to: 'the address for replies; null for none',
  retry_at: 'when a failed step is tried again; null when none is',
  started_at: 'when it began; null until then',
}

/** Gives every field without a description its text from here. */
export function describeFields<T>(description: T): T {
  walk(description, [])
  return description
}

function walk(node: unknown, path: string[]): void {
  if (Array.isArray(node)) for (const entry of node) walk(entry, path)
  if (!isHash(node)) return
  for (const [key, value] of Object.entries(node)) {
    // Examples are data, even if parts of them have the form of a schema.
    if (key === 'example' || key === 'examples') continue
    if (key === 'properties') describeProperties(value, path)
    else walk(value, ['schemas', 'paths'].includes(key) ? [] : path)
  }
}

function describeProperties(properties: unknown, path: string[]): void {
  if (!isHash(properties)) return
  for (const [name, field] of Object.entries(properties)) {
    if (!isHash(field)) continue
    const fieldPath = [...path, name]
    const text = findText(fieldPath)
    if (field['description'] === undefined && text !== undefined) field['description'] = text
    walk(field, fieldPath)
  }
}

function findText(path: string[]): string | undefined {
  for (let from = 0; from < path.length; from += 1) {
    const key = path.slice(from).join('.')
    if (Object.hasOwn(fieldTexts, key)) return fieldTexts[key]
  }
  return undefined
}
