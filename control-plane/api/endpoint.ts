import type { z } from 'zod'
import type { Caller } from '../../shared/store/api-keys.ts'
import type { RequestErrorCode } from '../../shared/contract/errors.ts'
import type { ControlPlane } from '../control-plane.ts'
import type { ContentSample } from './body/sampled-content.ts'
import type { InlineContent } from './body/staged-content.ts'

/**
 * An endpoint is a value: where it is, who may call it, what goes in and out, and what it does. The router, the
 * authorization and the OpenAPI description are all made from these values, so none of them can know another truth.
 */
export interface Endpoint<Query = unknown, Body = unknown> {
  method: 'get' | 'post' | 'put' | 'delete'
  /** Below /svc/api/v2, parameters as `:name`. */
  path: string
  operationId: string
  summary: string
  tag: string
  needs: Need
  /** Given where the path doesn't say it; see `scopeOf`. */
  scope?: Scope
  query?: z.ZodType<Query>
  body?: BodyDescription<Body>
  /** Request headers with a meaning of their own, for the description. */
  headers?: Record<string, string>
  reply: ReplyDescription
  /** Whether it works on much (costlyRequests), by the path's last segment where that tells. */
  isCostly?: boolean | ((lastSegment: string) => boolean)
  /** Its work waits in a line of its own (outbox, passwords), and must not keep other requests waiting meanwhile. */
  hasOwnSlots?: true
  /** Where one record may be large: the memory that such a reply takes while it is made. It waits for a turn before. */
  largeReplyBytes?: number
  /**
   * What its handler refuses, by code, each message as the service says it (ids are examples). What follows from path,
   * query and body alike for all endpoints is added by `documentedRefusals`. The conformance test provokes every one.
   */
  refusals?: Partial<Record<RequestErrorCode, string | readonly string[]>>
  /** What its handler answers with a 403: what depends on the body or the record. */
  forbids?: readonly string[]
  handle: (call: Call<Query, Body>) => Promise<Reply>
  /**
   * Throws what the handler would refuse of a body that a schema has passed, and writes nothing. A body with faults that
   * the schema finds is examined without them, so that one answer names the faults of both stages. `faultyKeys` are
   * missing in it, or hold what the example has where they are required; problems that name them are left out anyway.
   */
  examine?: (call: Call<Query, Body>, given: Body, faultyKeys: ReadonlySet<string>) => Promise<void>
}

/** Who may call: any key, an admin, a system admin, or whoever holds the permission (admins hold all). */
export type Need = 'any_key' | 'admin' | 'system_admin' | PermissionNeed

export interface PermissionNeed {
  permission: Permission
  /**
   * Another permission that is enough too. With `alternativePermission` it is a lesser one that is enough for some bodies; the handler
   * decides whether it is for the one that came.
   */
  or?: { permission: Permission; alternativePermission?: string }
}

export type Permission = readonly [key: string, value: string]

/** Whose records an endpoint works on. */
export type Scope =
  | 'own_organization'
  | 'own_organization_or_given'
  | 'own_organization_or_all'
  | 'organization_in_path'
  | 'record'
  | 'all_organizations'

export interface BodyDescription<Body> {
  /** The key that the document is wrapped in; null for none. */
  wrapper: string | null
  schema: z.ZodType<Body>
  /** What the wrapper holds is an array, not a hash. */
  isArray?: boolean
  /** Keys of the schema that may also stand beside the wrapper; what is inside goes first. */
  beside?: readonly string[]
  /** Keys that are ignored, whatever they hold, from anybody who is no system admin. */
  forSystemAdmins?: readonly string[]
  /** A change of an existing record: null clears what can be cleared, instead of being the same as no key. */
  isUpdate?: boolean
  /** May be left out altogether. */
  optional?: boolean
  /**
   * The keys that lead to a text that may be large: it is staged as it arrives, and the handler has it as `content`.
   * The body's limit is then HTTP_INLINE_LIMIT_MB, and 1 MB for all else of it.
   */
  stagedText?: readonly string[]
  /** Of that text only so many bytes are kept, in memory: the handler has them as `sample`, and nothing is staged. */
  sampledBytes?: number
  example: unknown
}

