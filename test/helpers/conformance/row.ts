import type { RequestError } from '../../../control-plane/api/request-error.ts'
import { isRemoteList } from '../../../control-plane/api/scope.ts'
import type { World } from './world.ts'

/** A request, as far as it differs from endpoint to endpoint. */
export interface Sent {
  params?: Record<string, string | number>
  /** The query, with its question mark. */
  query?: string
  body?: unknown
  headers?: Record<string, string>
  /** The caller; without one, the weakest key that has the right. */
  key?: string
}

/** A request, and the refusal that is due, made of the values in the request. */
export interface Refused {
  sent: Sent
  refused: RequestError
  /** Puts back what others need. */
  after?: () => Promise<unknown>
  /** Settings of the control plane that is started for this request. */
  settings?: Record<string, string>
}

export type MakeRefused = (world: World) => Promise<Refused> | Refused

/**
 * What the conformance test can't derive from an endpoint's description: a request that succeeds, the other
 * documented failures, and its parameters that aren't ids. Everything else is derived: credential, role, other
 * organizations, methods, content types, bodies and queries field by field.
 */
export interface Row {
  /** A request that succeeds, each time anew. */
  good: (world: World) => Promise<Sent> | Sent
  /** Provokes the refusals that the endpoint lists. A missing record is derived. */
  refusals?: MakeRefused[]
  /** Those that the service delays; their requests start before all others. */
  slowRefusals?: MakeRefused[]
  /** Values of parameters that aren't ids, with the code that each gets; null where it succeeds. */
  otherParams?: Record<string, { value: string; code: string | null }[]>
  /** Keys of the body (dotted, below the wrapper) about which the description says less than the service checks. */
  lenientFields?: string[]
  /** The path's names are those of the caller's own organization, for a system admin too. */
  isOwnOnly?: boolean
  /** The status of refusals by their code, where it isn't 200. */
  statuses?: Record<string, number>
  /** Documented refusals, with their status, that can't be provoked here. */
  elsewhere?: RegExp[]
}

export type Rows = Record<string, Row>

/** A request for a Remote List, where those are refused. */
export const onRemoteList =
  (sent: Sent = {}): MakeRefused =>
  async ({ list }) => {
    const { id } = await list({ list: { is_remote_list: true } })
    return { sent: { ...sent, params: { ...sent.params, mailing_list_id: id } }, refused: isRemoteList(id) }
  }
