import { endpoint, permission } from '../../api/endpoint.ts'
import { listContextInPath } from '../subscriber-imports/create/check.ts'
import { creationRefusals, faultyKeys } from '../subscriber-imports/create/refusals.ts'
import { noTable, unreadableSource } from './refusals.ts'
import { maxBytes } from './sample.ts'
import { exampleInspection, exampleInspectionRequest, inspectionRequest, inspectionView } from './schemas.ts'
import { inspectSource } from './service.ts'

export const importInspectionEndpoints = [
  endpoint({
    method: 'post',
    path: '/mailing_lists/:mailing_list_id/subscriber_imports/inspect',
    operationId: 'inspectSubscriberImport',
    summary:
      'Reads the beginning of a source (up to 1 MiB; a URL for up to 30 s): its format, a mapping of its columns, and the results that an import of its first 20 records would have. The reply can be sent to a creation as `file_format`, and its `column_mapping` too. Nothing is written',
    tag: 'Subscriber imports',
    needs: permission('subscriber', 'import'),
    body: {
      wrapper: 'subscriber_import',
      schema: inspectionRequest,
      inlineText: { path: ['subscriber_import', 'file_source', 'content'], sampledBytes: maxBytes },
      examples: { 'the beginning of a file, sent inline': exampleInspectionRequest },
      faulty: faultyKeys,
    },
    slot: 'costly',
    reply: { data: inspectionView, example: exampleInspection },
    record: listContextInPath,
    refusals: [...creationRefusals, unreadableSource.upload_directory, unreadableSource.url, noTable],
    handle: async ({
      deps,
      record: listContext,
      body: request,
      document,
      unknownKeys,
      sample: content,
      releaseSlot,
    }) => ({
      data: await inspectSource(deps, {
        ...{ listContext, request, content, releaseSlot },
        sent: { document, unknownKeys: unknownKeys() },
      }),
    }),
  }),
]
