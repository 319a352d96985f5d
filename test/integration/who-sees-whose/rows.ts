import { importCreation, password, type Records } from './records.ts'

/**
 * Which callers each endpoint accepts, and whose records it shows, written by hand from the contract and never from
 * what the endpoints say of themselves: a wrong permission would be expected too. An endpoint without a row fails.
 * Expectations from the database would need the same filter once more.
 */
export interface Row {
  /** Admins have every permission, and a system admin may call everything. */
  needs: 'every key' | 'any key' | 'admin' | 'system admin' | string[]
  /** The kinds of the path's parameters, in their order. */
  path?: (keyof Records)[]
  /** A system admin sees all organizations where the path names none; other callers see their own. */
  systemSees?: 'all'
  /** The reply names no organization, list or record. */
  namesNothing?: true
  /** A system admin reaches no other organization either. */
  ownOnly?: true
  cases?: Case[]
}

/** A request of an admin at least, with the error code that it gets, or with fields of its data. */
export interface Case {
  what: string
  as?: string
  path?: Partial<Record<keyof Records, number | string>>
  body?: unknown
  gets: string | object
}

const mayReadImports = ['subscriber/read', 'subscriber/import']
const mayImport = ['subscriber/import']
const mayUpload = [...mayImport, 'role uploads']
const mayRead = ['subscriber/read']

