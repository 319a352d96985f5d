import { z } from 'zod'
import { instant, integer } from './bson-schema.ts'

/** The lease on a piece of work; shared/store/work-leases.ts changes it. */
export const lease = z.object({
  /** The engine that has the lease; null when none has. */
  holder: z.string().nullable(),
  /** Drawn at each claim. */
  token: z.string().nullable(),
  /** End of the lease; null while none has it, and where it lasts as long as its engine's. */
  until: instant().nullable(),
  /** Tries since the last progress: failed ones of a step, claims of a chunk. */
  tries: integer().min(0),
  /** Engines that died with the lease since the last progress. */
  deaths: integer().min(0),
  /** It can't be claimed before this time, which may be in the past; null before a first wait. */
  not_before: instant().nullable(),
})
export type Lease = z.infer<typeof lease>

/** A lease that nothing has had. */
export const freeLease: Lease = {
  ...{ holder: null, token: null, until: null },
  ...{ tries: 0, deaths: 0, not_before: null },
}
