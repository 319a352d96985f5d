import type { Json } from './service.ts'

/** The schema of an operation's body, which is a component of the API's description. */
export function bodySchema(document: Json, operation: Json): Json {
  const { schema } = operation.requestBody.content['application/json']
  const [, name = ''] = /^#\/components\/schemas\/(.+)$/.exec(String(schema.$ref)) ?? []
  return document.components.schemas[name]
}
