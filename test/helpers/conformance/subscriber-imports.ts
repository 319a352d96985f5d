import { randomBytes } from 'node:crypto'
import { autoresponder } from '../autoresponder.ts'
import { until, type Json } from '../service.ts'
import type { Row, Rows } from './row.ts'
import type { World } from './world.ts'

const later = '2030-01-31T08:00:00Z'

async function newImport(world: World, options: Record<string, unknown> = {}): Promise<Json> {
  const { id } = await world.list()
  return world.post(`/mailing_lists/${id}/subscriber_imports`, {
    subscriber_import: {
      begins_at: later,
      column_mapping: ['email'],
      file_source: { type: 'json', content: 'email\nann@example.com\n' },
      ...options,
    },
  })
}

async function moved(world: World, move: string): Promise<Json> {
  return world.post(`/subscriber_imports/${(await newImport(world)).id}/${move}`)
}

async function finished(world: World): Promise<Json> {
  const { id } = await newImport(world, { begins_at: 'now' })
  const view = async () =>
    (await world.service.call('GET', `/subscriber_imports/${id}`, undefined, { key: world.admin })).body.data
  return until(`the end of import ${id}`, view, ({ state }: Json) => state === 'finished')
}

const refusedMove = (make: (world: World) => Promise<Json>): NonNullable<Row['failures']>[string] => {
  return async (world) => ({
    sent: { params: { id: (await make(world)).id } },
    code: 'validation_failed',
    message: /^subscriber import \d+ can't be/,
  })
}

export const creation = (more: Record<string, unknown>) => ({
  subscriber_import: {
    begins_at: later,
    column_mapping: ['email'],
    file_source: { type: 'json', content: 'email\nann@example.com\n' },
    ...more,
  },
})

const refusedCreation = (
  more: Record<string, unknown>,
  message: RegExp,
): NonNullable<Row['failures']>[string] => {
  return async ({ list }) => ({
    sent: {
      params: {
        mailing_list_id: (await list({ fields: [{ name: 'Number', field_type: 'number' }] })).id,
      },
      body: creation(more),
    },
    code: 'validation_failed',
    message,
  })
}

export const onRemoteList = (body?: unknown): NonNullable<Row['failures']>[string] => {
  return async ({ list }) => ({
    sent: {
      params: { mailing_list_id: (await list({ list: { is_remote_list: true } })).id },
      ...(body === undefined ? {} : { body }),
    },
    code: 'invalid_request',
    message: /Remote List/,
  })
}

const fileSource = (more: Record<string, unknown>) => ({ file_source: more })
const named = (filename: string) => fileSource({ type: 'upload_directory', filename })
const at = (url: string) => fileSource({ type: 'url', url })

