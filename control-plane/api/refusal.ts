import { RequestError, type RequestErrorCode } from './request-error.ts'

/**
 * A refusal, stated once: a service throws what it returns for the values at hand, and an endpoint lists it, so that the
 * API description can show it with the values of its example.
 */
export interface Refusal<Values extends unknown[] = never> {
  (...values: Values): RequestError
  readonly example: RequestError
}

interface RefusalKind {
  code: RequestErrorCode
  /** The HTTP status; 200 without one. */
  status?: number
  /** The number of seconds after which to try again. */
  retryAfter?: number
}

/** Makes a refusal of its sentence, a function of some values, and example values. */
export function refusal<Values extends unknown[]>(
  kind: RequestErrorCode | RefusalKind,
  sentence: string | ((...values: Values) => string),
  ...example: Values
): Refusal<Values> {
  const { code, ...options } = typeof kind === 'string' ? { code: kind } : kind
  const refuse = (...values: Values) =>
    new RequestError(code, typeof sentence === 'string' ? sentence : sentence(...values), options)
  return Object.assign(refuse, { example: refuse(...example) })
}

/** A refusal of what a body says, or of what it would do to the records that are there. */
export const invalid = <Values extends unknown[]>(
  sentence: string | ((...values: Values) => string),
  ...example: Values
): Refusal<Values> => refusal('validation_failed', sentence, ...example)

/** A record that a path names isn't there, or is another organization's. */
export const notFound = (what: string): Refusal<[id: unknown]> =>
  refusal<[id: unknown]>('not_found', (id) => `there is no ${what} ${String(id)}`, 4711)

/** A name is taken; `others` is what has it, such as "template of the list". */
export const takenByAnother = (others: string, example: string): Refusal<[name: string]> =>
  invalid((name) => `name ${JSON.stringify(name)} is taken by another ${others}`, example)

/** A refusal that depends on what the caller may do. */
export const forbidden = <Values extends unknown[]>(
  sentence: string | ((...values: Values) => string),
  ...example: Values
): Refusal<Values> => refusal({ code: 'not_authorized', status: 403 }, sentence, ...example)
