import { z } from 'zod'
import { createDocument, type ZodOpenApiOperationObject, type ZodOpenApiPathsObject } from 'zod-openapi'
import { logKinds } from '../../shared/contract/schemas/import.ts'
import { describeAuthorization, needText, endpointScope } from '../api/authorization.ts'
import type { BodyDescription, Endpoint, FileDescription } from '../api/endpoint.ts'
import { basePath } from '../api/scope.ts'
import { confirmationPath, confirmationVisit } from '../resources/subscribers/confirm/routes.ts'
import { describeFields } from './field-texts.ts'
import { responses } from './openapi-responses.ts'

/**
 * Makes the OpenAPI 3.1 description from the endpoints: its schemas are those that validate, and its permissions those
 * that are enforced.
 *
 * It is written for generated clients, which read it literally. Choices are enums in lower case, also where any case is
 * taken: a pattern for every case gives clients a bare string. Replies are open, or strict clients would refuse a key
 * that a later version adds; the tests check each reply against a closed copy. An enum of punctuation has no `default`,
 * because openapi-python-client 0.29.1 doesn't escape it and leaves out the endpoint. OpenAPI 3.1 has no `itemSchema`,
 * so the schema of an event stream is that of one event; the generators don't read 3.2.
 */
const introduction = [
  'Subscriber imports and the records around them. Every JSON reply is an envelope: branch on `success`. A refused request has status 200 with `success` false; only a refusal that concerns the transport has a status of its own: 401, 403, 404 (no endpoint), 405, 408, 413, 415, 429, 431, 500, 503, 507. Those of the uploads have the status that they mean, beside the envelope: 400, 404, 409 (another writer), 416, 422.',
  'A request may bring an `X-Request-Id` (1-128 letters, digits, `_`, `-`, `.`); every reply has one, the same or a new one, and the log names it.',
  'Unknown keys in a body and in a query are ignored, and named in a `Warning` header with code 299 (those in the body of a created import in its `warnings`). A blank value in a query is none. An explicit null on creation is the same as leaving the key out; in an update it clears what can be null. Where a hash is expected, null is no hash given, in updates too, and `[]` is an empty hash. Replies of more than 4 KiB are compressed where `Accept-Encoding` allows it.',
].join('\n\n')

/** The sections, the most important first. */
const tagTexts: Record<string, string> = {
  'Subscriber imports': 'CSV from a request, an upload directory or a URL, turned into subscribers',
  Uploads:
    "The organization's upload directory, which FTP shows too: what one of them began the other resumes. An import reads a file of it",
  'Mailing lists': 'Lists of subscribers',
  'Custom fields': "A list's own fields of its subscribers",
  Subscribers: 'Single subscribers of a mailing list',
  'Subscriber counts': 'Subscribers by status, exact at every moment',
  'API keys': 'Credentials of calls; each belongs to an organization, and may belong to a user',
  Organizations: 'The tenants: each has a time zone, and may have a subscriber limit',
  Users: 'People with a role, permissions and a password',
  'Audit events': 'Who changed what, when, and from which address',
  'Service state': 'Whether anything keeps imports from running',
  'Background jobs': 'Work of the engines: every import is a job',
  'Confirmation forms': 'Mails that ask subscribers for confirmation before they are added',
  Autoresponders: 'Mails that answer what happens to a subscriber of their list',
  'Campaign templates': 'Templates of campaigns: their contents, and how they are to be delivered',
  'Delivery events': 'Results of mails, reported by the program that sends them',
  Reactions: 'Answers of autoresponders that are due to events of subscribers',
  Outbox:
    'Mails for a program that sends them, since this service sends none. A message is taken under a lease and acknowledged when it was mailed; one whose lease expires is handed out again',
}

