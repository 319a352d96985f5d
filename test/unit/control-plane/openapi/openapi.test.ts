import { createConfig, lintFromString } from '@redocly/openapi-core'
import { Ajv2020 } from 'ajv/dist/2020.js'
import t from 'tap'
import { needText } from '../../../../control-plane/api/authorization.ts'
import { basePath } from '../../../../control-plane/api/scope.ts'
import { openApiDocument } from '../../../../control-plane/openapi/openapi.ts'
import { endpoints } from '../../../../control-plane/endpoints.ts'
import { logKinds } from '../../../../shared/contract/schemas/import.ts'
import { addFormats } from '../../../helpers/contract.ts'
import type { Json } from '../../../helpers/service.ts'

const document: Json = JSON.parse(JSON.stringify(openApiDocument(endpoints)))
const operations: Json[] = Object.entries<Json>(document.paths)
  .filter(([path]) => path.startsWith(basePath))
  .flatMap(([, methods]) => Object.values<Json>(methods))
const ajv = new Ajv2020({ strict: false })
addFormats(ajv)
ajv.addSchema({ $id: 'openapi', ...document })

t.test('the description has no fault that its linter knows', async (t) => {
  const problems = await lintFromString({
    source: JSON.stringify(document),
    config: await createConfig({ extends: ['recommended'] }),
  })
  t.same(
    problems
      // The address of a private service is unknown until it is installed.
      .filter(({ ruleId }) => ruleId !== 'no-server-example.com')
      .map(({ ruleId, message, location }) => `${ruleId}: ${message} (${location[0]?.pointer})`),
    [],
  )
})

/** Uploads are for scripts, so their refusals have statuses beside those of the transport. */
const uploadStatuses: Record<string, string[]> = Object.fromEntries(
  ['', 'InFolder'].flatMap((suffix) => [
    [`putUpload${suffix}`, ['400', '409', '416', '422']],
    [`getUpload${suffix}`, ['404', '416']],
    [`deleteUpload${suffix}`, ['404', '409']],
  ]),
)

t.test('every endpoint is described, with its permissions and its refusals', (t) => {
  t.equal(operations.length, endpoints.length)
  for (const { operationId, summary, description, responses, parameters, ...operation } of operations) {
    const {
      needs,
      body,
      file,
      reply,
      refusals = [],
    } = endpoints.find((described) => described.operationId === operationId)!
    const statuses = ['200', '401', '429', '500', '503']
    if ('nothing' in reply) statuses.push('204')
    if (needs !== 'every_key' || refusals.some(({ example }) => example.status === 403)) statuses.push('403')
    if (body !== undefined) statuses.push('413', '415')
    if (file !== undefined) statuses.push('413', '415', '507')
    if ('file' in reply) statuses.push('206')
    statuses.push(...(uploadStatuses[operationId] ?? []))
    if (body?.inlineText !== undefined && body.inlineText.sampledBytes === undefined) statuses.push('507')
    t.same(Object.keys(responses).sort(), statuses.sort(), operationId)
    t.match(description, /^Needs /)
    t.ok(summary)
    t.equal(operation['x-needs'], needText(needs))
    t.same(
      (parameters ?? []).filter((parameter: Json) => !parameter.description).map(({ name }: Json) => name),
      [],
      `${operationId}: parameters have a description`,
    )
  }
  t.end()
})

t.test('every field of every document has a description', (t) => {
  const bare: string[] = []
  visit(document, '', (node, pointer) => {
    if (node.type !== 'object' || node.properties === undefined) return
    for (const [name, schema] of Object.entries<Json>(node.properties))
      if (!schema.description) bare.push(`${pointer}/${name}`)
  })
  t.same(bare, [])
  t.end()
})

t.test('every body, success and refusal has an example, which fits its schema', (t) => {
  const faults: string[] = []
  let checked = 0
  visit(document.paths, '/paths', (node, pointer) => {
    if (node.schema === undefined || node.in !== undefined) return
    const examples: Json[] = node.examples
      ? Object.values<Json>(node.examples).map(({ value }) => value)
      : [node.example]
    if (examples.some((example) => example === undefined)) faults.push(`${pointer} has none`)
    const validate = ajv.compile({ $ref: `openapi#${pointer}/schema` })
    for (const example of examples) {
      checked += 1
      if (!validate(example)) faults.push(`${pointer}: ${ajv.errorsText(validate.errors)}`)
    }
  })
  t.same(faults, [])
  t.ok(checked > endpoints.length * 4, `${checked} examples`)
  t.end()
})

