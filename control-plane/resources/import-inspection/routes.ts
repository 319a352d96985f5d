import { oldEndpoint as endpoint, permission } from '../../api/endpoint.ts'
import { findMailingList, refuseRemoteList, remoteListRefusal } from '../../api/scope.ts'
import { creationRefusals } from '../subscriber-imports/create/check.ts'
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
      stagedText: ['subscriber_import', 'file_source', 'content'],
      sampledBytes: maxBytes,
      example: exampleInspectionRequest,
    },
    isCostly: true,
    reply: { data: inspectionView, example: exampleInspection },
    refusals: {
      invalid_request: [remoteListRefusal],
      validation_failed: [
        ...creationRefusals,
        'file_source.filename can\'t be read: "subscribers.csv.gz" is cut off: its gzip data has no end; transfer the whole file again',
        "file_source.filename can't be read: the file is a PDF document, and imports read tables as text: convert it, save it as CSV UTF-8 and import that file",
        "file_source.url can't be read: http://127.0.0.1:8000/subscribers.csv answered with status 404, expected 200",
      ],
    },
    async handle({ deps, caller, params, body, documentAsSent, unknownKeys, sample, releaseSlot }) {
      const list = await findMailingList(deps, caller, params['mailing_list_id'])
      refuseRemoteList(list)
      const sent = { document: documentAsSent(), unknownKeys: unknownKeys() }
      return {
        data: await inspectSource(deps, { list, request: body(), sent, content: sample, releaseSlot }),
      }
    },
  }),
]
