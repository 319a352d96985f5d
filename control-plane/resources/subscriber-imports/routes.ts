import { z } from 'zod'
import { RequestError } from '../../../shared/errors.ts'
import { endpoint, permission, type Endpoint } from '../../api/endpoint.ts'
import { findMailingList, refuseRemoteList } from '../../api/scope.ts'
import { importLog } from './logs.ts'
import {
  createdImportView,
  exampleCreation,
  exampleImport,
  exampleImportSummary,
  importCreation,
  importListQuery,
  importListView,
  importView,
} from './schemas.ts'
import { createImport, findImport, listImports, moveImport } from './service.ts'
import { fullView, listViews } from './view.ts'

const tag = 'Subscriber imports'

function moveEndpoint(move: 'pause' | 'unpause' | 'cancel', summary: string): Endpoint {
  return endpoint({
    method: 'post',
    path: `/subscriber_imports/:id/${move}`,
    operationId: `${move}SubscriberImport`,
    summary,
    tag,
    needs: permission('subscriber', 'import'),
    reply: { data: importView, example: exampleImport },
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
    needs: permission('subscriber', 'read'),
    query: importListQuery,
    reply: { data: z.array(importListView), paging: 'pages', example: [exampleImportSummary] },
    async handle({ deps, caller, query }) {
      const { documents, paging } = await listImports(
        deps,
        { organization_id: caller.organizationId },
        query(),
      )
      return { data: await listViews(deps, documents), paging }
    },
  }),
  endpoint({
    method: 'get',
    path: '/mailing_lists/:mailing_list_id/subscriber_imports',
    operationId: 'listSubscriberImportsOfList',
    summary: 'The same for one mailing list',
    tag,
    needs: permission('subscriber', 'read'),
    query: importListQuery,
    reply: { data: z.array(importListView), paging: 'pages', example: [exampleImportSummary] },
    async handle({ deps, caller, params, query }) {
      const list = await findMailingList(deps, caller, params['mailing_list_id'])
      refuseRemoteList(list)
      const { documents, paging } = await listImports(deps, { mailing_list_id: list._id }, query())
      return { data: await listViews(deps, documents), paging }
    },
  }),
  endpoint({
    method: 'post',
    path: '/mailing_lists/:mailing_list_id/subscriber_imports',
    operationId: 'createSubscriberImport',
    summary: 'Creates an import; it begins at once, or at `begins_at`',
    tag,
    needs: permission('subscriber', 'import'),
    headers: { 'Idempotency-Key': 'for 24 h, the same key with the same body is answered as the first time' },
    body: {
      wrapper: 'subscriber_import',
      schema: importCreation,
      stagedText: ['subscriber_import', 'file_source', 'content'],
      example: exampleCreation,
    },
    reply: { data: createdImportView, example: { ...exampleImport, state: 'scheduled', finished_at: null } },
    async handle({ deps, caller, params, headers, body, bodyHash, content }) {
      const list = await findMailingList(deps, caller, params['mailing_list_id'])
      refuseRemoteList(list)
      const idempotencyKey = readIdempotencyKey(headers['idempotency-key'])
      return {
        data: await createImport(deps, {
          caller,
          list,
          given: body(),
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
    needs: permission('subscriber', 'read'),
    reply: { data: importView, example: exampleImport },
    async handle({ deps, caller, params }) {
      return { data: await fullView(deps, await findImport(deps, caller, params['id'])) }
    },
  }),
  moveEndpoint('pause', 'Pauses an import: no row is written later than 2 s after the reply'),
  moveEndpoint('unpause', 'Lets a paused import go on from where it stood'),
  moveEndpoint('cancel', 'Ends an import for good; rows that are written stay'),
  endpoint({
    method: 'get',
    path: '/subscriber_imports/:id/logs/:kind',
    operationId: 'getSubscriberImportLog',
    summary:
      'What became of the records: `failed` is a CSV file that can be mended and imported again, every other kind a list of addresses',
    tag,
    needs: permission('subscriber', 'read'),
    reply: { contentTypes: ['text/csv', 'text/plain'], example: 'ann@example.com\nbob@example.com\n' },
    async handle({ deps, caller, params }) {
      return importLog(deps, await findImport(deps, caller, params['id']), params['kind'])
    },
  }),
]

function readIdempotencyKey(header: string | string[] | undefined): string | null {
  if (header === undefined) return null
  if (typeof header !== 'string' || header.length < 1 || header.length > 255)
    throw new RequestError('invalid_request', 'Idempotency-Key must have 1 to 255 characters, once')
  return header
}