/** Fields that a creation refuses, on a list with the number `Number`. */
const faulty: Record<string, [more: Record<string, unknown>, message: RegExp]> = {
  'no email column': [{ column_mapping: [null] }, /^column_mapping must hold email/],
  'a column that is none': [{ column_mapping: ['email', 'Nothing'] }, /^column_mapping\.1 .* is neither/],
  'a column twice': [{ column_mapping: ['email', 'email'] }, /^column_mapping\.1 .* twice/],
  'consent beside a status': [
    { column_mapping: ['email', 'status', 'consent'] },
    /^column_mapping\.2 consent can't be mapped beside status/,
  ],
  'a confirmation that the list has not': [
    { column_mapping: ['email', 'confirmed'] },
    /confirmed needs a list/,
  ],
  'a format that the list has not': [
    { column_mapping: ['email', 'email_format'] },
    /email_format needs a list/,
  ],
  'a default of a field that is none': [
    { default_custom_fields: { Nothing: 'x' } },
    /^default_custom_fields\.Nothing is no/,
  ],
  'a default that the field refuses': [
    { default_custom_fields: { Number: 'x' } },
    /^default_custom_fields\.Number must be/,
  ],
  'large defaults': [
    { default_custom_fields: { Number: 'x'.repeat(262_144) } },
    /^default_custom_fields must have at most 262144 bytes/,
  ],
  'an autoresponder without id and name': [
    { autoresponders: { api: { trigger_new: {} } } },
    /must have the key id or name$/,
  ],
  'an autoresponder that is none': [
    { autoresponders: { api: { trigger_new: { id: 999_999 } } } },
    /is no autoresponder of the list$/,
  ],
  'a date alone': [{ begins_at: '2030-01-31' }, /^begins_at/],
  'a type that is none': [fileSource({ type: 'ftp' }), /^file_source\.type/],
  'no content': [fileSource({ type: 'json' }), /content is required$/],
  'blank content': [fileSource({ type: 'json', content: ' \n' }), /content must not be blank$/],
  'no file name': [fileSource({ type: 'upload_directory' }), /filename is required$/],
  'a blank file name': [named(''), /filename must not be blank$/],
  'a name out of the directory': [named('../2/x.csv'), /without a path$/],
  'control characters in a file name': [named('a\nb'), /control characters$/],
  'the name of an upload in progress': [named('.unfinished-0123456789abcdef'), /as uploads in progress do$/],
  'a long file name': [named('x'.repeat(201)), /200 bytes$/],
  'a file that is not there': [named('nothing.csv'), /"nothing\.csv" is not in the upload directory$/],
  'no URL': [fileSource({ type: 'url' }), /url is required$/],
  'a URL of another scheme': [at('gopher://example.com/x'), /^file_source\.url must be a URL/],
  'a URL with half an escape': [at('ftp://example.com/%zz'), /hexadecimal/],
  'a private address': [at('http://169.254.169.254/latest/meta-data'), /^file_source\.url can't be used/],
  'a callback of another scheme': [{ callback_url: 'ftp://example.com/x' }, /^callback_url must be a URL/],
  'a callback to a private address': [{ callback_url: 'http://10.0.0.7/' }, /^callback_url can't be used/],
}

/** The refusals of a creation and an inspection. */
export const creationFailures: NonNullable<Row['failures']> = {
  ...Object.fromEntries(
    Object.entries(faulty).map(([title, [more, message]]) => [title, refusedCreation(more, message)]),
  ),
  'a mapping without the primary key': async (world) => {
    const { id } = await world.list({
      fields: [{ name: 'Number', field_type: 'number', required: true }],
    })
    const fields = await world.service.call('GET', `/mailing_lists/${id}/custom_fields`, undefined, {
      key: world.admin,
    })
    const change = { primary_key_custom_field_id: fields.body.data[0].id }
    await world.service.call('PUT', `/mailing_lists/${id}`, { mailing_list: change }, { key: world.admin })
    return {
      sent: { params: { mailing_list_id: id }, body: creation({}) },
      code: 'validation_failed',
      message: /primary key of the list$/,
    }
  },
  'an autoresponder of another type': async (world) => {
    const { id } = await world.list()
    const document = autoresponder({
      _id: 4_000_000 + Number(id),
      mailing_list_id: id,
      name: 'Welcome',
      trigger: 'subscription',
    })
    await world.service.collections.autoresponders.insertOne(document)
    const api = { trigger_new: { id: document._id } }
    return {
      sent: { params: { mailing_list_id: id }, body: creation({ autoresponders: { api } }) },
      code: 'validation_failed',
      message: /not by the API$/,
    }
  },
}

export const subscriberImportRows: Rows = {
  listSubscriberImports: {
    good: async (world) => {
      await newImport(world)
      return { query: '?scope=all&per_page=5' }
    },
  },
  listSubscriberImportsOfList: {
    good: async ({ list }) => ({ params: { mailing_list_id: (await list()).id } }),
    failures: { 'a Remote List': onRemoteList() },
  },
  createSubscriberImport: {
    good: async ({ list }) => ({
      params: { mailing_list_id: (await list()).id },
      headers: { 'idempotency-key': 'conformance' },
      body: creation({}),
    }),
    failures: {
      'a Remote List': onRemoteList(creation({})),
      ...creationFailures,
      'content that passes the quota': async (world) => ({
        sent: {
          params: { mailing_list_id: (await world.list()).id },
          // Random bytes, which compress badly.
          body: creation({
            file_source: { type: 'json', content: `email\n${randomBytes(1_500_000).toString('base64')}` },
          }),
        },
        code: 'invalid_request',
        status: 413,
        message: /quota of 1 MB/,
        settings: { UPLOAD_MAX_MB: '1' },
      }),
      'content for which the disk has no space': async (world) => ({
        sent: { params: { mailing_list_id: (await world.list()).id }, body: creation({}) },
        code: 'internal_error',
        status: 507,
        message: /too little space/,
        settings: { DISK_RESERVE_MB: '1000000000' },
      }),
      'the same Idempotency-Key with another body': async (world) => {
        const { id } = await world.list()
        const headers = { 'idempotency-key': world.unique('key') }
        const path = `/mailing_lists/${id}/subscriber_imports`
        await world.service.call('POST', path, creation({}), { key: world.admin, headers })
        return {
          sent: {
            key: world.admin,
            params: { mailing_list_id: id },
            headers,
            body: creation({ overwrite: true }),
          },
          code: 'validation_failed',
          message: /^Idempotency-Key/,
        }
      },
      'an Idempotency-Key that is too long': async ({ list }) => ({
        sent: {
          params: { mailing_list_id: (await list()).id },
          headers: { 'idempotency-key': 'k'.repeat(256) },
          body: creation({}),
        },
        code: 'invalid_request',
        message: /^Idempotency-Key/,
      }),
      'an Idempotency-Key without a character': async ({ list }) => ({
        sent: {
          params: { mailing_list_id: (await list()).id },
          headers: { 'idempotency-key': '' },
          body: creation({}),
        },
        code: 'invalid_request',
        message: /^Idempotency-Key/,
      }),
    },
  },
  getSubscriberImport: { good: async (world) => ({ params: { id: (await newImport(world)).id } }) },
  followSubscriberImport: { good: async (world) => ({ params: { id: (await moved(world, 'cancel')).id } }) },
  pauseSubscriberImport: {
    good: async (world) => ({ params: { id: (await newImport(world)).id } }),
    failures: {
      'a cancelled one': refusedMove((world) => moved(world, 'cancel')),
      'a paused one': refusedMove((world) => moved(world, 'pause')),
    },
  },
  unpauseSubscriberImport: {
    good: async (world) => ({ params: { id: (await moved(world, 'pause')).id } }),
    failures: {
      'one that is not paused': refusedMove((world) => newImport(world)),
      'a cancelled one': refusedMove((world) => moved(world, 'cancel')),
    },
  },
  cancelSubscriberImport: {
    good: async (world) => ({ params: { id: (await newImport(world)).id } }),
    failures: { 'a cancelled one': refusedMove((world) => moved(world, 'cancel')) },
  },
  getSubscriberImportLog: {
    good: async (world) => ({
      params: { id: (await finished(world)).id, kind: 'added' },
      query: '?safe=0',
    }),
    otherParams: {
      kind: [
        { value: 'nothing', code: 'not_found' },
        { value: 'failed', code: 'not_found' },
        { value: '__proto__', code: 'not_found' },
      ],
    },
  },
}
