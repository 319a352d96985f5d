import type { Caller } from '../../../shared/store/api-keys.ts'
import { FairSemaphore, refusalDelayMs, type SlotRequest } from '../../api/fair-semaphore.ts'
import type { ControlPlane } from '../../control-plane.ts'

/** Hashes count for the organization of the caller, which sends the requests, and not for that of the user. */
export const hashingRequest = (
  { stopping }: ControlPlane,
  { organizationId }: Caller,
  clientGone?: AbortSignal,
): SlotRequest => ({ organizationId, stopping, clientGone })

export const hashingSlots = (bounds: {
  maxRunning: number
  maxWaitingPerOrganization: number
}): FairSemaphore =>
  new FairSemaphore({
    ...bounds,
    tooMany: {
      message: 'too many passwords of this organization are being checked: try again in 10 s',
      retryAfterSeconds: 10,
      delayMs: refusalDelayMs,
    },
    stoppingMessage: 'the service is stopping and checked no password: try again',
  })
