import type { Response } from 'express'
import { decimalMegabyte } from '../../shared/values/byte-sizes.ts'
import { FairSemaphore, type FairSemaphoreOptions, type SlotRequest } from './fair-semaphore.ts'

/**
 * What a control plane does for a limited number of requests at once, fairly by organization. Why:
 * docs/decisions/136-cost-of-requests.md; how much memory all of it takes: docs/decisions/135-memory-of-requests.md.
 */

/** A page of a list weighs as much as this number of requests for one record. */
export const maxPageWeight = 8
const recordsPerWeight = 64

/** The weight of a page that costs as much as its records, and counts or skips no others. */
export const pageWeight = (maxRecords: number): number =>
  maxRecords >= 1 ? Math.min(maxPageWeight, Math.ceil(maxRecords / recordsPerWeight)) : maxPageWeight

/** A heavier search would wait in vain while many organizations use all of their slots. */
const maxSearchWeight = 16

/** The weight of a search on so many lists, each of which takes a read of its own. */
export const searchWeight = (lists: number): number =>
  Math.min(maxSearchWeight, Math.ceil(lists / recordsPerWeight))

export type RequestSlots = ReturnType<typeof createRequestSlots>

/** All of them refuse waiting requests when `refusing` is aborted. */
export function createRequestSlots(refusing: AbortSignal) {
  const createSlots = (
    name: string,
    bounds: Omit<FairSemaphoreOptions, 'refusing' | 'stoppingMessage' | 'tooMany'>,
    outcome = 'did nothing',
  ) =>
    new FairSemaphore({
      ...bounds,
      refusing,
      stoppingMessage: `the service is stopping and ${outcome}: try again`,
      tooMany: {
        message: `too many ${name} of this organization are in progress, try again in 5 s`,
        retryAfterSeconds: 5,
      },
    })
  return {
    /**
     * Requests from when their body has arrived until their reply is made. The event loop and the database serve all
     * of them concurrently, so one organization's request must not compete with a thousand of another's.
     */
    requests: createSlots('requests', {
      maxRunning: 192,
      maxRunningPerOrganization: 64,
      maxWaitingPerOrganization: 1_000,
      maxWaitMs: 60_000,
    }),
    /** Requests that work on hundreds of records or a megabyte. They have slots of their own and don't delay others. */
    costly: createSlots('requests', {
      maxRunning: 4,
      maxRunningPerOrganization: 1,
      maxWaitingPerOrganization: 100,
      maxWaitMs: 60_000,
    }),
    /**
     * Bodies above 4 KiB, from when they are read until the reply has ended. Each takes up to 16 MB of memory: a
     * megabyte of bytes, its 50,000 values, and the schema's result for each of them.
     */
    largeBodies: createSlots('large requests', {
      maxRunning: 12,
      maxRunningPerOrganization: 6,
      maxWaitingPerOrganization: 500,
      maxWaitMs: 20_000,
    }),
    /**
     * Uploads and downloads of files, until they end. One of them takes up to 2 MB of memory where files lie in the
     * database.
     */
    transfers: createSlots('uploads and downloads', {
      maxRunning: 128,
      maxRunningPerOrganization: 64,
      maxWaitingPerOrganization: 500,
      maxWaitMs: 60_000,
    }),
    /** Replies above 256 KiB, weighed in bytes, until their client has read them. */
    largeReplies: createSlots(
      'large replies',
      {
        maxRunning: 96 * decimalMegabyte,
        maxRunningPerOrganization: 32 * decimalMegabyte,
        maxWaitingPerOrganization: 50,
        maxWaitMs: 30_000,
      },
      'read nothing',
    ),
  }
}

/** A client that hasn't read a large reply by then is cut off: 8 MB at half a megabit a second. */
const maxReplyMs = 120_000

/** Waits for the slot of a large reply, which is released with the reply. Throws as FairSemaphore does. */
export async function acquireLargeReply(
  slots: FairSemaphore,
  response: Response,
  request: SlotRequest,
  bytes: number,
  maxMs = maxReplyMs,
): Promise<void> {
  await acquireUntilClosed(slots, response, request, bytes)
  const { socket } = response.req
  const timer = setTimeout(() => socket.destroy(), maxMs).unref()
  whenClosed(response, () => clearTimeout(timer))
}

/** Waits for a slot that is released with the reply. Throws as FairSemaphore does. */
export async function acquireUntilClosed(
  slots: FairSemaphore,
  response: Response,
  request: SlotRequest,
  weight?: number,
): Promise<void> {
  whenClosed(response, await slots.acquire(request, weight))
}

export function whenClosed(response: Response, listener: () => void): void {
  if (response.closed || response.destroyed) listener()
  else response.once('close', listener)
}
