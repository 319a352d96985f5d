import { z } from 'zod'
import type { ZodOpenApiOperationObject } from 'zod-openapi'
import { requestErrorCodes, type RequestError, type RequestErrorCode } from '../api/request-error.ts'
import { describeNeed, lacksNeed } from '../api/authorization.ts'
import { maxPageBytes } from '../api/json-page.ts'
import { notAFile, notJson, tooLarge } from '../api/body/body-pieces.ts'
import { allElseTooLarge } from '../api/body/parse-body.ts'
import { largerHint } from '../api/body/read-body.ts'
import { folderRefusal, internalErrorMessage } from '../api/envelope.ts'
import type { Endpoint, TextDescription } from '../api/endpoint.ts'
import { STATUS_CODES } from '../../shared/runtime/node-http.ts'
import { binaryMegabyte } from '../../shared/values/byte-sizes.ts'
import { otherSiteRefusal } from '../middleware/other-sites.ts'
import { importOverQuota, noSpaceRefusal, tooManyImports } from '../resources/subscriber-imports/refusals.ts'
import { documentedRefusals } from './refusals.ts'

/** The replies in the API description: an endpoint's own reply and refusals, and the refusals of every endpoint. */

const failure = z
  .object({
    success: z.literal(false).describe('false: nothing was changed'),
    data: z.null().describe('always null'),
    error_code: z.enum(requestErrorCodes).describe('the kind of the refusal'),
    error_message: z
      .string()
      .describe('names what is wrong, one sentence each, joined with "; " when there are several'),
  })
  .meta({ id: 'Failure', description: 'The form of every refusal, with any status' })

const pages = {
  page: z.int().min(0).optional().describe('number of the page, from 0; missing where page_token was given'),
  per_page: z.int().min(1).describe('records on a page, after the maximum was applied'),
  num_records: z.int().min(0).describe('records in all'),
  num_pages: z.int().min(0).describe('pages in all'),
  next_page_token: z
    .string()
    .nullable()
    .describe(
      `send it as page_token to get what follows; null when nothing does. A page that would exceed ${maxPageBytes} bytes ends earlier, and its token continues there`,
    ),
}
const tokens = {
  ...pages,
  num_records: pages.num_records.nullable(),
  num_pages: pages.num_pages.nullable(),
}
const pagingKeys = { pages, tokens, whole: { next_page_token: pages.next_page_token } }

/** Each example is named by its code and the beginning of its message. */
const toExamples = (refusals: readonly Pick<RequestError, 'code' | 'message'>[]) =>
  Object.fromEntries(
    refusals.map(({ code, message }) => {
      const value = { success: false, data: null, error_code: code, error_message: message }
      const begin = message.length > maxShownMessage ? `${message.slice(0, maxShownMessage)}…` : message
      return [`${code}: ${begin}`, { value }]
    }),
  )

const maxShownMessage = 80

const refusal = (description: string, code: RequestErrorCode, ...messages: string[]) => ({
  description,
  content: {
    'application/json': {
      schema: failure,
      examples: toExamples(messages.map((message) => ({ code, message }))),
    },
  },
})

const refusalForNow = (...texts: Parameters<typeof refusal>) => ({
  ...refusal(...texts),
  headers: z.object({ 'Retry-After': z.string().describe('seconds after which to try again') }),
})

