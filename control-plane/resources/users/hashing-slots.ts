import type { Caller } from '../../../shared/store/api-keys.ts'
import { FairSemaphore, refusalDelayMs, type SlotRequest } from '../../api/fair-semaphore.ts'
import type { ControlPlane } from '../../control-plane.ts'

/** Whose turn a password hash takes: that of the caller's organization, not the user's, as the caller sends the requests. */
export const hashingFor = (
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
      message: 'too many passwords of this organization are being checked, try again in 10 s',
      retryAfterSeconds: 10,
      delayMs: refusalDelayMs,
    },
    stoppingMessage: 'the service is stopping and checked no password: try again',
  })
