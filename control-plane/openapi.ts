import { z } from 'zod'
import { createDocument, type ZodOpenApiOperationObject, type ZodOpenApiPathsObject } from 'zod-openapi'
import type { BodyDescription, Endpoint, Need } from './api/endpoint.ts'
import { describeAuthorization, describeNeed, scopeOf } from './api/authorization.ts'

/**
 * The OpenAPI 3.1 description, made from the endpoints: the schemas are those that validate, the permissions those
 * that are enforced.
 */
export const basePath = '/svc/api/v2'

const failure = z
  .object({
    success: z.literal(false),
    data: z.null(),
    error_code: z.enum([
      'validation_failed',
      'invalid_request',
      'requested_too_many',
      'not_found',
      'multiple_records_found',
      'not_authorized',
      'internal_error',
    ]),
    error_message: z.string(),
  })
  .meta({ id: 'Failure', description: 'What every refusal looks like, whatever its status' })

const pages = {
  page: z.int().min(0),
  per_page: z.int().min(1),
  num_records: z.int().min(0),
  num_pages: z.int().min(0),
}
const tokens = {
  page: z.int().min(0).optional(),
  per_page: z.int().min(1),
  num_records: z.int().min(0).nullable(),
  num_pages: z.int().min(0).nullable(),
  next_page_token: z.string().nullable(),
}

export function openApiDocument(
  endpoints: readonly Endpoint[],
  publicUrl: string,
): ReturnType<typeof createDocument> {
  const paths: ZodOpenApiPathsObject = {}
  for (const described of endpoints) {
    const path = `${basePath}${described.path.replaceAll(/:(\w+)/g, '{$1}')}`
    paths[path] = { ...paths[path], [described.method]: operation(described) }
  }
  return createDocument({
    openapi: '3.1.0',
    info: {
      title: 'Rollcall',
      version: '2',
      description:
        'Subscriber imports and the records around them. Every reply is an envelope: branch on `success`. A refused request has status 200 with `success` false; ' +
        'only what concerns the transport has a status of its own: 401, 403, 404 (no endpoint), 405, 413, 415, 429, 500, 503.',
    },
    servers: [{ url: publicUrl }],
    security: [{ apiKey: [] }],
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
}

function operation(described: Endpoint): ZodOpenApiOperationObject {
  const { operationId, summary, tag, needs, query, body, headers, path } = described
  const names = [...path.matchAll(/:(\w+)/g)].map((match) => match[1]!)
  return {
    operationId,
    summary,
    tags: [tag],
    description: describeAuthorization(described),
    'x-needs': needText(needs),
    'x-scope': scopeOf(described),
    requestParams: {
      ...(names.length === 0
        ? {}
        : { path: z.object(Object.fromEntries(names.map((name) => [name, z.string()]))) }),
      ...(query === undefined ? {} : { query: query as z.ZodObject }),
      ...(headers === undefined
        ? {}
        : {
            header: z.object(
              Object.fromEntries(
                Object.entries(headers).map(([name, text]) => [name, z.string().optional().describe(text)]),
              ),
            ),
          }),
    },
    ...(body === undefined
      ? {}
      : {
          requestBody: {
            required: body.optional !== true,
            content: {
              'application/json': {
                schema: bodySchema(body),
                example: body.example,
              },
            },
          },
        }),
    responses: responses(described),
  }
}

function bodySchema({ wrapper, schema, beside }: BodyDescription<unknown>): z.ZodType {
  if (wrapper === null) return schema
  if (beside === undefined || !(schema instanceof z.ZodObject)) return z.object({ [wrapper]: schema })
  const shape = schema.shape as Record<string, z.ZodType>
  return z.object({ [wrapper]: schema, ...Object.fromEntries(beside.map((key) => [key, shape[key]!])) })
}

const needText = (need: Need): string => (typeof need === 'string' ? need : need.permission.join('/'))

function responses(described: Endpoint): ZodOpenApiOperationObject['responses'] {
  const { reply } = described
  const refusal = (description: string) => ({
    description,
    content: { 'application/json': { schema: failure } },
  })
  return {
    '200':
      'data' in reply
        ? {
            description: 'Done, or refused with `success` false',
            content: { 'application/json': envelope(reply) },
          }
        : streamed(reply),
    '401': refusal('The API key is missing or wrong'),
    '403': refusal(`The caller lacks ${describeNeed(described.needs)}`),
    '429': refusal('Too many wrong credentials from this address'),
    '503': refusal('The database is out of reach'),
    ...(described.body === undefined
      ? {}
      : { '413': refusal('The body is too large'), '415': refusal('The body is no JSON') }),
  }
}

function envelope(reply: Extract<Endpoint['reply'], { data: z.ZodType }>) {
  const paging = reply.paging === undefined ? {} : reply.paging === 'pages' ? pages : tokens
  const success = z.object({
    success: z.literal(true),
    data: reply.data,
    error_code: z.null(),
    error_message: z.null(),
    ...paging,
  })
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
  return {
    schema: z.union([success, failure]),
    example: { success: true, data: reply.example, error_code: null, error_message: null, ...figures },
  }
}

function streamed(reply: Extract<Endpoint['reply'], { contentTypes: string[] }>) {
  const texts = reply.contentTypes.map(
    (type) => [type, { schema: z.string(), example: reply.example }] as const,
  )
  return {
    description: 'The text, or a refusal with `success` false',
    content: { ...Object.fromEntries(texts), 'application/json': { schema: failure } },
  }
}
