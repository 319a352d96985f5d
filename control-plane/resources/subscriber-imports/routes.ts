import { z } from 'zod'
import { codePoints } from '../../../shared/values/field-value.ts'
import { endpoint, permission, type Endpoint } from '../../api/endpoint.ts'
import { localListInPath } from '../../api/scope.ts'
import { listContextInPath } from './create/check.ts'
import { creationRefusals, faultyKeys } from './create/refusals.ts'
import { createImport } from './create/service.ts'
import { importEvents, readsImports } from './follow/service.ts'
import { listImports } from './list/service.ts'
import { importLog } from './log/service.ts'
import { badIdempotencyKey, noLog, refusedMoves, usedWithOtherBody, type ImportMove } from './refusals.ts'
import {
  createdImportView,
  exampleCreations,
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
import { importInPath, moveImport, namedImportInPath } from './service.ts'
import { fullView } from './view.ts'

const tag = 'Subscriber imports'

function moveEndpoint(move: ImportMove, summary: string): Endpoint {
  return endpoint({
    method: 'post',
    path: `/subscriber_imports/:id/${move}`,
    operationId: `${move}SubscriberImport`,
    summary,
    tag,
    needs: permission('subscriber', 'import'),
    reply: { data: importView, example: exampleImport },
    record: importInPath,
    refusals: Object.values(refusedMoves[move]),
    handle: async (call) => ({ data: await moveImport(call, call.record, move) }),
  })
}

/** Full views with `view=full`. */
const listed = z.array(z.union([importView, importListView]))

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
    reply: { data: listed, paging: 'pages', example: [exampleImportSummary] },
    handle: (call) => listImports(call, { organization_id: call.caller.organizationId }, call.query),
  }),
  endpoint({
    method: 'get',
    path: '/mailing_lists/:mailing_list_id/subscriber_imports',
    operationId: 'listSubscriberImportsOfList',
    summary: 'The same for one mailing list',
    tag,
    needs: readsImports,
    query: importListQuery,
    reply: { data: listed, paging: 'pages', example: [exampleImportSummary] },
    record: localListInPath,
    handle: (call) => listImports(call, { mailing_list_id: call.record._id }, call.query),
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
      inlineText: { path: ['subscriber_import', 'file_source', 'content'] },
      examples: exampleCreations,
      faulty: faultyKeys,
    },
    reply: { data: createdImportView, example: { ...exampleImport, state: 'scheduled', finished_at: null } },
    record: listContextInPath,
    refusals: [badIdempotencyKey, ...creationRefusals, usedWithOtherBody],
    handle: async ({
      deps,
      caller,
      log,
      record: listContext,
      header,
      body,
      document,
      unknownKeys,
      bodyHash: bodyDigest,
      content,
    }) => ({
      data: await createImport(deps, {
        ...{ caller, log, listContext, body, content, bodyDigest },
        sent: { document, unknownKeys: unknownKeys() },
        idempotencyKey: readIdempotencyKey(header('idempotency-key')),
      }),
    }),
  }),
  endpoint({
    method: 'get',
    path: '/subscriber_imports/:id',
    operationId: 'getSubscriberImport',
    summary: 'One import',
    tag,
    needs: readsImports,
    reply: { data: importView, example: exampleImport },
    record: namedImportInPath,
    handle: async ({ deps, record }) => ({ data: await fullView(deps, record) }),
  }),
  endpoint({
    method: 'get',
    path: '/subscriber_imports/:id/events',
    operationId: 'followSubscriberImport',
    summary:
      'Server-sent events of an import, each with the whole of it as `data`: at once, then on every change but at most one a second, the last one at once, a comment every 15 s; it ends after the last state',
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
    record: namedImportInPath,
    async handle({ deps, caller, record, header, onClose }) {
      const [lastEventId] = header('last-event-id')
      return importEvents(deps, record, { caller, lastEventId, onClose })
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
    record: importInPath,
    refusals: [noLog],
    handle: ({ deps, record, params, query: { safe, line } }) =>
      importLog(deps, record, params['kind'], { isSafe: isOn(safe), hasLines: isOn(line) }),
  }),
]

const isOn = (text: string | undefined): boolean => text === 'true' || text === '1'

function readIdempotencyKey([key, ...others]: readonly string[]): string | null {
  if (key === undefined) return null
  // Node gives a header's bytes as Latin-1.
  const length = codePoints(Buffer.from(key, 'latin1').toString())
  if (others.length > 0 || length < 1 || length > 255) throw badIdempotencyKey()
  return key
}
