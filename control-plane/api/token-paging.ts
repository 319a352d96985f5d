import { createHmac } from 'node:crypto'
import { z } from 'zod'
import { refusal } from './refusal.ts'
import type { ControlPlane } from '../control-plane.ts'
import type { TokenPaging } from './endpoint.ts'
import { wholeNumber } from './fields.ts'
import { readToken, signToken } from './signed-token.ts'

/**
 * Keyset paging: a token has the position after which the next page begins, so a page costs the same at any depth.
 * Records that are added or removed meanwhile neither repeat nor hide others. A page by number has a token too, for
 * clients that begin with page 0 and then follow tokens. A cursor that stays open on the server would be state for each
 * reader, which no other control plane could continue. The list and its filter are signed with the position, or another
 * list's token would be taken; `per_page` isn't, so that a reader may continue with smaller pages.
 */

/** A `per_page` above the maximum is reduced to it. */
export function tokenPagingQuery({ perPage, max }: { perPage: number; max: number }) {
  return z
    .object({
      page: wholeNumber(0)
        .optional()
        .meta({
          description: 'number of the page, from 0; in place of a token',
          override: { type: 'integer', minimum: 0 },
        }),
      per_page: z
        .string()
        .regex(/^0*[1-9]\d*$/, 'must be a positive integer')
        .transform((text) => Math.min(Number(text), max))
        .default(perPage)
        .meta({
          description: `records on a page; a number above ${max} counts as ${max}`,
          override: { type: 'integer', minimum: 1, default: perPage },
        }),
      page_token: z
        .string()
        .optional()
        .describe('the `next_page_token` of the page before; any other is refused with `invalid_request`'),
    })
    .refine((query) => query.page === undefined || query.page_token === undefined, {
      path: ['page_token'],
      error: 'must not be given together with page',
    })
}
export type TokenPageQuery = z.infer<ReturnType<typeof tokenPagingQuery>>

/** Query of a list that comes as a whole. Where it is too large for one reply, a token continues it. */
export const wholeQuery = () => ({
  page_token: z
    .string()
    .optional()
    .describe('the `next_page_token` of the reply before; any other is refused with `invalid_request`'),
})

/** A page begins after a number of records, or after a position. The first page has neither. */
interface PageStart {
  skip: number
  after: string | null
}

/** `scope` identifies the list and its filters. A token that was made for another scope is refused. */
export function pageStart(deps: ControlPlane, query: Partial<TokenPageQuery>, scope: string): PageStart {
  if (query.page_token === undefined) return { skip: (query.page ?? 0) * (query.per_page ?? 0), after: null }
  const after = readToken(deps.pageTokenSecret, scope, query.page_token)
  if (after === null) throw foreignToken()
  return { skip: 0, after }
}

export const foreignToken = refusal('invalid_request', 'page_token is not one that this list gave out')

/** `last` is the position of the page's last record if more follow, else null. `total` is null when it is unknown. */
export function tokenPaging(
  deps: ControlPlane,
  query: TokenPageQuery,
  { scope, last, total }: { scope: string; last: string | null; total: number | null },
): TokenPaging {
  const { per_page, page, page_token: token } = query
  return {
    ...(token === undefined ? { page: page ?? 0 } : {}),
    per_page,
    num_records: total,
    num_pages: total === null ? null : Math.ceil(total / per_page),
    next_page_token: nextPageToken(deps, scope, last),
  }
}

/** Null when no records follow. */
export const nextPageToken = (deps: ControlPlane, scope: string, last: string | null): string | null =>
  last === null ? null : signToken(deps.pageTokenSecret, scope, last)

/** Derived from the installation's secret, which every control plane reads from the database. */
export const pageTokenSecret = (keyHashSecret: Uint8Array): Buffer =>
  createHmac('sha256', keyHashSecret).update('page tokens').digest()
