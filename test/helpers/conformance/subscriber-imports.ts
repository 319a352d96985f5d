import { randomBytes } from 'node:crypto'
import type { Refusal } from '../../../control-plane/api/refusal.ts'
import { RequestError } from '../../../control-plane/api/request-error.ts'
import {
  badCallback,
  faultyAutoresponder,
  faultyDefaults,
  faultyMapping,
  faultySource,
  wrongBeginning,
} from '../../../control-plane/resources/subscriber-imports/create/refusals.ts'
import {
  badIdempotencyKey,
  importOverQuota,
  noSpaceRefusal,
  refusedMoves,
  usedWithOtherBody,
} from '../../../control-plane/resources/subscriber-imports/refusals.ts'
import type { ImportState } from '../../../shared/contract/import-state.ts'
import { autoresponder } from '../autoresponder.ts'
import { until, type Json } from '../service.ts'
import { onRemoteList, type Row, type Rows } from './row.ts'
import type { World } from './world.ts'

const wrongState = new RequestError(
  'invalid_request',
  'state must be one or more of scheduled, downloading, splitting, importing, paused, finished, failed, cancelled, separated by commas',
)
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

const cancelled = (world: World): Promise<Json> => moved(world, 'cancel')
const paused = (world: World): Promise<Json> => moved(world, 'pause')

async function finished(world: World): Promise<Json> {
  const { id } = await newImport(world, { begins_at: 'now' })
  const view = async () =>
    (await world.service.call('GET', `/subscriber_imports/${id}`, undefined, { key: world.admin })).body.data
  return until(`the end of import ${id}`, view, ({ state }: Json) => state === 'finished')
}

const refusedMove =
  (
    make: (world: World) => Promise<Json>,
    refused: Refusal<[number, ImportState]>,
    state: ImportState,
  ): NonNullable<Row['refusals']>[number] =>
  async (world) => {
    const { id } = await make(world)
    return { sent: { params: { id } }, refused: refused(id, state) }
  }

export const creation = (more: Record<string, unknown>) => ({
  subscriber_import: {
    begins_at: later,
    column_mapping: ['email'],
    file_source: { type: 'json', content: 'email\nann@example.com\n' },
    ...more,
  },
})

const fileSource = (more: Record<string, unknown>) => ({ file_source: more })
const named = (filename: string) => fileSource({ type: 'upload_directory', filename })
const at = (url: string) => fileSource({ type: 'url', url })

const privateAddress = (address: string): string =>
  `can't be used: ${address} is no public address and is refused; an operator may allow it with URL_IMPORT_ALLOW`
const { badFileName, badUrl } = faultySource

/** Fields that a creation refuses, on a list with the number `Number`. */
const faulty: [more: Record<string, unknown>, refused: RequestError][] = [
  [{ column_mapping: [null] }, faultyMapping.noEmail()],
  [{ column_mapping: ['email', 'Nothing'] }, faultyMapping.unknownColumn(1, 'Nothing')],
  [{ column_mapping: ['email', 'email'] }, faultyMapping.mappedTwice(1, 'email')],
  [{ column_mapping: ['email', 'status', 'consent'] }, faultyMapping.consentBesideStatus(2)],
  [{ column_mapping: ['email', 'confirmed'] }, faultyMapping.needsConfirmed(1, 'confirmed')],
  [{ column_mapping: ['email', 'email_format'] }, faultyMapping.needsFormat(1)],
  [{ default_custom_fields: { Nothing: 'x' } }, faultyDefaults.noSuchField('Nothing')],
  [{ default_custom_fields: { Number: 'x' } }, faultyDefaults.badValue('Number', 'an integer')],
  [{ default_custom_fields: { Number: 'x'.repeat(262_144) } }, faultyDefaults.tooLarge()],
  [
    { autoresponders: { api: { trigger_new: { id: 999_999 } } } },
    faultyAutoresponder.missing('trigger_new', '999999'),
  ],
  [{ begins_at: '2030-01-31' }, wrongBeginning()],
  [fileSource({ type: 'json' }), faultySource.noContent()],
  [fileSource({ type: 'json', content: ' \n' }), faultySource.blankContent()],
  [fileSource({ type: 'upload_directory' }), badFileName('is required')],
  [named(''), badFileName('must not be blank')],
  [named('../2/x.csv'), badFileName('must be a plain file name without a path')],
  [named('a\nb'), badFileName('must not hold control characters')],
  [named('x'.repeat(201)), badFileName('must not be longer than 200 bytes')],
  [named('nothing.csv'), faultySource.noSuchUpload('nothing.csv')],
  [fileSource({ type: 'url' }), badUrl('is required')],
  [at('gopher://example.com/x'), badUrl('must be a URL that begins with http://, https://, ftp://, ftps://')],
  [at('ftp://example.com/%zz'), badUrl('has a % that no two hexadecimal digits follow')],
  [at('http://169.254.169.254/latest/meta-data'), badUrl(privateAddress('169.254.169.254'))],
  [{ callback_url: 'ftp://example.com/x' }, badCallback('must be a URL that begins with http://, https://')],
  [{ callback_url: 'http://10.0.0.7/' }, badCallback(privateAddress('10.0.0.7'))],
]

