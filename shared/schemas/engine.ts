import { z } from 'zod'
import { bytes, instant, integer } from './bson-schema.ts'

/**
 * A running engine. It renews `lease_until` by the database's clock; whoever finds it run out takes over: kills its
 * sessions (an open transaction keeps rows locked for a minute and more), hands back its chunks and steps, and
 * removes the document. An engine whose document is gone starts over under a new id.
 */
export const engineDocument = z.object({
  /** Random, new for every start. */
  _id: z.string(),
  /** Smallest number that no other live engine has; the stripes of its counters are made of it. */
  number: integer().min(0),
  host: z.string(),
  process_id: integer(),
  started_at: instant(),
  lease_until: instant(),
  /** Its lease ran out and somebody clears up after it; it can't come back. */
  dead: z.boolean(),
  /** Logical session ids of its lanes, its steps and its movers of reactions. */
  session_ids: z.array(bytes()),
})
export type EngineDocument = z.infer<typeof engineDocument>
