import { z } from 'zod'
import { RequestError } from '../../api/request-error.ts'
import { codePoints } from '../../../shared/values/field-value.ts'
import { oldEndpoint as endpoint, permission, type Endpoint } from '../../api/endpoint.ts'
import { findMailingList, refuseRemoteList, remoteListRefusal } from '../../api/scope.ts'
import { creationRefusals } from './create/check.ts'
import { createImport } from './create/service.ts'
import { importEvents, readsImports } from './follow/service.ts'
import { listImports } from './list/service.ts'
import { importLog } from './log/service.ts'
import {
  createdImportView,
  exampleCreation,
  exampleFailedLog,
  exampleImport,
  exampleImportEvent,
  exampleImportSummary,
  importCreation,
  importEvent,
  importListQuery,
  importListView,
  importLogQuery,
  importView,
} from './schemas.ts'
import { findImport, moveImport, type ImportMove } from './service.ts'
import { fullView } from './view.ts'

const tag = 'Subscriber imports'

const noImport = 'there is no subscriber import 4711'

const moveRefusals = {
  pause: [
    "subscriber import 4711 can't be paused: it is cancelled, and it has ended",
    "subscriber import 4711 can't be paused: it is paused, and it must be scheduled, downloading, splitting or importing",
  ],
  unpause: [
    "subscriber import 4711 can't be unpaused: it is cancelled, and it has ended",
    "subscriber import 4711 can't be unpaused: it is scheduled, and it must be paused",
  ],
  cancel: ["subscriber import 4711 can't be cancelled: it is cancelled, and it has ended"],
}

function moveEndpoint(move: ImportMove, summary: string): Endpoint {
  return endpoint({
    method: 'post',
    path: `/subscriber_imports/:id/${move}`,
    operationId: `${move}SubscriberImport`,
    summary,
    tag,
    needs: permission('subscriber', 'import'),
    reply: { data: importView, example: exampleImport },
    refusals: { not_found: noImport, validation_failed: moveRefusals[move] },
    async handle({ deps, caller, params }) {
      const document = await findImport(deps, caller, params['id'])
      return { data: await fullView(deps, await moveImport(deps, document, move)) }
    },
  })
}

