import { z } from 'zod'
import { createDocument, type ZodOpenApiOperationObject, type ZodOpenApiPathsObject } from 'zod-openapi'
import type { RequestErrorCode } from '../shared/errors.ts'
import type { BodyDescription, Endpoint } from './api/endpoint.ts'
import { tooLarge } from './api/body-pieces.ts'
import { allElseTooLarge } from './api/json-skeleton.ts'
import { megabyte } from './api/request-body.ts'
import { describeAuthorization, describeNeed, needText, scopeOf } from './api/authorization.ts'
import { confirmationPath, confirmationVisit } from './confirmation-page.ts'
import { describeFields } from './field-texts.ts'
import { documentedRefusals, type Refusal } from './refusals.ts'

/**
 * The OpenAPI 3.1 description, made from the endpoints: the schemas are those that validate, the permissions those
 * that are enforced.
 */
export const basePath = '/svc/api/v2'

const errorCodes = [
  'validation_failed',
  'invalid_request',
  'requested_too_many',
  'not_found',
  'multiple_records_found',
  'not_authorized',
  'internal_error',
] as const satisfies readonly RequestErrorCode[]

const failure = z
  .object({
    success: z.literal(false).describe('false: nothing was changed'),
    data: z.null().describe('always null'),
    error_code: z.enum(errorCodes).describe('what kind of refusal it is'),
    error_message: z
      .string()
      .describe('names what is wrong, one sentence each, joined with "; " when there are several'),
  })
  .meta({ id: 'Failure', description: 'What every refusal looks like, whatever its status' })

const pages = {
  page: z.int().min(0).describe('number of the page, from 0'),
  per_page: z.int().min(1).describe('records on a page, as it was taken'),
  num_records: z.int().min(0).describe('records in all'),
  num_pages: z.int().min(0).describe('pages in all'),
}
const tokens = {
  page: pages.page.optional(),
  per_page: pages.per_page,
  num_records: pages.num_records.nullable(),
  num_pages: pages.num_pages.nullable(),
  next_page_token: z
    .string()
    .nullable()
    .describe('is sent as page_token for the next page; null when nothing follows'),
}

const introduction = [
  'Subscriber imports and the records around them. Every JSON reply is an envelope: branch on `success`. A refused request has status 200 with `success` false; only what concerns the transport has a status of its own: 401, 403, 404 (no endpoint), 405, 408, 413, 415, 429, 431, 500, 503.',
  'A request may bring an `X-Request-Id` (1-128 letters, digits, `_`, `-`, `.`); every reply has one, the same or a new one, and the log names it.',
  'Unknown keys in a body are ignored. An explicit null on creation is the same as leaving the key out; in an update it clears what can be null. Replies of more than 4 kB are packed where `Accept-Encoding` allows it.',
].join('\n\n')

const tagTexts: Record<string, string> = {
  Organizations: 'The tenants: each has a time zone, and may have a subscriber limit',
  'API keys': 'What calls are made with; each belongs to an organization, and may belong to a user',
  'Mailing lists': 'What subscribers are on',
  'Custom fields': "A list's own fields of its subscribers",
  'Subscriber imports': 'CSV from a request, an upload directory or a URL, turned into subscribers',
  'Subscriber counts': 'Subscribers by status, exact at every moment',
  'Background jobs': 'What engines are at: every import is a job',
  Subscribers: 'Single subscribers of a mailing list',
  'Confirmation forms': 'What a subscriber is asked before he is added',
  Autoresponders: 'Mails that answer what happens to a subscriber of their list',
  'Campaign templates': 'What campaigns begin as: contents, and how they are to be delivered',
  'Delivery events': 'What became of mails, told by who sends them',
  Reactions: 'That an autoresponder is to answer something that happened to a subscriber',
  Outbox:
    'Mails that are to be sent, for whoever sends them: this service sends none. A message is taken under a lease and acknowledged when it was mailed; one whose lease runs out is handed out again',
  Users: 'People with a role, permissions and a password',
}