/** `system` are records of organization 1: a key and a user that are more than its organization admins. */
export function rowsFor(
  own: Records,
  foreign: Records,
  system: { key: number; user: number },
): Record<string, Row> {
  const eventOf = (autoresponder_id: number, subscriber_id: number) => ({
    delivery_events: [
      {
        id: `${autoresponder_id}-${subscriber_id}`,
        type: 'delivered',
        occurred_at: '2026-06-15T12:00:00Z',
        message_id: '1',
        autoresponder_id,
        subscriber_id,
      },
    ],
  })
  const keysUnder = (prefix: '' | '/organizations/:organization_id'): Record<string, Row> => {
    const path: (keyof Records)[] = prefix === '' ? [] : ['organization']
    const ofSystem = { as: 'an admin beside the system admins', path: { organization: 1, key: system.key } }
    return {
      [`GET ${prefix}/api_keys`]: { needs: 'admin', path },
      [`POST ${prefix}/api_keys`]: {
        needs: 'admin',
        path,
        cases: [
          {
            what: 'a key of a foreign user',
            body: { api_key: { name: 'x', user_id: foreign.user } },
            gets: 'validation_failed',
          },
          {
            what: 'a key of a system admin',
            body: { api_key: { name: 'x', role: 'system_admin' } },
            gets: 'not_authorized',
          },
          {
            ...ofSystem,
            what: "a key of a system admin's user",
            body: { api_key: { name: 'x', user_id: system.user } },
            gets: 'not_authorized',
          },
          {
            what: 'a key in a foreign organization',
            body: { api_key: { name: 'x', active: false, organization_id: foreign.organization } },
            gets: { organization_id: own.organization },
          },
        ],
      },
      [`GET ${prefix}/api_keys/:id`]: { needs: 'admin', path: [...path, 'key'] },
      [`PUT ${prefix}/api_keys/:id`]: {
        needs: 'admin',
        path: [...path, 'key'],
        cases: [
          {
            what: 'handing it to a foreign user',
            body: { api_key: { user_id: foreign.user } },
            gets: 'validation_failed',
          },
          {
            what: 'making a system admin of it',
            body: { api_key: { role: 'system_admin' } },
            gets: 'not_authorized',
          },
          { ...ofSystem, what: 'that of a system admin', body: { api_key: {} }, gets: 'not_authorized' },
        ],
      },
      [`DELETE ${prefix}/api_keys/:id`]: {
        needs: 'admin',
        path: [...path, 'key'],
        cases: [{ ...ofSystem, what: 'that of a system admin', gets: 'not_authorized' }],
      },
    }
  }
  const ofSystemUser = {
    what: 'that of a system admin',
    as: 'an admin beside the system admins',
    path: { user: system.user },
    gets: 'not_authorized',
  }
  const newUser = (email: string) => ({
    full_name: own.mark,
    email,
    active: true,
    password1: password,
    password2: password,
  })
  const triggers = (id: number) => ({
    trigger: 'autoresponder_send',
    trigger_autoresponder_to_send_id: id,
  })
  const opens = (id: number) => ({ trigger: 'autoresponder_open', trigger_autoresponder_to_open_id: id })
  const clicks = (id: number) => ({
    trigger: 'autoresponder_click',
    trigger_autoresponder_to_click_id: id,
    trigger_autoresponder_to_click_on_any_url: true,
  })
  const uploaded = (filename: string) =>
    importCreation({ file_source: { type: 'upload_directory', filename } })
  const casesOfSources: Case[] = [
    ...['trigger_new', 'trigger_updated'].flatMap((key) =>
      [{ id: foreign.autoresponder }, { name: foreign.mark }].map((named) => ({
        what: `a foreign autoresponder as ${key}, by its ${Object.keys(named).join()}`,
        body: importCreation({ autoresponders: { api: { [key]: named } } }),
        gets: 'validation_failed',
      })),
    ),
    { what: 'a foreign file', body: uploaded(foreign.uploadedFile), gets: 'validation_failed' },
    { what: 'an own file', body: uploaded(own.uploadedFile), gets: {} },
    {
      what: 'a foreign field',
      body: importCreation({ column_mapping: ['email', foreign.fieldName] }),
      gets: 'validation_failed',
    },
  ]
  /** An address that only the foreign organization has, on own lists with the email or a number as primary key. */
  const byForeignEmail = (gets: Case['gets'], body?: unknown): Case[] =>
    [own.list, own.keyedList].map((list) => ({
      what: `a foreign address on list ${list}`,
      path: { list, subscriber: foreign.onlyEmail },
      body,
      gets,
    }))

  return {
    'GET /organizations': { needs: 'any key', systemSees: 'all' },
    'GET /organizations/:id': { needs: 'any key', path: ['organization'] },
    'POST /organizations': { needs: 'system admin' },
    'PUT /organizations/:id': { needs: 'system admin', path: ['organization'] },

    ...keysUnder(''),
    ...keysUnder('/organizations/:organization_id'),

    'GET /users': { needs: 'admin', systemSees: 'all' },
    'GET /organizations/:organization_id/users': { needs: 'admin', path: ['organization'] },
    'POST /users/authenticate': {
      needs: 'admin',
      cases: [
        {
          what: 'a foreign user',
          body: { user: { email: foreign.email, password } },
          gets: 'not_authorized',
        },
        { what: 'an own user', body: { user: { email: own.email, password } }, gets: { id: own.user } },
      ],
    },
    'GET /users/:id': { needs: 'admin', path: ['user'] },
    'POST /users': {
      needs: 'admin',
      cases: [
        {
          what: 'one in a foreign organization',
          body: {
            user: {
              ...newUser('new@example.com'),
              role: 'standard',
              organization_id: foreign.organization,
            },
          },
          gets: { organization_id: own.organization },
        },
        {
          what: 'a system admin',
          body: { user: { ...newUser('more@example.com'), role: 'system_admin' } },
          gets: 'not_authorized',
        },
      ],
    },
    'PUT /users/:id': {
      needs: 'admin',
      path: ['user'],
      cases: [
        ofSystemUser,
        {
          what: 'making the user a system admin',
          body: { user: { role: 'system_admin' } },
          gets: 'not_authorized',
        },
        {
          what: 'another organization',
          body: { user: { organization_id: foreign.organization } },
          gets: { organization_id: own.organization },
        },
      ],
    },
    'PUT /users/:id/reset_password_failure_lockout': {
      needs: 'admin',
      path: ['user'],
      cases: [ofSystemUser],
    },
    'DELETE /users/:id': { needs: 'admin', path: ['user'], cases: [ofSystemUser] },

    'GET /mailing_lists': { needs: 'any key' },
    'GET /organizations/:organization_id/mailing_lists': { needs: 'any key', path: ['organization'] },
    'GET /mailing_lists/:id': { needs: 'any key', path: ['list'] },
    'POST /mailing_lists': {
      needs: ['mailing_list/create'],
      cases: [
        {
          what: 'one in a foreign organization',
          body: { mailing_list: { name: `${own.mark} new`, organization_id: foreign.organization } },
          gets: { organization_id: own.organization },
        },
      ],
    },
    'PUT /mailing_lists/:id': {
      needs: ['mailing_list/update'],
      path: ['list'],
      cases: [
        {
          what: 'a foreign primary key',
          path: { list: own.emptyList },
          body: { mailing_list: { primary_key_custom_field_id: foreign.emptyListField } },
          gets: 'validation_failed',
        },
        {
          what: 'another organization',
          body: { mailing_list: { organization_id: foreign.organization } },
          gets: { organization_id: own.organization },
        },
      ],
    },

    'GET /mailing_lists/:mailing_list_id/custom_fields': { needs: 'any key', path: ['list'] },
    'POST /mailing_lists/:mailing_list_id/custom_fields': { needs: ['custom_field/create'], path: ['list'] },
    'GET /mailing_lists/:mailing_list_id/custom_fields/:id': { needs: 'any key', path: ['list', 'field'] },
    'PUT /mailing_lists/:mailing_list_id/custom_fields/:id': {
      needs: ['custom_field/update'],
      path: ['list', 'field'],
    },
    'DELETE /mailing_lists/:mailing_list_id/custom_fields/:id': {
      needs: ['custom_field/delete'],
      path: ['list', 'field'],
    },
    'GET /mailing_lists/:mailing_list_id/confirmation_forms': { needs: 'any key', path: ['list'] },
    'POST /mailing_lists/:mailing_list_id/confirmation_forms': { needs: ['web_form/create'], path: ['list'] },
    'GET /mailing_lists/:mailing_list_id/confirmation_forms/:id': {
      needs: 'any key',
      path: ['list', 'form'],
    },
    'PUT /mailing_lists/:mailing_list_id/confirmation_forms/:id': {
      needs: ['web_form/update'],
      path: ['list', 'form'],
    },
    'DELETE /mailing_lists/:mailing_list_id/confirmation_forms/:id': {
      needs: ['web_form/delete'],
      path: ['list', 'form'],
    },

    'GET /mailing_lists/:mailing_list_id/autoresponders': { needs: 'any key', path: ['list'] },
    'POST /mailing_lists/:mailing_list_id/autoresponders': {
      needs: ['autoresponder/create'],
      path: ['list'],
      cases: [
        {
          what: 'one that answers a foreign one',
          body: { autoresponder: { name: 'x', ...triggers(foreign.autoresponder) } },
          gets: 'validation_failed',
        },
        {
          what: 'one that answers the opens of a foreign one',
          body: { autoresponder: { name: 'x opens', ...opens(foreign.autoresponder) } },
          gets: 'validation_failed',
        },
        {
          what: 'one that answers the clicks of a foreign one',
          body: { autoresponder: { name: 'x clicks', ...clicks(foreign.autoresponder) } },
          gets: 'validation_failed',
        },
      ],
    },
    'GET /mailing_lists/:mailing_list_id/autoresponders/:id': {
      needs: 'any key',
      path: ['list', 'autoresponder'],
    },
    'DELETE /mailing_lists/:mailing_list_id/autoresponders/:id': {
      needs: ['autoresponder/delete'],
      path: ['list', 'autoresponder'],
    },
    'PUT /mailing_lists/:mailing_list_id/autoresponders/:id': {
      needs: ['autoresponder/update', 'autoresponder/update_state'],
      path: ['list', 'autoresponder'],
      cases: [
        {
          what: 'answering a foreign one',
          body: { autoresponder: triggers(foreign.autoresponder) },
          gets: 'validation_failed',
        },
        {
          what: 'answering the opens of a foreign one',
          body: { autoresponder: opens(foreign.autoresponder) },
          gets: 'validation_failed',
        },
        {
          what: 'answering the clicks of a foreign one',
          body: { autoresponder: clicks(foreign.autoresponder) },
          gets: 'validation_failed',
        },
        {
          what: '`paused` alone',
          as: 'autoresponder/update_state',
          body: { autoresponder: { paused: false } },
          gets: { paused: false },
        },
        {
          what: 'more than `paused`',
          as: 'autoresponder/update_state',
          body: { autoresponder: { paused: false, track_opens: false } },
          gets: 'not_authorized',
        },
      ],
    },
    'GET /mailing_lists/:mailing_list_id/autoresponders/:id/statistics': {
      needs: ['autoresponder/read_stats'],
      path: ['list', 'autoresponder'],
      namesNothing: true,
    },

    'GET /templates': { needs: 'any key' },
    'GET /mailing_lists/:mailing_list_id/templates': { needs: 'any key', path: ['list'] },
    'GET /templates/:template_id': { needs: 'any key', path: ['template'] },
    'POST /mailing_lists/:mailing_list_id/templates': {
      needs: ['campaign/template/create'],
      path: ['list'],
      cases: [
        {
          what: 'a foreign content',
          body: { campaign: { name: 'x', contents: [{ id: foreign.templateContent, text: 'x' }] } },
          gets: 'validation_failed',
        },
      ],
    },
    'DELETE /templates/:template_id': { needs: ['campaign/template/delete'], path: ['template'] },
    'PUT /templates/:template_id': {
      needs: ['campaign/template/update'],
      path: ['template'],
      cases: [
        {
          what: 'a foreign content',
          body: { campaign: { contents: [{ id: foreign.templateContent, text: 'x' }] } },
          gets: 'validation_failed',
        },
        {
          what: 'a foreign list',
          body: { campaign: { mailing_list_id: foreign.list } },
          gets: 'validation_failed',
        },
      ],
    },

    'GET /mailing_lists/:mailing_list_id/subscribers': { needs: mayRead, path: ['list'] },
    'GET /mailing_lists/:mailing_list_id/subscribers/:id_or_email': {
      needs: mayRead,
      path: ['list', 'subscriber'],
      cases: byForeignEmail('not_found'),
    },
    'POST /mailing_lists/:mailing_list_id/subscribers': {
      needs: ['subscriber/create'],
      path: ['list'],
      cases: [
        {
          what: 'a foreign confirmation form',
          body: { subscriber: { email: 'new@example.com' }, confirmation_form_id: foreign.form },
          gets: 'not_found',
        },
      ],
    },
    'PUT /mailing_lists/:mailing_list_id/subscribers/:id_or_email': {
      needs: ['subscriber/update'],
      path: ['list', 'subscriber'],
      cases: byForeignEmail('not_found', { subscriber: { status: 'unsubscribed' } }),
    },
    'POST /mailing_lists/:mailing_list_id/subscribers/:id_or_email/trigger_autoresponders': {
      needs: ['subscriber/update'],
      path: ['list', 'subscriber'],
      cases: [
        {
          what: 'a foreign autoresponder',
          body: { autoresponder_ids: [foreign.autoresponder] },
          gets: 'not_found',
        },
        ...byForeignEmail('not_found', { autoresponder_names: ['*'] }),
        { what: 'all autoresponders', body: { autoresponder_names: ['*'] }, gets: {} },
        {
          what: 'a creation by one who may only update',
          as: 'subscriber/update',
          path: { subscriber: 'new@example.com' },
          body: { autoresponder_names: ['*'], create_missing_subscriber: true },
          gets: 'not_authorized',
        },
      ],
    },
    'DELETE /mailing_lists/:mailing_list_id/subscribers/:id_or_email': {
      needs: ['subscriber/delete'],
      path: ['list', 'subscriber'],
      cases: byForeignEmail('not_found'),
    },
    'POST /subscribers/unsubscribe': {
      needs: ['subscriber/update'],
      cases: [
        {
          what: 'a foreign token',
          body: { unsubscribe: { token: foreign.unsubscribeToken } },
          gets: 'not_found',
        },
      ],
    },
    'GET /subscribers_by_email/:email': {
      needs: mayRead,
      path: ['sharedEmail'],
      cases: [{ what: 'a foreign address', path: { sharedEmail: foreign.onlyEmail }, gets: [] }],
    },
    'GET /mailing_lists/:mailing_list_id/subscribers_by_email/:email': {
      needs: mayRead,
      path: ['list', 'sharedEmail'],
      cases: [own.list, own.keyedList].map((list) => ({
        what: `a foreign address on list ${list}`,
        path: { list, sharedEmail: foreign.onlyEmail },
        gets: [],
      })),
    },
    'GET /organizations/all/subscribers_by_email/:email': {
      needs: 'system admin',
      path: ['sharedEmail'],
      systemSees: 'all',
    },
    'GET /organizations/:organization_id/subscribers_by_email/:email': {
      needs: mayRead,
      path: ['organization', 'sharedEmail'],
      cases: [{ what: 'a foreign address', path: { sharedEmail: foreign.onlyEmail }, gets: [] }],
    },

    'GET /subscriber_imports': { needs: mayReadImports },
    'GET /mailing_lists/:mailing_list_id/subscriber_imports': { needs: mayReadImports, path: ['list'] },
    'POST /mailing_lists/:mailing_list_id/subscriber_imports': {
      needs: mayImport,
      path: ['list'],
      cases: casesOfSources,
    },
    'GET /subscriber_imports/:id': { needs: mayReadImports, path: ['scheduledImport'] },
    'GET /subscriber_imports/:id/events': { needs: mayReadImports, path: ['endedImport'] },
    'POST /subscriber_imports/:id/pause': { needs: mayImport, path: ['movedImport'] },
    'POST /subscriber_imports/:id/unpause': { needs: mayImport, path: ['movedImport'] },
    'POST /subscriber_imports/:id/cancel': { needs: mayImport, path: ['movedImport'] },
    'GET /subscriber_imports/:id/logs/:kind': { needs: mayRead, path: ['endedImport', 'logKind'] },
    'POST /mailing_lists/:mailing_list_id/subscriber_imports/inspect': {
      needs: mayImport,
      path: ['list'],
      cases: casesOfSources,
    },

    'GET /uploads': { needs: mayUpload },
    'GET /uploads/:filename': { needs: mayUpload, path: ['uploadedFile'], namesNothing: true, ownOnly: true },
    'PUT /uploads/:filename': { needs: mayUpload, path: ['newFile'] },
    'DELETE /uploads/:filename': { needs: mayUpload, path: ['uploadedFile'], ownOnly: true },
    'GET /uploads/:folder/:filename': {
      needs: mayUpload,
      path: ['partnerFolder', 'uploadedFile'],
      ...{ namesNothing: true, ownOnly: true },
    },
    'PUT /uploads/:folder/:filename': { needs: mayUpload, path: ['partnerFolder', 'newFile'] },
    'DELETE /uploads/:folder/:filename': {
      needs: mayUpload,
      path: ['partnerFolder', 'uploadedFile'],
      ownOnly: true,
    },

    'GET /mailing_lists/:mailing_list_id/reactions': { needs: 'any key', path: ['list'] },
    'POST /outbox/take': {
      needs: 'admin',
      cases: [
        {
          what: 'all messages',
          body: { outbox: { limit: 1000 } },
          gets: { 0: { organization_id: own.organization } },
        },
      ],
    },
    'POST /outbox/acknowledge': {
      needs: 'admin',
      cases: [
        {
          what: 'a message that a foreign sender has',
          body: { outbox: { messages: [foreign.takenMessage] } },
          gets: { acknowledged: 0, stale: [foreign.takenMessage.id] },
        },
        {
          what: 'a message of its own',
          body: { outbox: { messages: [own.takenMessage] } },
          gets: { acknowledged: 1, stale: [] },
        },
      ],
    },
    'POST /delivery_events': {
      needs: 'admin',
      cases: [
        {
          what: "a foreign autoresponder's",
          body: eventOf(foreign.autoresponder, foreign.subscriber),
          gets: { accepted: 0, duplicates: 0, ignored: 1 },
        },
        {
          what: "an own autoresponder's to a foreign subscriber",
          body: eventOf(own.autoresponder, foreign.subscriber),
          gets: { accepted: 0, duplicates: 0, ignored: 1 },
        },
        {
          what: "an own autoresponder's",
          body: eventOf(own.autoresponder, own.subscriber),
          gets: { accepted: 1, duplicates: 0, ignored: 0 },
        },
      ],
    },

    'GET /audit_events': {
      needs: 'admin',
    },
    'GET /whoami': { needs: 'every key', namesNothing: true },
    'GET /service_state': { needs: 'any key', namesNothing: true },
    'GET /subscriber_counts': { needs: 'any key' },
    'GET /organization/:organization_id/subscriber_counts': { needs: 'any key', path: ['organization'] },
    'GET /organizations/:organization_id/subscriber_counts': { needs: 'any key', path: ['organization'] },
    'GET /jobs/all': { needs: 'any key' },
    'GET /jobs/unfinished': { needs: 'any key' },
    'GET /jobs/all_on_all_organizations': { needs: 'system admin', systemSees: 'all' },
    'GET /jobs/unfinished_on_all_organizations': { needs: 'system admin', systemSees: 'all' },
    'GET /organizations/:organization_id/jobs/all': { needs: 'any key', path: ['organization'] },
    'GET /organizations/:organization_id/jobs/unfinished': { needs: 'any key', path: ['organization'] },
  }
}
