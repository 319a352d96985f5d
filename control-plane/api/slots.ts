import { setTimeout as sleep } from 'node:timers/promises'
import type { Response } from 'express'
import { clock } from '../../shared/runtime/clock.ts'
import { BoundedCounts, halfOf } from '../../shared/runtime/bounded-counts.ts'
import { FairOrder } from '../../shared/runtime/fair-order.ts'
import { RequestError } from './request-error.ts'
import { requestLocals } from './request-locals.ts'

/**
 * What a control plane does for a limited number of requests at once, fairly by organization. Why, and how much memory all
 * of it takes: docs/decisions/136-cost-of-requests.md and docs/decisions/135-memory-of-requests.md.
 */
const kinds = {
  /**
   * Requests from when their body has arrived until their reply is made. The event loop and the database serve all
   * of them concurrently, so one organization's request must not compete with a thousand of another's.
   */
  requests: { atOnce: 192, ofOrganization: 64, maxWaiting: 1_000, maxWaitMs: 60_000 },
  /** Pages of a list, which cost as much as eight requests for one record. */
  pages: { atOnce: 24, ofOrganization: 8, maxWaiting: 1_000, maxWaitMs: 60_000 },
  /**
   * Searches on hundreds of lists, each of which takes a read of its own, and the reads of the lists to search. A read of
   * lists waits behind its organization's searches, so that many requests share it. With 64 clients on 2,000 lists one
   * read serves 20 searches. In a slot of `requests` it served 3: half as many searches were done, and another
   * organization's p90 was 191 ms instead of 89 (load 8). Four at once do a seventh more than two, but p99 is 412 and
   * 655 ms instead of 308 and 532 (load 13). Two do fewer than slots with weights did, and three as many.
   */
  searches: { atOnce: 9, ofOrganization: 3, maxWaiting: 1_000, maxWaitMs: 60_000 },
  /** Requests that work on hundreds of records or a megabyte. */
  costly: { atOnce: 4, ofOrganization: 1, maxWaiting: 100, maxWaitMs: 60_000 },
  /**
   * Bodies above 4 KiB, from when they are read until the reply has ended. Each takes up to 16 MB of memory: its bytes, or
   * its 50,000 values and the schema's result for each of them.
   */
  largeBodies: {
    ...{ atOnce: 12, ofOrganization: 6, maxWaiting: 500, maxWaitMs: 20_000 },
    tooMany: 'too many large requests of this organization are in progress',
  },
  /** Replies above 256 KiB, until their client has read them. Each has 8 MB at most. */
  largeReplies: {
    ...{ atOnce: 12, ofOrganization: 4, maxWaiting: 50, maxWaitMs: 30_000 },
    tooMany: 'too many large replies of this organization are in progress',
    undone: 'read nothing',
  },
  /**
   * Uploads and downloads of files, until they end. One of them takes up to 2 MB of memory where files lie in the
   * database.
   */
  transfers: {
    ...{ atOnce: 128, ofOrganization: 64, maxWaiting: 500, maxWaitMs: 60_000 },
    tooMany: 'too many uploads and downloads of this organization are in progress',
  },
  /**
   * Calls that take messages from the outbox. Those of one organization would compete for the same first messages.
   */
  takes: {
    ...{ atOnce: 4, ofOrganization: 1, maxWaiting: 50 },
    tooMany: 'too many requests of this organization take messages',
    undone: 'took no message',
  },
  /**
   * Hashes of passwords. Each takes 19 MiB and a thread of libuv, which file access needs too. They count for the
   * organization of the caller, which sends the requests, and not for that of the user.
   */
  passwords: {
    ...{ atOnce: 3, ofOrganization: 2, maxWaiting: 200 },
    tooMany: 'too many passwords of this organization are being checked',
    retryAfter: 10,
    undone: 'checked no password',
  },
} satisfies Record<string, SlotKind>

export interface SlotKind {
  /** Pieces of work that run at once. */
  atOnce: number
  /** The same of one organization, which also gets at most half of what the others leave free. */
  ofOrganization: number
  /** Pieces of work of one organization that may wait. What comes beside them is refused with 429. */
  maxWaiting: number
  /** Work that waits longer is refused with 503. Without it work waits without a limit. */
  maxWaitMs?: number
  /** The 429, and the seconds after which to try again. */
  tooMany?: string
  retryAfter?: number
  /** What a work that is refused at a stop did. */
  undone?: string
}

