import type { Request } from 'express'
import type { z } from 'zod'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { Refusal } from './refusal.ts'
import type { ControlPlane } from '../control-plane.ts'
import type { RequestCaller } from './request-locals.ts'
import type { SlotName } from './slots.ts'
import type { ContentSample, InlineContent, InlineText } from './body/parse-body.ts'

/**
 * An endpoint as a value: its path, its callers, its input and output, and its handler. The router, the authorization
 * and the OpenAPI description are all made from this value, so they can't contradict each other.
 */
export interface Endpoint<Query = unknown, Body = unknown, Found = unknown> {
  method: 'get' | 'post' | 'put' | 'delete'
  /** The path below /svc/api/v2, with parameters as `:name`. */
  path: string
  operationId: string
  summary: string
  tag: string
  needs: Need
  /** Must be set where the path doesn't imply it; see `endpointScope`. */
  scope?: Scope
  query?: z.ZodType<Query>
  body?: BodyDescription<Body>
  /** The body is a file, which the handler streams. Its client is bounded by its idle time only. */
  file?: FileDescription
  /** Request headers that the endpoint reads, with their texts for the API description. */
  headers?: Record<string, string>
  reply: ReplyDescription
  /**
   * The slot that a request needs (slots.ts), which may depend on it: by default one of `pages` for a page of a list, else
   * of `requests`. Null where its work waits for slots of its own, and must not block a general one meanwhile.
   */
  slot?: SlotName | null | ((request: Request) => SlotName)
  /** Logs a request that is refused between the check of its credential and the beginning of its work. */
  logRefused?: (call: RefusedCall, error: unknown) => void
  /** The reply may have one large record. A request first waits for the slot of that, before it is made. */
  hasLargeReply?: true
  /** The record that the path names. It is found before the query and the body are checked. */
  record?: RecordOfPath<Found>
  /**
   * Throws what precedes all that the schemas refuse: the 403s that depend on the record, or on the body's document as it
   * was sent, and the refusal of a document that is too long to be checked.
   */
  permit?(call: RequestCall, record: Found): Promise<void> | void
  /**
   * What `permit` and the handler refuse. `documentedRefusals` adds those of the path, the query and the body. The
   * conformance test provokes every one.
   */
  refusals?: readonly Refusal[]
  handle(call: Call<Query, Body, Found>): Promise<Reply>
}

/** How an endpoint finds the record that its path names. */
export interface RecordOfPath<Found> {
  refusals: readonly Refusal[]
  find(call: RequestCall): Promise<Found>
}

/**
 * Which callers are allowed: every key, any key but those of the role `uploads`, an admin, a system admin, or a key with
 * the permission (admins have all).
 */
export type Need = 'every_key' | 'any_key' | 'admin' | 'system_admin' | PermissionNeed

export interface PermissionNeed {
  permission: Permission
  /**
   * Another sufficient permission. With `forBodies`, a text for the API description, it is sufficient only
   * for some bodies; the handler decides for each body.
   */
  or?: { permission: Permission; forBodies?: string }
  /** Keys of this role are allowed too, which have no permission. */
  orRole?: 'uploads'
}

export type Permission = readonly [key: string, value: string]

/** The records that an endpoint works on. */
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
  /** The wrapper contains an array and not a hash. */
  isArray?: boolean
  /** Keys of the schema that may also stand beside the wrapper. A value inside the wrapper has precedence. */
  beside?: readonly string[]
  /** Where the keys `beside` the wrapper are given, the wrapper may be missing. */
  isWrapperOptional?: true
  /** The `warnings` of the record name the body's unknown keys. Elsewhere, and in a refusal, the header `Warning` does. */
  hasWarnings?: true
  /** Keys that only system admins may set. From all other callers they are ignored. */
  forSystemAdmins?: readonly string[]
  /** The body changes an existing record, so null clears a field. In a creation null is the same as a missing key. */
  isUpdate?: boolean
  /** The request may have no body. */
  optional?: boolean
  /**
   * A text that may be large. The handler gets it as `content`, or its beginning as `sample`. The body's limit is then
   * HTTP_INLINE_LIMIT_MB, and 1 MiB for everything else in it.
   */
  inlineText?: InlineText
  /** By what they show. */
  examples: Record<string, unknown>
  /**
   * Keys whose values only the schema refuses, beside those of the example, or of the first one in an array: documented, as
   * the schema refuses them.
   */
  faulty?: readonly Record<string, unknown>[]
}

export interface FileDescription {
  /** Media types for the API description; a request may have any but multipart ones, or none. */
  types: readonly string[]
  example: string
  /** The message of the 413. */
  tooLarge: string
  /** The message of the 507. */
  noSpace: string
}