export type ReplyDescription =
  | { data: z.ZodType; paging?: 'pages' | 'tokens' | 'whole'; example: unknown }
  /** `nothing`: when there is no text, which is a 204. */
  | { texts: Record<string, TextDescription>; nothing?: string }

/** A reply that isn't an envelope, by its media type. Without a schema it is any text. */
export interface TextDescription {
  schema?: z.ZodType
  example: unknown
}

/** `page` is missing where the page was asked for by a token. */
export interface TokenPaging {
  page?: number
  per_page: number
  num_records: number | null
  num_pages: number | null
  next_page_token: string | null
}

/** Of a list that comes whole, unless it is too large for one reply. */
export type WholePaging = Pick<TokenPaging, 'next_page_token'>

/** Of a list whose records are counted on every page. */
export interface Paging extends TokenPaging {
  num_records: number
  num_pages: number
}

export interface DataReply {
  data: unknown
  paging?: Paging | TokenPaging | WholePaging
}

export type Reply =
  | DataReply
  /** Text that is sent as it comes. */
  | { stream: AsyncIterable<Uint8Array>; contentType: string; headers?: Record<string, string> }
  | { nothing: true }

export interface Call<Query, Body> {
  deps: ControlPlane
  caller: Caller
  /** The organization that the path names, found and reachable, or the caller's own. */
  organizationId: number
  params: Readonly<Record<string, string>>
  /** The path's last segment as sent: in a list, an encoded comma doesn't separate. */
  lastSegment: string
  /** What a request header holds, as often as it came; its name in lower case. */
  header: (name: string) => readonly string[]
  /** Called when the reply is over, in whatever way: who streams hears so that the client is gone. */
  onClose: (listener: () => void) => void
  /**
   * Resolves when a reply that is large may be made and sent; at once where its turn has begun already. Throws as
   * FairSemaphore does.
   */
  acquireLargeReply: (bytes: number) => Promise<void>
  /** Ends the request's turn before its work is over: what is left is to wait for others. */
  releaseSlot: () => void
  /** Aborted when the reply is over, or the client has closed its connection before. */
  clientGone: AbortSignal
  /** The query, checked; throws `invalid_request`. */
  query: () => Query
  /**
   * The body's document, checked; throws `invalid_request` or `validation_failed`. A handler asks for it after it has
   * found the record that the path names: a missing record is said before a faulty body.
   */
  body: () => Body
  /** The body's document before any check, for what stands over all other rules about it. */
  documentAsSent: () => unknown
  /** SHA-256 of the body as sent, decompressed; as base64url. */
  bodyHash: string
  /** The body's staged text, if it has one; in the body itself stands a placeholder. It is removed unless it is kept. */
  content: InlineContent | null
  /** The beginning of the body's large text, where the endpoint only looks at it. */
  sample: ContentSample | null
}

/** Lets the types of query and body flow from their schemas into the handler. */
export function endpoint<Query, Body>(description: Endpoint<Query, Body>): Endpoint {
  return description as Endpoint
}

export const permission = (key: string, value: string): PermissionNeed => ({ permission: [key, value] })

/** Either of the two is enough. */
export const either = (need: PermissionNeed, { permission: other }: PermissionNeed): PermissionNeed => ({
  ...need,
  or: { permission: other },
})

/** The need, or for some bodies just the other one; `alternativePermission` says for which. */
export const orFor = (
  alternativePermission: string,
  need: PermissionNeed,
  { permission: lesser }: PermissionNeed,
): PermissionNeed => ({ ...need, or: { permission: lesser, alternativePermission } })