export function responses(described: Endpoint): ZodOpenApiOperationObject['responses'] {
  const { reply, needs, body, file } = described
  const refusals = documentedRefusals(described)
  const forbids = [
    ...refusals.filter(({ status }) => status === 403).map(({ message }) => message),
    ...(described.method === 'post' ? [otherSiteRefusal] : []),
  ]
  const isStaged = body?.inlineText !== undefined && body.inlineText.sampledBytes === undefined
  return {
    '200': 'data' in reply ? envelopedReply(reply, refusals) : streamedReply(reply, refusals),
    ...('file' in reply
      ? { '206': { description: 'The range that was asked for', content: textContents(reply.file) } }
      : {}),
    ...Object.fromEntries(
      [...Map.groupBy(refusals, ({ status }) => status)]
        .filter(([status]) => status !== 200 && status !== 403)
        .map(([status, [first, ...others]]) => [
          status,
          refusal(
            STATUS_CODES[status] ?? String(status),
            first!.code,
            ...[first!, ...others].map(({ message }) => message),
          ),
        ]),
    ),
    ...('nothing' in reply ? { '204': { description: reply.nothing } } : {}),
    '401': {
      ...refusal(
        'The API key is missing or wrong',
        'not_authorized',
        'the API key is wrong or no longer active',
        'an Authorization header with an API key is required',
      ),
      headers: z.object({ 'WWW-Authenticate': z.string().describe('Basic realm="svc"') }),
    },
    ...(needs === 'every_key' && forbids.length === 0
      ? {}
      : {
          '403': refusal(
            `The caller lacks ${describeNeed(needs)}${forbids.length === 0 ? '' : ', or the permission that this request needs beside'}`,
            'not_authorized',
            lacksNeed(needs).example.message,
            ...forbids,
          ),
        }),
    ...(body === undefined
      ? {}
      : {
          '413': refusal(
            isStaged ? "The body is too large, or the organization's quota is full" : 'The body is too large',
            'invalid_request',
            ...(body.inlineText === undefined
              ? [tooLarge(binaryMegabyte).message]
              : [
                  tooLarge(16 * binaryMegabyte, largerHint).message,
                  allElseTooLarge(body.inlineText.path).message,
                ]),
            ...(isStaged ? [importOverQuota.example.message] : []),
          ),
          '415': refusal(
            'The body is not sent as JSON in UTF-8',
            'invalid_request',
            notJson('application/x-www-form-urlencoded'),
            'the body must be JSON in UTF-8, plain or with Content-Encoding gzip, deflate, br or zstd',
          ),
        }),
    ...(file === undefined
      ? {}
      : {
          '413': refusal("The organization's upload directory is full", 'invalid_request', file.tooLarge),
          '415': refusal('The body is not the file itself', 'invalid_request', notAFile),
          '507': refusalForNow('The disk of the uploads is full', 'internal_error', file.noSpace),
        }),
    '429': refusalForNow(
      'Too many wrong credentials came from this address, or too many requests with this key; too many requests of the organization wait for a slot: 1,000 of a kind, 100 costly ones, 500 with bodies above 4 KiB, 50 with replies above 256 KiB, 500 that send or receive files, 200 that check or set passwords; where imports are created, the organization has too many unfinished ones',
      'not_authorized',
      'too many wrong credentials came from this address: try again in 42 s',
      ...(isStaged ? [tooManyImports.example.message] : []),
    ),
    '500': refusal(
      'A fault of the service; the message has the id of the request, under which the log has the details',
      'internal_error',
      internalErrorMessage('7f0c'),
    ),
    '503': refusalForNow(
      "The database, or the folder where files are kept, can't be reached, too many requests write the same records, a request has waited too long for a slot, or the service is stopping",
      'internal_error',
      "the database can't be reached just now, try again (request 7f0c)",
      ...(isStaged ? [folderRefusal] : []),
    ),
    ...(isStaged
      ? {
          '507': refusalForNow(
            'The disk where content is kept has too little space left',
            'internal_error',
            noSpaceRefusal,
          ),
        }
      : {}),
  }
}

const pagingExample = { page: 0, per_page: 100, num_records: 1, num_pages: 1, next_page_token: null }

function envelopedReply(
  reply: Extract<Endpoint['reply'], { data: z.ZodType }>,
  refusals: readonly RequestError[],
) {
  const paging = reply.paging === undefined ? {} : pagingKeys[reply.paging]
  const success = z
    .object({
      success: z.literal(true).describe('true: it is done'),
      data: reply.data,
      error_code: z.null().describe('null on success'),
      error_message: z.null().describe('null on success'),
      ...paging,
    })
    .describe('Done')
  const value = {
    success: true,
    data: reply.example,
    error_code: null,
    error_message: null,
    ...(reply.paging === undefined ? {} : pagingExample),
  }
  const refused = refusals.filter(({ status }) => status === 200)
  return {
    description: refused.length > 0 ? 'Done, or refused with `success` false' : 'Done',
    content: {
      'application/json': {
        schema: refused.length > 0 ? z.union([success, failure]) : success,
        examples: { done: { value }, ...toExamples(refused) },
      },
    },
  }
}

const textContents = (texts: Record<string, TextDescription>) =>
  Object.fromEntries(
    Object.entries(texts).map(
      ([type, { schema = z.string(), example }]) => [type, { schema, example }] as const,
    ),
  )

function streamedReply(
  reply: Exclude<Endpoint['reply'], { data: unknown }>,
  refusals: readonly RequestError[],
) {
  if ('file' in reply) return { description: 'The file', content: textContents(reply.file) }
  return {
    description: 'The text, or a refusal with `success` false',
    content: {
      ...textContents(reply.texts),
      'application/json': {
        schema: failure,
        examples: toExamples(refusals.filter(({ status }) => status === 200)),
      },
    },
  }
}
