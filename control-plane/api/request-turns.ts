import type { Response } from 'express'
import { OrganizationTurns, refusalDelayMs, type TurnRequest } from './organization-turns.ts'

/**
 * What a control plane does for a few requests at once, as each takes much memory. How much all of them may take is
 * summed up in docs/decisions/135-memory-of-requests.md.
 */

/**
 * Bodies above 4 KiB, from when they are read until the reply is over. Each takes up to 16 MB: a megabyte of bytes,
 * its 50,000 values, and what the schema says of each of them.
 */
export const largeBodies = new OrganizationTurns({
  maxRunning: 12,
  maxRunningPerOrganization: 6,
  maxWaitingPerOrganization: 500,
  maxWaitMs: 20_000,
  tooMany: {
    message: 'too many large requests of this organization are in progress, try again in 5 s',
    retryAfterSeconds: 5,
    delayMs: refusalDelayMs,
  },
  stoppingMessage: 'the service is stopping and did nothing: try again',
})

/** Replies above 256 KiB, by their bytes, until their client has taken them. */
const largeReplies = new OrganizationTurns({
  maxRunning: 96_000_000,
  maxRunningPerOrganization: 32_000_000,
  maxWaitingPerOrganization: 50,
  maxWaitMs: 30_000,
  tooMany: {
    message: 'too many large replies of this organization are in progress, try again in 5 s',
    retryAfterSeconds: 5,
    delayMs: refusalDelayMs,
  },
  stoppingMessage: 'the service is stopping and read nothing: try again',
})

/** In which a client takes a large reply, or its connection is cut: 8 MB at half a megabit a second. */
const maxReplyMs = 120_000

/** Begins the turn of a large reply, which ends with the reply. Throws as OrganizationTurns does. */
export async function beginLargeReply(
  response: Response,
  request: TurnRequest,
  bytes: number,
  { turns = largeReplies, maxMs = maxReplyMs } = {},
): Promise<void> {
  await beginUntilClosed(turns, response, request, bytes)
  const { socket } = response.req
  const timer = setTimeout(() => socket.destroy(), maxMs).unref()
  whenClosed(response, () => clearTimeout(timer))
}

/** Begins a turn that ends with the reply. Throws as OrganizationTurns does. */
export async function beginUntilClosed(
  turns: OrganizationTurns,
  response: Response,
  request: TurnRequest,
  weight?: number,
): Promise<void> {
  whenClosed(response, await turns.begin(request, weight))
}

export function whenClosed(response: Response, listener: () => void): void {
  if (response.closed || response.destroyed) listener()
  else response.once('close', listener)
}
