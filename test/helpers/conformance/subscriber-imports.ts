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

const creation = (more: Record<string, unknown>) => ({
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
    sent: { params: { mailing_list_id: (await list()).id }, body: creation(more) },
    code: 'validation_failed',
    message,
  })
}

const onRemoteList = (body?: unknown): NonNullable<Row['failures']>[string] => {
  return async ({ list }) => ({
    sent: {
      params: { mailing_list_id: (await list({ list: { is_remote_list: true } })).id },
      ...(body === undefined ? {} : { body }),
    },
    code: 'invalid_request',
    message: /Remote List/,
  })
}

export const subscriberImportRows: Rows = {
  listSubscriberImports: { good: () => ({ query: '?scope=all&per_page=5' }) },
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
      'no email column': refusedCreation({ column_mapping: [null] }, /^column_mapping/),
      'a column that is none': refusedCreation(
        { column_mapping: ['email', 'Nothing'] },
        /^column_mapping\.1/,
      ),
      'a default of a field that is none': refusedCreation(
        { default_custom_fields: { Nothing: 'x' } },
        /^default_custom_fields/,
      ),
      'empty content': refusedCreation({ file_source: { type: 'json', content: ' \n' } }, /content/),
      'a file that is not there': refusedCreation(
        { file_source: { type: 'upload_directory', filename: 'nothing.csv' } },
        /nothing\.csv.* is not in the upload directory/,
      ),
      'a name out of the directory': refusedCreation(
        { file_source: { type: 'upload_directory', filename: '../2/x.csv' } },
        /filename/,
      ),
      'a private address': refusedCreation(
        { file_source: { type: 'url', url: 'http://169.254.169.254/latest/meta-data' } },
        /url/,
      ),
      'a date alone': refusedCreation({ begins_at: '2030-01-31' }, /^begins_at/),
      'an autoresponder that is none': refusedCreation(
        { autoresponders: { api: { trigger_new: { id: 999_999 } } } },
        /^autoresponders/,
      ),
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
    },
  },
  getSubscriberImport: { good: async (world) => ({ params: { id: (await newImport(world)).id } }) },
  pauseSubscriberImport: {
    good: async (world) => ({ params: { id: (await newImport(world)).id } }),
    failures: { 'a cancelled one': refusedMove((world) => moved(world, 'cancel')) },
  },
  unpauseSubscriberImport: {
    good: async (world) => ({ params: { id: (await moved(world, 'pause')).id } }),
    failures: { 'one that is not paused': refusedMove((world) => newImport(world)) },
  },
  cancelSubscriberImport: {
    good: async (world) => ({ params: { id: (await newImport(world)).id } }),
    failures: { 'a cancelled one': refusedMove((world) => moved(world, 'cancel')) },
  },
  getSubscriberImportLog: {
    good: async (world) => ({ params: { id: (await finished(world)).id, kind: 'added' } }),
    otherParams: {
      kind: [
        { value: 'nothing', code: 'not_found' },
        { value: 'failed', code: 'not_found' },
        { value: '__proto__', code: 'not_found' },
      ],
    },
  },
}
