import type { SubscriberStatus } from '../../shared/contract/schemas/subscriber.ts'
import type { Json } from '../helpers/service.ts'

/**
 * The effect of requests, rows and deactivations on one subscriber, and their answers, as the contract describes them
 * (decisions 2.7, 2.8 and 7). On the list an import writes the number A, requests write B.
 */
export interface RacedSubscriber {
  /** Null until an answer has told the id that an import gave. */
  id: number | null
  status: SubscriberStatus
  a: number | null
  b: number | null
  confirmed: boolean
  removeIp: string | null
  /** Reactions that triggers queued for it, and that wait. */
  waiting: number
  /** The time of the answer to its creation. */
  since: number
}

/** Null where there is no subscriber. */
export type Raced = RacedSubscriber | null
type Effect = (state: Raced) => Raced[]

export interface RequestValues {
  b: number
  status?: SubscriberStatus
  confirmed?: boolean
  removeIp?: string
}

export type RacingRequest =
  | { kind: 'create'; values: RequestValues }
  /** The subscriber is named by id, or by email where that is null. */
  | { kind: 'change'; values: RequestValues; id: number | null }
  | { kind: 'trigger'; b: number | null; creates: boolean; reactivates: boolean }
  | { kind: 'delete' }
  | { kind: 'read' }

/** `body` is the answer's; `at`, when it came. */
export function effectOfRequest(request: RacingRequest, body: Json, at: number): Effect {
  const { data, error_code: code } = body
  switch (request.kind) {
    case 'create':
      return (state) => {
        if (state !== null) return code === 'validation_failed' ? [state] : []
        return body.success ? shownAs(created(request.values, at), data) : []
      }
    case 'change':
      return (state) => {
        const { id, values } = request
        const mayBeAnother = state === null || (id !== null && state.id !== id)
        if (!body.success) return code === 'not_found' && mayBeAnother ? [state] : []
        const isIt = state !== null && (id === null || (state.id ?? id) === id)
        return isIt ? shownAs(changed(state, values), data) : []
      }
    case 'trigger':
      return (state) => effectOfTrigger(request, body, at, state)
    case 'delete':
      return (state) => {
        if (state === null) return code === 'not_found' ? [null] : []
        const [id, more]: number[] = data?.subscriber_ids_removed ?? []
        return id !== undefined && more === undefined && (state.id ?? id) === id ? [null] : []
      }
    case 'read':
      return (state) => {
        if (state === null) return code === 'not_found' ? [null] : []
        return body.success && data.length === 1 ? shownAs(state, data[0]) : []
      }
  }
}

function effectOfTrigger(
  { b, creates, reactivates }: Extract<RacingRequest, { kind: 'trigger' }>,
  { data, error_code: code }: Json,
  at: number,
  state: Raced,
): Raced[] {
  const triggered = (subscriber: RacedSubscriber, result: string): Raced[] =>
    data?.subscription_result === result
      ? shownAs({ ...subscriber, waiting: subscriber.waiting + 1 }, data.subscriber)
      : []
  if (state === null) {
    if (creates) return triggered(created({ b }, at), 'created')
    return code === 'not_found' ? [null] : []
  }
  const values = b === null ? {} : { b }
  if (state.status === 'active') return triggered(changed(state, values), 'remained_active')
  if (reactivates) return triggered(changed(state, { ...values, status: 'active' }), 'reactivated')
  return code === 'invalid_request' ? [state] : []
}

export interface RacingRow {
  a: number
  status: SubscriberStatus | null
  confirmed: boolean | null
}

/** The effect of a row of an import with all of `overwrite_what`; `kind` is the log that the row is in. */
export function effectOfRow(
  row: RacingRow,
  kind: string | undefined,
  options: { overwrite: boolean; overwrites: Record<SubscriberStatus, boolean> },
  at: number,
): Effect {
  const { a } = row
  const values = {
    ...(row.status === null ? {} : { status: row.status }),
    ...(row.confirmed === null ? {} : { confirmed: row.confirmed }),
  }
  return (state) => {
    if (state === null) return kind === 'added' ? [{ ...created({ b: null, ...values }, at), a }] : []
    if (!options.overwrite) return kind === 'skipped_overwrite' ? [state] : []
    if (!options.overwrites[state.status]) return kind === `skipped_${state.status}` ? [state] : []
    return kind === 'updated' ? [{ ...changed(state, values), a }] : []
  }
}

/** The effect of an import on a subscriber that is in no record of it; `asked` is the time of the creation. */
export function effectOfDeactivation(isDeactivated: boolean, asked: number): Effect {
  return (state) => {
    const isActive = state?.status === 'active'
    if (isDeactivated) return isActive ? [changed(state, { status: 'deactivated' })] : []
    // A subscriber that was added after the import began isn't deactivated.
    return isActive && state.since < asked ? [] : [state]
  }
}

/** Compares the final record of the API, and the number of reactions that wait. */
export function effectOfEnd(view: Json, waiting: number): Effect {
  return (state) => {
    if (state === null) return view === undefined ? [null] : []
    return view !== undefined && state.waiting === waiting ? shownAs(state, view) : []
  }
}

function created(
  { b, status = 'active', confirmed = false, removeIp }: Omit<RequestValues, 'b'> & { b: number | null },
  since: number,
): RacedSubscriber {
  const ip = status === 'active' ? null : (removeIp ?? null)
  return { id: null, status, a: null, b, confirmed, removeIp: ip, waiting: 0, since }
}

function changed(state: RacedSubscriber, values: Partial<RequestValues>): RacedSubscriber {
  const status = values.status ?? state.status
  const isActive = status === 'active'
  return {
    ...state,
    status,
    b: values.b ?? state.b,
    confirmed: values.confirmed ?? state.confirmed,
    // "Who is or becomes active has no `remove_time` and `remove_ip`, also where a body gives them."
    removeIp: isActive ? null : (values.removeIp ?? state.removeIp),
    // The reactions of a subscriber that leaves are dropped, and don't come back with it.
    waiting: isActive ? state.waiting : 0,
  }
}

/** The subscriber, with the id that the record has; none where the record shows another state. */
function shownAs(subscriber: RacedSubscriber, view: Json): RacedSubscriber[] {
  const { status, a, b, confirmed, removeIp } = subscriber
  const isShown =
    (subscriber.id ?? view.id) === view.id &&
    view.status === status &&
    view.custom_fields.A.value === a &&
    view.custom_fields.B.value === b &&
    view.confirmed === confirmed &&
    view.remove_ip === removeIp &&
    // Only a non-active subscriber has a remove_time, and only a confirmed one a confirm_time.
    (view.remove_time === null) === (status === 'active') &&
    (view.confirm_time === null) === !confirmed
  return isShown ? [{ ...subscriber, id: view.id }] : []
}
