import type { RequestError } from '../../api/request-error.ts'
import { isHash } from '../../api/validation.ts'
import { isReadOnly } from './refusals.ts'
import { dispatchAttributes, dispatchView, templateCreation, templateView } from './schemas.ts'

/** Keys that only replies have. Only this resource refuses requests with such keys; others ignore them. */
const keysOfReplies = (reply: { shape: object }, request: { shape: object }): string[] =>
  Object.keys(reply.shape).filter((key) => !Object.hasOwn(request.shape, key))
const readOnlyKeys = keysOfReplies(templateView, templateCreation)
const readOnlyDispatchKeys = keysOfReplies(dispatchView, dispatchAttributes)

/** A refusal for each read-only key in a document, whatever its value. */
export function readOnlyFaults(document: unknown): RequestError[] {
  if (!isHash(document)) return []
  const dispatch = document['dispatch_attributes']
  const found = [
    ...readOnlyKeys.filter((key) => Object.hasOwn(document, key)),
    ...(isHash(dispatch)
      ? readOnlyDispatchKeys
          .filter((key) => Object.hasOwn(dispatch, key))
          .map((key) => `dispatch_attributes.${key}`)
      : []),
  ]
  return found.map((name) => isReadOnly(name))
}