t.test('generated clients read later versions, name every choice, know what is deprecated', (t) => {
  const closed: string[] = []
  const quoted: string[] = []
  const spelled: string[] = []
  const deprecated = new Set<string>()
  visit(document, '', (node, pointer) => {
    const isReply = /^\/(paths\/.*\/responses|components\/schemas)\//.test(pointer)
    if (isReply && node.additionalProperties === false) closed.push(pointer)
    if (node.enum && typeof node.default === 'string' && /["'\\]/.test(node.default)) quoted.push(pointer)
    // A pattern that accepts a keyword in any case.
    if (/\[jJ]|\[uU]/.test(node.pattern ?? '')) spelled.push(pointer)
    if (node.enum?.some((value: string) => !/^\w/.test(value)))
      t.equal(
        node['x-enum-varnames']?.filter(Boolean).length,
        node.enum.length,
        `${pointer}: names of its members`,
      )
    if (node.deprecated === true) deprecated.add(pointer.split('/').at(-1)!)
  })
  t.same(closed, [], 'no reply is closed to further keys')
  t.same(quoted, [], 'no default is a quote, which generators escape')
  t.same(spelled, [], 'choices are enums')
  t.same(
    [...deprecated].sort(),
    ['bounced', 'clicks_unique_by_link', 'content_html', 'content_subject', 'content_text', 'email_format'],
    'what the contract calls deprecated',
  )
  const log = operations.find(({ operationId }) => operationId === 'getSubscriberImportLog')!
  const kind = log.parameters.find(({ name }: Json) => name === 'kind')
  t.same(kind.schema.enum, logKinds)
  t.match(log.responses['200'].content['text/csv'].example, /,error\n.*,/)
  t.end()
})

t.test('only lists that the contract does not count on every page may have no totals', (t) => {
  const uncounted = operations.filter(({ responses }) => {
    const { schema } = responses['200'].content['application/json'] ?? {}
    const success = schema?.anyOf?.find(({ properties }: Json) => properties?.num_records)
    return success !== undefined && ajv.validate(success.properties.num_records, null)
  })
  t.same(
    uncounted.map(({ operationId }) => operationId),
    ['listReactions', 'listAuditEvents'],
  )
  t.end()
})

t.test('a body over each of its limits is described', (t) => {
  const limits = operations.map(({ operationId, responses }) => {
    const examples = responses['413']?.content['application/json'].examples ?? {}
    const messages = Object.values<Json>(examples).map(({ value }) => value.error_message)
    return [operationId, messages.filter((message) => /at most/.test(message))]
  })
  const inline = [
    /^the body is too large: this endpoint accepts at most 16 MiB: send what is larger by PUT .*\/uploads\/NAME/,
    /^the body without subscriber_import.file_source.content may have at most 1048576 bytes$/,
  ]
  t.match(
    Object.fromEntries(limits),
    { createSubscriberImport: inline, inspectSubscriberImport: inline },
    'where content may be larger',
  )
  t.end()
})

t.test('an event of the stream has an import', (t) => {
  const follow = operations.find(({ operationId }) => operationId === 'followSubscriberImport')!
  const { schema, example } = follow.responses['200'].content['text/event-stream']
  const { contentMediaType, contentSchema } = schema.properties.data
  t.equal(contentMediaType, 'application/json')
  const validate = ajv.compile({ $ref: `openapi${contentSchema.$ref}` })
  t.ok(validate(JSON.parse(example.data)), ajv.errorsText(validate.errors))
  t.end()
})

/** Calls for every object of the description, schemas and media types among them, with its JSON pointer. */
function visit(node: Json, pointer: string, check: (node: Json, pointer: string) => void): void {
  if (typeof node !== 'object' || node === null) return
  check(node, pointer)
  for (const [key, value] of Object.entries<Json>(node)) {
    if (key === 'example' || key === 'examples' || key === 'headers') continue
    visit(value, `${pointer}/${encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'))}`, check)
  }
}