export function openApiDocument(endpoints: readonly Endpoint[]): ReturnType<typeof createDocument> {
  const paths: ZodOpenApiPathsObject = {}
  for (const described of endpoints) {
    const path = `${basePath}${pathTemplate(described.path)}`
    paths[path] = { ...paths[path], [described.method]: operation(described) }
  }
  paths[pathTemplate(confirmationPath)] = { get: confirmationVisit }
  const document = createDocument({
    openapi: '3.1.0',
    info: {
      title: 'Rollcall',
      version: '2',
      license: { name: 'MIT', identifier: 'MIT' },
      description: introduction,
    },
    servers: [{ url: '/' }],
    security: [{ apiKey: [] }],
    tags: sections(endpoints).map((name) => ({ name, description: tagTexts[name] ?? name })),
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
  return describeFields(openReplies(document))
}

function sections(endpoints: readonly Endpoint[]): string[] {
  const order = Object.keys(tagTexts)
  const position = (name: string) => order.indexOf(name) >>> 0
  return [...new Set(endpoints.map(({ tag }) => tag))].sort((a, b) => position(a) - position(b))
}

/** A later version may add keys to a reply; a client that was generated from this description must not refuse them. */
function openReplies(document: ReturnType<typeof createDocument>): ReturnType<typeof createDocument> {
  for (const methods of Object.values(document.paths ?? {}))
    for (const { responses: replies } of Object.values(methods)) openObjects(replies)
  // Only replies have schemas with a name.
  openObjects(document.components?.schemas)
  return document
}

function openObjects(node: unknown): void {
  if (typeof node !== 'object' || node === null) return
  if ('additionalProperties' in node && node.additionalProperties === false) delete node.additionalProperties
  for (const value of Object.values(node)) openObjects(value)
}

const pathTemplate = (path: string): string => path.replaceAll(/:(\w+)/g, '{$1}')

function operation(described: Endpoint): ZodOpenApiOperationObject {
  const { operationId, summary, tag, needs, query, body, file, headers, path } = described
  const names = [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => name)
  const headerSchemas = Object.entries(headers ?? {}).map(
    ([name, text]) => [name, z.string().optional().describe(text)] as const,
  )
  return {
    operationId,
    summary,
    tags: [tag],
    description: describeAuthorization(described),
    'x-needs': needText(needs),
    'x-scope': endpointScope(described),
    requestParams: {
      ...(names.length === 0 ? {} : { path: z.object(Object.fromEntries(names.map(pathParameter))) }),
      ...(query instanceof z.ZodObject ? { query: describedQuery(query) } : {}),
      ...(headers === undefined ? {} : { header: z.object(Object.fromEntries(headerSchemas)) }),
    },
    ...(body === undefined ? {} : { requestBody: requestBody(operationId, body) }),
    ...(file === undefined ? {} : { requestBody: fileBody(file) }),
    responses: responses(described),
  }
}

/** Without the parameters that are always refused. */
const describedQuery = (query: z.ZodObject): z.ZodObject =>
  z.object(
    Object.fromEntries(
      Object.entries(query.shape).filter(
        ([, schema]) => (schema as z.ZodType).meta()?.['isRefused'] !== true,
      ),
    ),
  )

const parameterTexts: Record<string, string> = {
  id: 'id of the record',
  kind: 'kind of the log',
  filename: 'name of the file, encoded as in every URL; FOLDER%2FNAME is one in a folder',
  folder: 'folder of the file',
}

const parameterValues: Record<string, readonly string[]> = { kind: logKinds }

function pathParameter(name: string): [string, z.ZodString] {
  const isId = name === 'id' || name.endsWith('_id')
  const description =
    parameterTexts[name] ??
    (isId ? `id of the ${name.slice(0, -'_id'.length).replaceAll('_', ' ')}` : name.replaceAll('_', ' '))
  const values = parameterValues[name]
  const narrowed = isId
    ? { override: { type: 'integer' as const, minimum: 1 } }
    : values === undefined
      ? {}
      : { override: { enum: [...values] } }
  return [name, z.string().meta({ description, ...narrowed })]
}

/** The schema is a named component, so that generated clients have a name for it too. */
function requestBody(operationId: string, body: BodyDescription<unknown>) {
  const id = `${operationId.charAt(0).toUpperCase()}${operationId.slice(1)}Request`
  return {
    required: body.optional !== true,
    content: {
      'application/json': {
        schema: bodySchema(body).meta({ id }),
        examples: Object.fromEntries(Object.entries(body.examples).map(([name, value]) => [name, { value }])),
      },
    },
  }
}

const fileBody = ({ types, example }: FileDescription) => ({
  description: 'The bytes of the file, of any number',
  content: Object.fromEntries(types.map((type) => [type, { schema: z.string(), example }])),
})

function bodySchema({
  wrapper,
  schema,
  beside,
  isWrapperOptional,
  isArray,
}: BodyDescription<unknown>): z.ZodType {
  if (wrapper === null) return schema
  const wrapped = {
    [wrapper]: schema.describe(isArray === true ? 'the records' : 'the fields, without their wrapper'),
  }
  if (beside === undefined || !(schema instanceof z.ZodObject)) return z.object(wrapped)
  const shape: Record<string, z.ZodType> = schema.shape
  const besideWrapper = Object.entries(shape).filter(([key]) => beside.includes(key))
  const whole = z.object({ ...wrapped, ...z.object(Object.fromEntries(besideWrapper)).partial().shape })
  return isWrapperOptional === true ? whole.partial() : whole
}