/** The organization for which work waits for a slot, and the signal that ends the wait. */
export interface SlotRequest {
  organizationId: number
  /** A partner's key. It gets at most half of the slots and of the queue of its organization. */
  partnerKeyId?: number | undefined
  /** Aborted when the client has closed its connection: its work then leaves the queue. */
  clientGone?: AbortSignal | undefined
}

export type SlotName = keyof typeof kinds
export type AllSlots = Record<SlotName, Slots>

/** Bytes of large bodies that may be held at once. */
const maxBodiesMib = 192

/** All of them refuse waiting work when `refusing` is aborted. */
export function createSlots(refusing: AbortSignal, settings: { HTTP_INLINE_LIMIT_MB: number }): AllSlots {
  const { largeBodies } = kinds
  const fitting = Math.floor(maxBodiesMib / settings.HTTP_INLINE_LIMIT_MB)
  const atOnce = Math.min(largeBodies.atOnce, fitting)
  const ofBodies = { ...largeBodies, atOnce, ofOrganization: Math.ceil(atOnce / 2) }
  return Object.fromEntries(
    Object.entries({ ...kinds, largeBodies: ofBodies }).map(([name, kind]) => [
      name,
      new Slots(kind, refusing),
    ]),
  ) as AllSlots
}

/** Waiting clients on 500 connections that retried at once would fill the event loop with refusals. */
const refusalDelayMs = { min: 1_000, max: 5_000 }

interface Waiting {
  readonly organization_id: number
  readonly partnerKeyId: number | undefined
  readonly begin: (release: () => void) => void
}

/**
 * Slots of one kind. Each organization has a queue of its own, and FairOrder says whose first piece of work is next: one
 * that sends 200 requests at once delays another by one piece of work, not by 200. All pieces of a kind take one slot, so
 * none waits until there is room for it while smaller ones pass. A slot is charged for the time that it was held.
 *
 * With one queue for all, 500 takes of the outbox by one organization delayed another's by 3 to 10 s (p99 5.6 s; with this
 * 139 ms, and 181 where the clients repeat at once). With refusals sent at once, 500 connections got 900 of them a second,
 * and another organization's take waited 2.0 s in the median.
 */
export class Slots {
  readonly #kind: SlotKind
  readonly #refusing: AbortSignal
  readonly #order: FairOrder
  /** By organization. A queue without waiting work is removed. */
  readonly #queues = new Map<number, Waiting[]>()
  readonly #ofPartners: BoundedCounts<number>

  constructor(kind: SlotKind, refusing: AbortSignal) {
    this.#kind = kind
    this.#refusing = refusing
    this.#order = new FairOrder(kind)
    this.#ofPartners = new BoundedCounts(halfOf(kind.ofOrganization))
  }

