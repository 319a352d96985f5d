import { z } from 'zod'
import { bytes, instant, integer } from './bson-schema.ts'

/**
 * Registration of a running process, which renews `lease_until` by the database's clock. When a lease has expired,
 * another process removes the document. It ends the sessions first, because an open transaction keeps rows locked for a
 * minute and more. The document of an engine is removed two minutes later: an engine that is still alive may use the
 * lost id until it notices. That of an engine that has stopped stays as long, as dead and cleared. A process whose
 * document is dead or missing registers again under another id.
 */
const registeredDocument = z.object({
  /** Random, new for every registration. */
  _id: z.string(),
  host: z.string(),
  process_id: integer(),
  started_at: instant(),
  /** By the clock of the primary of `lease_election`; clocks of other primaries may differ. */
  lease_until: instant(),
  /** The primary's `electionId`; null through a mongos, which has none. */
  lease_election: z.string().nullable(),
  /** The lease has expired and another process clears up, or the engine has stopped. It can't be renewed any more. */
  dead: z.boolean(),
  /** For a dead engine: when others first took over its work, or when it stopped. */
  cleared_at: instant().optional(),
  /** Logical session ids of its transactions; all of them use these sessions. */
  session_ids: z.array(bytes()),
})
export type RegisteredDocument = z.infer<typeof registeredDocument>

/**
 * A running engine. Its sessions are those of lanes and steps. Others take over its chunks and steps when it
 * dies.
 */
export const engineDocument = registeredDocument.extend({
  /** Tells engines of its machine when it has ended (runtime/process-end.ts). Absent where that can't be told. */
  origin: z.object({ id_space: z.string(), start_ticks: integer() }).optional(),
  /** The smallest number that no other registered engine has; it selects the stripes of its counters. */
  number: integer().min(0),
  /** False while it takes no work because its DATA_DIR is unavailable. */
  sees_files: z.boolean(),
})
export type EngineDocument = z.infer<typeof engineDocument>

/**
 * A running control plane or FTP server. It has no leases of imports, so its transactions are all that others must end.
 */
export const processDocument = registeredDocument.extend({ kind: z.enum(['control-plane', 'ftp']) })
export type ProcessDocument = z.infer<typeof processDocument>