export function openApiDocument(
  endpoints: readonly Endpoint[],
  publicUrl: string,
): ReturnType<typeof createDocument> {
  const paths: ZodOpenApiPathsObject = {}
  for (const described of endpoints) {
    const path = `${basePath}${templateOf(described.path)}`
    paths[path] = { ...paths[path], [described.method]: operation(described) }
  }
  paths[templateOf(confirmationPath)] = { get: confirmationVisit }
  const document = createDocument({
    openapi: '3.1.0',
    info: {
      title: 'Rollcall',
      version: '2',
      license: { name: 'MIT', identifier: 'MIT' },
      description: introduction,
    },
    servers: [{ url: publicUrl }],
    security: [{ apiKey: [] }],
    tags: [...new Set(endpoints.map(({ tag }) => tag))].map((name) => ({
      name,
      description: tagTexts[name] ?? name,
    })),
    components: {
      securitySchemes: {
        apiKey: {
          type: 'http',
          scheme: 'basic',
          description:
            'User `api` (or the organization id) with the API key as password; or the API key as user without a password',
        },
      },
    },
    paths,
  })
  return describeFields(document)
}

const templateOf = (path: string): string => path.replaceAll(/:(\w+)/g, '{$1}')

function operation(described: Endpoint): ZodOpenApiOperationObject {
  const { operationId, summary, tag, needs, query, body, headers, path } = described
  const names = [...path.matchAll(/:(\w+)/g)].map((match) => match[1]!)
  const headerSchemas = Object.entries(headers ?? {}).map(
    ([name, text]) => [name, z.string().optional().describe(text)] as const,
  )
  return {
    operationId,
    summary,
    tags: [tag],
    description: describeAuthorization(described),
    'x-needs': needText(needs),
    'x-scope': scopeOf(described),
    requestParams: {
      ...(names.length === 0 ? {} : { path: z.object(Object.fromEntries(names.map(pathParameter))) }),
      ...(query === undefined ? {} : { query: query as z.ZodObject }),
      ...(headers === undefined ? {} : { header: z.object(Object.fromEntries(headerSchemas)) }),
    },
    ...(body === undefined ? {} : { requestBody: requestBody(body) }),
    responses: responses(described),
  }
}

const parameterTexts: Record<string, string> = {
  id: 'id of the record',
  kind: 'kind of the log',
}

function pathParameter(name: string): [string, z.ZodString] {
  const isId = name === 'id' || name.endsWith('_id')
  const description =
    parameterTexts[name] ??
    (isId ? `id of the ${name.slice(0, -'_id'.length).replaceAll('_', ' ')}` : name.replaceAll('_', ' '))
  return [
    name,
    z.string().meta({ description, ...(isId ? { override: { type: 'integer', minimum: 1 } } : {}) }),
  ]
}

function requestBody(body: BodyDescription<unknown>) {
  return {
    required: body.optional !== true,
    content: { 'application/json': { schema: bodySchema(body), example: body.example } },
  }
}

function bodySchema({ wrapper, schema, beside, isArray }: BodyDescription<unknown>): z.ZodType {
  if (wrapper === null) return schema
  const wrapped = {
    [wrapper]: schema.describe(isArray === true ? 'the records' : 'the fields, without their wrapper'),
  }
  if (beside === undefined || !(schema instanceof z.ZodObject)) return z.object(wrapped)
  const shape = schema.shape as Record<string, z.ZodType>
  return z.object({ ...wrapped, ...Object.fromEntries(beside.map((key) => [key, shape[key]!])) })
}

/** Named for their codes, numbered where several have the same. */
function examplesOf(refusals: readonly Refusal[]) {
  const seen = new Map<string, number>()
  return Object.fromEntries(
    refusals.map(({ code, message }) => {
      const number = (seen.get(code) ?? 0) + 1
      seen.set(code, number)
      const value = { success: false, data: null, error_code: code, error_message: message }
      return [number === 1 ? code : `${code}_${number}`, { value }]
    }),
  )
}

