import { z } from 'zod'
import { id, instant, integer } from './bson-schema.ts'

/**
 * That an import has ended, to be told to the URL that its creator gave; URL and secret stand in the import. Written
 * before the import is settled, kept for a week after its end, so that an operator can see what became of it.
 */
export const callbackDocument = z.object({
  /** The import's. */
  _id: id(),
  organization_id: id(),
  /** What it waits in line with, see callbackQueue: a receiver that is slow holds up no other. */
  queue: z.string(),
  /** The same for all tries, so that a receiver knows what he has had. */
  webhook_id: z.string(),
  /** What is sent, byte for byte the same at each try. */
  body: z.string(),
  /** waiting: for its next try, or for the end of the one that somebody makes. */
  state: z.enum(['waiting', 'delivered', 'given_up']),
  /** When it is tried next; while it is being tried, when the lease for that runs out. */
  due_at: instant(),
  /** Of whoever tries it; null while nobody does. */
  token: z.string().nullable(),
  /** When the last try began. */
  tried_at: instant().nullable(),
  /** Tries that failed. One that an engine's death broke off is none: it is done again. */
  failures: integer().min(0),
  /** What the last of them failed by. */
  problem: z.string().nullable(),
  ended_at: instant().nullable(),
})
export type CallbackDocument = z.infer<typeof callbackDocument>

/** Callbacks wait in line by organization and host, `7@hooks.example.com`. */
export const callbackQueue = (organizationId: number, url: string): string =>
  `${organizationId}@${new URL(url).host}`

export const hostOfQueue = (queue: string): string => queue.slice(queue.indexOf('@') + 1)
export const organizationOfQueue = (queue: string): number => Number.parseInt(queue, 10)

/** Days after its end for which it is kept. */
export const callbackDays = 7
