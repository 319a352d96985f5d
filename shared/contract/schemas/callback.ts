import type { z } from 'zod'
import type { callbackDocument } from './callback-schema.ts'

export type CallbackDocument = z.infer<typeof callbackDocument>

/** The queue of an organization's callbacks to a host, for example `7@hooks.example.com`. */
export const callbackQueue = (organizationId: number, url: string): string =>
  `${organizationId}@${new URL(url).host}`

export const queueHost = (queue: string): string => queue.slice(queue.indexOf('@') + 1)
export const queueOrganization = (queue: string): number => Number.parseInt(queue, 10)

/** Days for which a callback is kept after its end. */
export const callbackDays = 7
