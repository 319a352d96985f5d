import type { ClientSession } from 'mongodb'
import type { BatchBuffers } from './batch-draft.ts'

/** A worker's slot for one chunk at a time, with a session and a counter stripe that no other lane uses. */
export interface Lane {
  session: ClientSession
  stripe: string
  /** Memory for the bytes of a chunk, reused by the next one; grows to the largest. */
  buffer: Buffer
  batchBuffers: BatchBuffers
}
