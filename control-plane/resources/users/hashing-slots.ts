import type { Caller } from '../../../shared/store/api-keys.ts'
import { FairSemaphore } from '../../api/fair-semaphore.ts'
import type { ControlPlane } from '../../control-plane.ts'

/** Runs the computation of a hash in a slot. Throws 429 and 503 when it gets none (FairSemaphore). */
export type RunInSlot = <T>(compute: () => Promise<T>) => Promise<T>

/** Hashes count for the organization of the caller, which sends the requests, and not for that of the user. */
export const hashingSlot =
  ({ hashingSlots }: ControlPlane, { organizationId }: Caller, clientGone?: AbortSignal): RunInSlot =>
  (compute) =>
    hashingSlots.run({ organizationId, clientGone }, compute)

/**
 * Few hashes run at a time, because each takes 19 MiB and a thread of libuv, which file access needs too. One
 * organization gets at most two of three slots, so that another one can always get a slot.
 */
export const createHashingSlots = (
  refusing: AbortSignal,
  bounds = { maxRunning: 3, maxWaitingPerOrganization: 200 },
): FairSemaphore =>
  new FairSemaphore({
    ...bounds,
    refusing,
    tooMany: {
      message: 'too many passwords of this organization are being checked, try again in 10 s',
      retryAfterSeconds: 10,
    },
    stoppingMessage: 'the service is stopping and checked no password: try again',
  })
