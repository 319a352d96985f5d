import { z } from 'zod'
import { endpoint, orUploadsRole, permission, type Endpoint } from '../../api/endpoint.ts'
import {
  badContentRange,
  badName,
  beyondEnd,
  diskFull,
  isFolder,
  isUploadedElsewhere,
  noSuchFolder,
  noUpload,
  overQuota,
  wrongBodyLength,
  wrongLength,
  wrongStart,
} from './refusals.ts'
import { exampleFile, exampleUpload, uploadView } from './schemas.ts'
import { deleteUpload, listUploads, receiveUpload, refusalLogger, sendUpload } from './service.ts'

const tag = 'Uploads'
/** Uploading is the first half of importing. */
const needs = orUploadsRole(permission('subscriber', 'import'))
const scope = 'own_organization'

/**
 * Endpoints of one file. They exist twice: FOLDER/NAME may be one segment of the path, with its slash encoded, or two.
 */
function fileEndpoints(path: string, suffix: string): Endpoint[] {
  return [
    endpoint({
      method: 'put',
      path,
      operationId: `putUpload${suffix}`,
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
        tooLarge: overQuota.example.message,
        noSpace: diskFull.example.message,
      },
      logRefused: refusalLogger('upload'),
      slot: null,
      reply: { data: uploadView, example: exampleUpload },
      refusals: [
        badContentRange,
        wrongLength,
        wrongBodyLength,
        isUploadedElsewhere,
        wrongStart,
        badName,
        noSuchFolder,
        ...(suffix === '' ? [isFolder] : []),
      ],
      handle: async (call) => ({ data: await receiveUpload(call) }),
    }),
    endpoint({
      method: 'get',
      path,
      operationId: `getUpload${suffix}`,
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
      slot: null,
      logRefused: refusalLogger('download'),
      reply: { file: { 'application/octet-stream': { example: exampleFile } } },
      refusals: [noUpload, beyondEnd],
      handle: sendUpload,
    }),
    endpoint({
      method: 'delete',
      path,
      operationId: `deleteUpload${suffix}`,
      summary: 'Deletes a finished file, or an unfinished upload where there is no finished file of the name',
      tag,
      needs,
      scope,
      logRefused: refusalLogger('delete'),
      reply: { data: z.null(), example: null },
      refusals: [noUpload, isUploadedElsewhere],
      async handle(call) {
        await deleteUpload(call)
        return { data: null }
      },
    }),
  ]
}

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
    handle: async (call) => ({ data: await listUploads(call) }),
  }),
  ...fileEndpoints('/uploads/:filename', ''),
  ...fileEndpoints('/uploads/:folder/:filename', 'InFolder'),
]
