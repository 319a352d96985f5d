import { z } from 'zod'
import { bytes, instant, integer } from './bson-schema.ts'

/**
 * What a running process says of itself. It renews `lease_until` by the database's clock; whoever finds it run out ends
 * the sessions, as an open transaction keeps rows locked for a minute and more, and removes the document: an engine's two
 * minutes later, because a living one may claim and begin transactions under its lost name until it knows. A process
 * whose document is dead or gone registers anew under another id.
 */
export const registeredDocument = z.object({
  /** Random, new for every registration. */
  _id: z.string(),
  host: z.string(),
  process_id: integer(),
  started_at: instant(),
  /** By the clock of the primary of `lease_election`. It says nothing about the clock of another primary. */
  lease_until: instant(),
  /** The primary's `electionId`; null through a mongos, which tells none. Versions before 2.3 don't write it. */
  lease_election: z.string().nullable().optional(),
  /** Its lease ran out and somebody clears up after it; it can't come back. */
  dead: z.boolean(),
  /** Of a dead engine: when the others first took over from it. */
  cleared_at: instant().optional(),
  /** Logical session ids of its transactions: none begins in another session. */
  session_ids: z.array(bytes()),
})
export type RegisteredDocument = z.infer<typeof registeredDocument>

/** A running engine: of lanes, steps and movers of reactions are its sessions. Its chunks and steps are taken over. */
export const engineDocument = registeredDocument.extend({
  /** Smallest number that no other live engine has; the stripes of its counters are made of it. */
  number: integer().min(0),
  /** Host and path of its DATA_DIR: what it looks for in files, every engine with the same ones finds or misses too. */
  folder: z.string().optional(),
  /** False while it takes no work because its DATA_DIR is unavailable or hangs; absent is true. */
  sees_files: z.boolean().optional(),
})
export type EngineDocument = z.infer<typeof engineDocument>

/** A running control plane or FTP server. It holds nothing but what its transactions have written. */
export const processDocument = registeredDocument.extend({ kind: z.enum(['control-plane', 'ftp']) })
export type ProcessDocument = z.infer<typeof processDocument>