export type RefusedCall = Pick<RequestCall, 'caller' | 'log' | 'params'>

type ReplyDescription =
  | { data: z.ZodType; paging?: 'pages' | 'tokens' | 'whole'; example: unknown }
  /** `nothing` describes when there is no text and the status is 204. */
  | { texts: Record<string, TextDescription>; nothing?: string }
  /** A file, whole or a range of it. It is sent as long as its client reads. */
  | { file: Record<string, TextDescription> }

/** A reply that isn't an envelope, described by media type. Without a schema it is any text. */
export interface TextDescription {
  schema?: z.ZodType
  example: unknown
}

/** `page` is missing when the page was requested by a token. */
export interface TokenPaging {
  page?: number
  per_page: number
  num_records: number | null
  num_pages: number | null
  next_page_token: string | null
}

/** Paging of a list that comes as a whole unless it is too large for one reply. */
export type WholePaging = Pick<TokenPaging, 'next_page_token'>

export interface DataReply {
  data: unknown
  paging?: TokenPaging | WholePaging
}

export type Reply =
  | DataReply
  /** Text that is streamed. */
  | {
      stream: AsyncIterable<Uint8Array>
      contentType: string
      headers?: Record<string, string>
      status?: number
    }
  | { nothing: true }

/** A request whose query and body are not yet checked. */
export interface RequestCall {
  deps: ControlPlane
  caller: RequestCaller
  /** Its lines have the request's id. */
  log: Logger
  /** The organization in the path, which exists and which the caller can access; else the caller's own. */
  organizationId: number
  params: Readonly<Record<string, string>>
  /** The path's last segment, not decoded: in a list of values, an encoded comma doesn't separate. */
  lastSegment: string
  /** Returns all values of a request header; the name must be in lower case. */
  header: (name: string) => readonly string[]
  /** The listener is called when the reply has ended or its client has gone, so that a stream can stop. */
  onClose: (listener: () => void) => void
  /** Closes the connection of a reply that has begun, by which the client notices that it is incomplete. */
  cutReply: () => void
  /**
   * Waits for the slot in which a large reply may be made and sent. A request has one such slot, so a second call
   * resolves with the first. Throws as Slots does.
   */
  acquireLargeReply: () => Promise<void>
  /** Waits for a slot in which a file may be transferred, until the reply has ended. Throws as Slots does. */
  acquireTransfer: () => Promise<void>
  /**
   * Streams the body's file, and asks a client that waits for 100 Continue to send it. Throws `signal`'s reason, 503 at
   * a stop, and what breaks the connection.
   */
  fileBody: (signal: AbortSignal) => AsyncIterable<Buffer>
  /** Releases the request's slot early, when the rest of its work is waiting for other requests. */
  releaseSlot: () => void
  /** Gives the request's slot back and waits for another one. Throws as Slots does. */
  changeSlot: (slot: SlotName) => Promise<void>
  /** Aborted when the client closes its connection before the reply has ended. */
  clientGone: AbortSignal
  /** The body's document as it was sent, unchecked. */
  document: unknown
  /** Paths of the body's keys that the endpoint doesn't have, and ignores. */
  unknownKeys: () => readonly string[]
  /** SHA-256 of the decompressed body, as base64url. */
  bodyHash: string
  /** The body's inline text, for which `body` has a placeholder. */
  content: InlineContent | null
  /** The beginning of the body's inline text, where only that is wanted. */
  sample: ContentSample | null
}

export interface Call<Query, Body, Found = unknown> extends RequestCall {
  record: Found
  query: Query
  body: Body
}

/** Infers the handler's types of query, body and record from their schemas and from `record`. */
export function endpoint<Query, Body, Found>(description: Endpoint<Query, Body, Found>): Endpoint {
  return description
}

/** For what partners' keys may do beside those with the permission. */
export const orUploadsRole = (need: PermissionNeed): PermissionNeed => ({ ...need, orRole: 'uploads' })

export const permission = (key: string, value: string): PermissionNeed => ({ permission: [key, value] })

/** Either of the two permissions is sufficient. */
export const either = (need: PermissionNeed, { permission: other }: PermissionNeed): PermissionNeed => ({
  ...need,
  or: { permission: other },
})

/** The first permission, or the lesser one for the bodies that `forBodies` describes. */
export const orFor = (
  forBodies: string,
  need: PermissionNeed,
  { permission: lesser }: PermissionNeed,
): PermissionNeed => ({ ...need, or: { permission: lesser, forBodies } })