export const subscriberImportEndpoints = [
  endpoint({
    method: 'get',
    path: '/subscriber_imports',
    operationId: 'listSubscriberImports',
    summary:
      "The organization's imports: those that haven't ended, soonest first, then the ended ones, newest first",
    tag,
    needs: readsImports,
    query: importListQuery,
    reply: { data: z.array(importListView), paging: 'pages', example: [exampleImportSummary] },
    handle: (call) => listImports(call, { organization_id: call.caller.organizationId }, call.query()),
  }),
  endpoint({
    method: 'get',
    path: '/mailing_lists/:mailing_list_id/subscriber_imports',
    operationId: 'listSubscriberImportsOfList',
    summary: 'The same for one mailing list',
    tag,
    needs: readsImports,
    query: importListQuery,
    reply: { data: z.array(importListView), paging: 'pages', example: [exampleImportSummary] },
    refusals: { invalid_request: remoteListRefusal },
    async handle(call) {
      const list = await findMailingList(call.deps, call.caller, call.params['mailing_list_id'])
      refuseRemoteList(list)
      return listImports(call, { mailing_list_id: list._id }, call.query())
    },
  }),
  endpoint({
    method: 'post',
    path: '/mailing_lists/:mailing_list_id/subscriber_imports',
    operationId: 'createSubscriberImport',
    summary: 'Creates an import; it begins at once, or at `begins_at`',
    tag,
    needs: permission('subscriber', 'import'),
    headers: {
      'Idempotency-Key':
        '1 to 255 characters; for 24 h, a request that repeats it with the same API key, list and body gets the reply to the first one that succeeded, and makes no second import; a refusal is not remembered',
    },
    body: {
      wrapper: 'subscriber_import',
      hasWarnings: true,
      schema: importCreation,
      stagedText: ['subscriber_import', 'file_source', 'content'],
      example: exampleCreation,
    },
    reply: { data: createdImportView, example: { ...exampleImport, state: 'scheduled', finished_at: null } },
    refusals: {
      invalid_request: [remoteListRefusal, 'Idempotency-Key must have 1 to 255 characters, once'],
      validation_failed: [
        ...creationRefusals,
        'Idempotency-Key was used with another body for import 4711: give each import a key of its own',
      ],
    },
    async handle({ deps, caller, params, header, body, documentAsSent, unknownKeys, bodyHash, content }) {
      const list = await findMailingList(deps, caller, params['mailing_list_id'])
      refuseRemoteList(list)
      const idempotencyKey = readIdempotencyKey(header('idempotency-key'))
      return {
        data: await createImport(deps, {
          caller,
          list,
          body: body(),
          sent: { document: documentAsSent(), unknownKeys: unknownKeys() },
          content,
          bodyDigest: bodyHash,
          idempotencyKey,
        }),
      }
    },
  }),
  endpoint({
    method: 'get',
    path: '/subscriber_imports/:id',
    operationId: 'getSubscriberImport',
    summary: 'One import',
    tag,
    needs: readsImports,
    reply: { data: importView, example: exampleImport },
    refusals: { not_found: noImport },
    async handle({ deps, caller, params }) {
      return { data: await fullView(deps, await findImport(deps, caller, params['id'])) }
    },
  }),
  endpoint({
    method: 'get',
    path: '/subscriber_imports/:id/events',
    operationId: 'followSubscriberImport',
    summary:
      'Server-sent events of an import, each with the whole of it as `data`: at once, then on every change but at most one a second, a comment every 15 s; it ends after the last state',
    tag,
    needs: readsImports,
    headers: {
      'Last-Event-ID':
        'the id of the last event that came; where the import has ended and not changed since, the reply is a 204',
    },
    reply: {
      texts: { 'text/event-stream': { schema: importEvent, example: exampleImportEvent } },
      nothing: 'The import has ended and `Last-Event-ID` is its last event: do not reconnect',
    },
    refusals: { not_found: noImport },
    async handle({ deps, caller, params, header, onClose }) {
      const document = await findImport(deps, caller, params['id'])
      const [lastEventId] = header('last-event-id')
      return importEvents(deps, document, { caller, lastEventId, onClose })
    },
  }),
  moveEndpoint('pause', 'Pauses an import: no row is written after the reply'),
  moveEndpoint('unpause', 'Resumes a paused import where it stopped'),
  moveEndpoint(
    'cancel',
    'Ends an import for good; rows that are written stay. No row is written after the reply',
  ),
  endpoint({
    method: 'get',
    path: '/subscriber_imports/:id/logs/:kind',
    operationId: 'getSubscriberImportLog',
    summary:
      'Results of the records: `failed` is a CSV file that can be corrected and imported again, every other kind a list of addresses',
    tag,
    needs: permission('subscriber', 'read'),
    reply: {
      texts: {
        'text/csv': { example: exampleFailedLog },
        'text/plain': { example: 'ann@example.com\nbob@example.com\n' },
      },
    },
    query: importLogQuery,
    refusals: { not_found: [noImport, 'subscriber import 4711 has no log failed'] },
    async handle({ deps, caller, params, query }) {
      const document = await findImport(deps, caller, params['id'])
      const { safe, line } = query()
      return importLog(deps, document, params['kind'], { isSafe: isOn(safe), hasLines: isOn(line) })
    },
  }),
]

const isOn = (text: string | undefined): boolean => text === 'true' || text === '1'

function readIdempotencyKey([key, ...others]: readonly string[]): string | null {
  if (key === undefined) return null
  // Node gives a header's bytes as Latin-1.
  const length = codePoints(Buffer.from(key, 'latin1').toString())
  if (others.length > 0 || length < 1 || length > 255)
    throw new RequestError('invalid_request', 'Idempotency-Key must have 1 to 255 characters, once')
  return key
}