  /** Runs `work` when it has a slot; refuses it once `refusing` is aborted. Throws as `acquire` does. */
  async run<T>(request: SlotRequest, work: () => Promise<T>): Promise<T> {
    if (this.#refusing.aborted) throw this.#stopping()
    const release = await this.acquire(request)
    try {
      return await work()
    } finally {
      release()
    }
  }

  /**
   * Resolves, once there is a slot, to the function that releases it. Throws 429 when the organization's queue is full,
   * and 503 when no slot is free in time, or when it would wait after `refusing` was aborted. A request whose client has
   * gone leaves the queue.
   */
  async acquire({ organizationId, partnerKeyId, clientGone }: SlotRequest): Promise<() => void> {
    if (clientGone?.aborted === true) throw clientLeft()
    const queue = this.#queues.get(organizationId) ?? []
    if (this.#isFull(queue, partnerKeyId)) throw await this.#tooMany(clientGone)
    this.#queues.set(organizationId, queue)
    return new Promise((resolve, reject) => {
      const unlisten = (): void => {
        clearTimeout(timer)
        this.#refusing.removeEventListener('abort', giveUp)
        clientGone?.removeEventListener('abort', giveUp)
      }
      const giveUp = (): void => {
        unlisten()
        this.#remove(waiting)
        reject(
          this.#refusing.aborted ? this.#stopping() : clientGone?.aborted === true ? clientLeft() : tooBusy(),
        )
      }
      const waiting: Waiting = {
        organization_id: organizationId,
        partnerKeyId,
        begin(release) {
          unlisten()
          resolve(release)
        },
      }
      const { maxWaitMs } = this.#kind
      const timer = maxWaitMs === undefined ? undefined : setTimeout(giveUp, maxWaitMs)
      this.#refusing.addEventListener('abort', giveUp, { once: true })
      clientGone?.addEventListener('abort', giveUp, { once: true })
      queue.push(waiting)
      this.#serve()
      if (this.#refusing.aborted && queue.includes(waiting)) giveUp()
    })
  }

  #isFull(queue: readonly Waiting[], partnerKeyId: number | undefined): boolean {
    const { maxWaiting } = this.#kind
    if (queue.length >= maxWaiting) return true
    if (partnerKeyId === undefined || queue.length < halfOf(maxWaiting)) return false
    return queue.filter((waiting) => waiting.partnerKeyId === partnerKeyId).length >= halfOf(maxWaiting)
  }

  /** The first piece of an organization's work that isn't of a partner with half of its slots. */
  #first(queue: readonly Waiting[]): Waiting[] {
    const first = queue.find(({ partnerKeyId: key }) => key === undefined || !this.#ofPartners.isFull(key))
    return first === undefined ? [] : [first]
  }

  #serve(): void {
    while (this.#queues.size > 0) {
      const next = this.#order.next([...this.#queues.values()].flatMap((queue) => this.#first(queue)))
      if (next === undefined) return
      this.#remove(next)
      next.begin(this.#occupy(next))
    }
  }

  #remove(waiting: Waiting): void {
    const queue = this.#queues.get(waiting.organization_id)!
    queue.splice(queue.indexOf(waiting), 1)
    if (queue.length === 0) this.#queues.delete(waiting.organization_id)
  }

  /** Returns the function that releases the slot. */
  #occupy(work: Waiting): () => void {
    const end = this.#order.begin(work)
    const { partnerKeyId } = work
    if (partnerKeyId !== undefined) this.#ofPartners.add(partnerKeyId)
    const begunAt = clock.monotonicMs()
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      end(clock.monotonicMs() - begunAt)
      if (partnerKeyId !== undefined) this.#ofPartners.remove(partnerKeyId)
      this.#serve()
    }
  }

  async #tooMany(clientGone: AbortSignal | undefined): Promise<RequestError> {
    const { tooMany = 'too many requests of this organization are in progress', retryAfter = 5 } = this.#kind
    const signal = clientGone === undefined ? this.#refusing : AbortSignal.any([this.#refusing, clientGone])
    const delay = refusalDelayMs.min + Math.random() * (refusalDelayMs.max - refusalDelayMs.min)
    await sleep(delay, undefined, { signal }).catch(() => undefined)
    return new RequestError('not_authorized', `${tooMany}, try again in ${retryAfter} s`, {
      status: 429,
      retryAfter,
    })
  }

  #stopping(): RequestError {
    const { undone = 'did nothing' } = this.#kind
    return new RequestError('internal_error', `the service is stopping and ${undone}: try again`, {
      status: 503,
      retryAfter: 1,
    })
  }
}

const tooBusy = (): RequestError =>
  new RequestError(
    'internal_error',
    'the service is too busy with work of this kind and did nothing: try again in 5 s',
    { status: 503, retryAfter: 5 },
  )

/** Ends the request's work. No client reads this error. */
const clientLeft = (): RequestError =>
  new RequestError(
    'invalid_request',
    'the client closed the connection before there was a slot for its request',
    { status: 400 },
  )

/** A client that hasn't read a large reply by then is cut off: 8 MB at half a megabit a second. */
const maxReplyMs = 120_000

/** Waits for the slot of a large reply, which is released with the reply. Throws as `acquire` does. */
export async function acquireLargeReply(
  slots: Slots,
  response: Response,
  request: SlotRequest,
  maxMs = maxReplyMs,
): Promise<void> {
  await acquireUntilClosed(slots, response, request)
  const { socket } = response.req
  const timer = setTimeout(() => socket.destroy(), maxMs).unref()
  whenClosed(response, () => clearTimeout(timer))
}

/**
 * Waits for a slot that is released when the reply has ended and the endpoint has nothing left to do: it keeps its memory
 * until then, also for a client that has left. Throws as `acquire` does.
 */
export async function acquireUntilClosed(
  slots: Slots,
  response: Response,
  request: SlotRequest,
): Promise<void> {
  const release = await slots.acquire(request)
  whenClosed(response, () => {
    const { work = Promise.resolve() } = requestLocals(response)
    void work.then(release, release)
  })
}

export function whenClosed(response: Response, listener: () => void): void {
  if (response.closed || response.destroyed) listener()
  else response.once('close', listener)
}
