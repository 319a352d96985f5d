import { z } from 'zod'
import { oldEndpoint as endpoint, permission } from '../../api/endpoint.ts'
import { badContentRange, wrongLength } from './ranges.ts'
import { diskFullRefusal, isUploadedElsewhere, noUpload, overQuotaRefusal } from './refusals.ts'
import { exampleFile, exampleUpload, uploadView } from './schemas.ts'
import { beyondEnd, deleteUpload, listUploads, receiveUpload, sendUpload } from './service.ts'

const tag = 'Uploads'
/** Uploading is the first half of importing. */
const needs = permission('subscriber', 'import')
const scope = 'own_organization'

export const uploadEndpoints = [
  endpoint({
    method: 'get',
    path: '/uploads',
    operationId: 'listUploads',
    summary: "The files of the organization's upload directory and its unfinished uploads, by name",
    tag,
    needs,
    scope,
    reply: { data: z.array(uploadView), example: [exampleUpload] },
    statuses: {},
    handle: async (call) => ({ data: await listUploads(call) }),
  }),
  endpoint({
    method: 'put',
    path: '/uploads/:filename',
    operationId: 'putUpload',
    summary:
      'Uploads a file of any size; it gets its name when the whole body is there and replaces a file of that name. A body that ends early leaves an unfinished upload, for 7 days',
    tag,
    needs,
    scope,
    headers: {
      'Content-Range':
        '`bytes FIRST-LAST/TOTAL`: the body has these bytes of the file. FIRST is the size of the unfinished upload, 0 without one; the file gets its name with the part whose LAST is TOTAL - 1. Without the header the body is the whole file',
    },
    file: {
      types: ['application/octet-stream', 'text/csv'],
      example: exampleFile,
      tooLarge: overQuotaRefusal({ UPLOAD_MAX_FILES: 10_000, UPLOAD_MAX_MB: 10_240 }),
      noSpace: diskFullRefusal,
    },
    hasOwnSlots: true,
    reply: { data: uploadView, example: exampleUpload },
    statuses: {
      400: [
        'invalid_request',
        badContentRange,
        wrongLength,
        'the body has fewer bytes than Content-Range says; the upload stays unfinished: resume it at byte 1500',
      ],
      409: ['validation_failed', isUploadedElsewhere('subscribers.csv')],
      416: [
        'invalid_request',
        'Content-Range: "subscribers.csv" has an unfinished upload of 1000 bytes, so it resumes at byte 1000, not 0',
      ],
      422: ['validation_failed', 'filename must be a plain file name without a path'],
    },
    handle: async (call) => ({ data: await receiveUpload(call) }),
  }),
  endpoint({
    method: 'get',
    path: '/uploads/:filename',
    operationId: 'getUpload',
    summary: 'The content of a finished file, or with `Range` a part of it',
    tag,
    needs,
    scope,
    headers: {
      Range:
        '`bytes=FIRST-LAST`, `bytes=FIRST-` or `bytes=-LENGTH`; several ranges and faulty ones are ignored',
      'If-Range':
        'the `ETag` of an earlier reply: where the file has changed since, all of it comes, as with a date',
    },
    hasOwnSlots: true,
    reply: { file: { 'application/octet-stream': { example: exampleFile } } },
    statuses: {
      404: ['not_found', noUpload('subscribers.csv')],
      416: ['invalid_request', beyondEnd('subscribers.csv', 48_213)],
    },
    handle: sendUpload,
  }),
  endpoint({
    method: 'delete',
    path: '/uploads/:filename',
    operationId: 'deleteUpload',
    summary: 'Deletes a finished file, or an unfinished upload where there is no finished file of the name',
    tag,
    needs,
    scope,
    reply: { data: z.null(), example: null },
    statuses: {
      404: ['not_found', noUpload('subscribers.csv')],
      409: ['validation_failed', isUploadedElsewhere('subscribers.csv')],
    },
    async handle(call) {
      await deleteUpload(call)
      return { data: null }
    },
  }),
]