function responses(described: Endpoint): ZodOpenApiOperationObject['responses'] {
  const { reply, needs, body, forbids = [] } = described
  const refusal = (description: string, code: RequestErrorCode, ...messages: string[]) => ({
    description,
    content: {
      'application/json': {
        schema: failure,
        examples: examplesOf(messages.map((message) => ({ code, message }))),
      },
    },
  })
  const retryAfter = { 'Retry-After': z.string().describe('seconds after which it may be tried again') }
  return {
    '200': 'data' in reply ? enveloped(described, reply) : streamed(described, reply),
    '401': {
      ...refusal(
        'The API key is missing or wrong',
        'not_authorized',
        'the API key is wrong or no longer active',
        'an Authorization header with an API key is required',
      ),
      headers: z.object({ 'WWW-Authenticate': z.string().describe('Basic realm="svc"') }),
    },
    ...(needs === 'any_key' && forbids.length === 0
      ? {}
      : {
          '403': refusal(
            `The caller lacks ${describeNeed(needs)}${forbids.length === 0 ? '' : ', or what this very request needs'}`,
            'not_authorized',
            `this needs ${describeNeed(needs)}`,
            ...forbids,
          ),
        }),
    ...(body === undefined
      ? {}
      : {
          '413': refusal(
            'The body is too large',
            'invalid_request',
            (body.stagedText === undefined ? tooLarge(megabyte) : allElseTooLarge(body.stagedText, megabyte))
              .message,
          ),
          '415': refusal(
            'The body is not sent as JSON in UTF-8',
            'invalid_request',
            'the body must be sent with Content-Type: application/json, in UTF-8',
            'the body must be JSON in UTF-8, plain or with Content-Encoding gzip, deflate, br or zstd',
          ),
        }),
    '429': {
      ...refusal(
        'Too many wrong credentials from this address, or too many requests with this key; where passwords are checked or set, 200 others of the organization that wait for it',
        'not_authorized',
        'too many wrong credentials came from this address: try again in 42 s',
      ),
      headers: z.object(retryAfter),
    },
    '500': refusal(
      'A fault of the service; the message has the id under which its log has more',
      'internal_error',
      'Internal Server Error: nothing that you sent explains it; the log has more under request 7f0c',
    ),
    '503': {
      ...refusal(
        'The database is out of reach, the same records are written by many at once, or the service is stopping',
        'internal_error',
        "the database can't be reached just now, try again (request 7f0c)",
      ),
      headers: z.object(retryAfter),
    },
  }
}

function enveloped(described: Endpoint, reply: Extract<Endpoint['reply'], { data: z.ZodType }>) {
  const paging = reply.paging === undefined ? {} : reply.paging === 'pages' ? pages : tokens
  const success = z
    .object({
      success: z.literal(true).describe('true: it is done'),
      data: reply.data,
      error_code: z.null().describe('null on success'),
      error_message: z.null().describe('null on success'),
      ...paging,
    })
    .describe('Done')
  const figures =
    reply.paging === undefined
      ? {}
      : {
          page: 0,
          per_page: 100,
          num_records: 1,
          num_pages: 1,
          ...(reply.paging === 'tokens' ? { next_page_token: null } : {}),
        }
  const value = { success: true, data: reply.example, error_code: null, error_message: null, ...figures }
  return {
    description: 'Done, or refused with `success` false',
    content: {
      'application/json': {
        schema: z.union([success, failure]),
        examples: { done: { value }, ...examplesOf(documentedRefusals(described)) },
      },
    },
  }
}

function streamed(described: Endpoint, reply: Extract<Endpoint['reply'], { contentTypes: string[] }>) {
  const texts = reply.contentTypes.map(
    (type) => [type, { schema: z.string(), example: reply.example }] as const,
  )
  return {
    description: 'The text, or a refusal with `success` false',
    content: {
      ...Object.fromEntries(texts),
      'application/json': { schema: failure, examples: examplesOf(documentedRefusals(described)) },
    },
  }
}