/** Provokes the refusals of a creation and an inspection. */
export const refusedCreations: NonNullable<Row['refusals']> = [
  onRemoteList({ body: creation({}) }),
  ...faulty.map(([more, refused]) => async ({ list }: World) => {
    const { id } = await list({ fields: [{ name: 'Number', field_type: 'number' }] })
    return { sent: { params: { mailing_list_id: id }, body: creation(more) }, refused }
  }),
  async (world) => {
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
      refused: faultyMapping.noPrimaryKey('Number'),
    }
  },
  async (world) => {
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
      refused: faultyAutoresponder.otherTrigger('trigger_new', String(document._id), 'subscription'),
    }
  },
]

export const subscriberImportRows: Rows = {
  listSubscriberImports: {
    good: async (world) => {
      await newImport(world)
      return { query: '?scope=all&per_page=5' }
    },
    refusals: [() => Promise.resolve({ sent: { query: '?state=gone' }, refused: wrongState })],
  },
  listSubscriberImportsOfList: {
    good: async ({ list }) => ({ params: { mailing_list_id: (await list()).id } }),
    refusals: [
      onRemoteList(),
      async ({ list }) => ({
        sent: { params: { mailing_list_id: (await list()).id }, query: '?state=finished,gone' },
        refused: wrongState,
      }),
    ],
  },
  createSubscriberImport: {
    good: async ({ list }) => ({
      params: { mailing_list_id: (await list()).id },
      headers: { 'idempotency-key': 'conformance' },
      body: creation({}),
    }),
    refusals: [
      ...refusedCreations,
      async (world) => ({
        sent: {
          params: { mailing_list_id: (await world.list()).id },
          // Random bytes, which compress badly.
          body: creation({
            file_source: { type: 'json', content: `email\n${randomBytes(1_500_000).toString('base64')}` },
          }),
        },
        refused: importOverQuota(1),
        settings: { UPLOAD_MAX_MB: '1' },
      }),
      async (world) => ({
        sent: { params: { mailing_list_id: (await world.list()).id }, body: creation({}) },
        refused: new RequestError('internal_error', noSpaceRefusal, { status: 507 }),
        settings: { DISK_RESERVE_MB: '1000000000' },
      }),
      async (world) => {
        const { id } = await world.list()
        const headers = { 'idempotency-key': world.unique('key') }
        const path = `/mailing_lists/${id}/subscriber_imports`
        const first = await world.service.call('POST', path, creation({}), { key: world.admin, headers })
        return {
          sent: {
            key: world.admin,
            params: { mailing_list_id: id },
            headers,
            body: creation({ overwrite: true }),
          },
          refused: usedWithOtherBody(first.body.data.id),
        }
      },
      ...['k'.repeat(256), ''].map((key) => async ({ list }: World) => ({
        sent: {
          params: { mailing_list_id: (await list()).id },
          headers: { 'idempotency-key': key },
          body: creation({}),
        },
        refused: badIdempotencyKey(),
      })),
    ],
  },
  getSubscriberImport: { good: async (world) => ({ params: { id: (await newImport(world)).id } }) },
  followSubscriberImport: { good: async (world) => ({ params: { id: (await cancelled(world)).id } }) },
  pauseSubscriberImport: {
    good: async (world) => ({ params: { id: (await newImport(world)).id } }),
    refusals: [
      refusedMove(cancelled, refusedMoves.pause.ended, 'cancelled'),
      refusedMove(paused, refusedMoves.pause.otherState, 'paused'),
    ],
  },
  unpauseSubscriberImport: {
    good: async (world) => ({ params: { id: (await paused(world)).id } }),
    refusals: [
      refusedMove(newImport, refusedMoves.unpause.otherState, 'scheduled'),
      refusedMove(cancelled, refusedMoves.unpause.ended, 'cancelled'),
    ],
  },
  cancelSubscriberImport: {
    good: async (world) => ({ params: { id: (await newImport(world)).id } }),
    refusals: [refusedMove(cancelled, refusedMoves.cancel.ended, 'cancelled')],
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
