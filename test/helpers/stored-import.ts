import {
  chunkId,
  noCounts,
  type ChunkDocument,
  type ImportDocument,
} from '../../shared/contract/schemas/import.ts'
import { freeLease, type Lease } from '../../shared/contract/schemas/lease.ts'
import { makeOptions, makePlan } from './make-plan.ts'

/** Documents of an import as the database has them, for tests of the writes that change them. */

/** A lease with these values. */
export const leaseOf = (changes: Partial<Lease>): { lease: Lease } => ({
  lease: { ...freeLease, ...changes },
})

export function storedImport(changes: Partial<ImportDocument> & { _id: number }): ImportDocument {
  const now = new Date()
  return {
    organization_id: 1,
    mailing_list_id: 1,
    created_at: now,
    begins_at: now,
    started_at: now,
    finished_at: null,
    state: 'splitting',
    paused_from: null,
    paused_at: null,
    fence: 0,
    field_ids: {},
    options: makeOptions(),
    source: { type: 'upload_directory', filename: 'rows.csv', url: null },
    first_new_subscriber_id: 1,
    step_writes: 0,
    plan: makePlan(),
    header: null,
    finalized: false,
    download: {
      attempts: 0,
      next_attempt_at: null,
      ends_at: null,
      bytes_received: 0,
      bytes_expected: null,
    },
    number_of_records: null,
    partition: null,
    totals: null,
    error_message: null,
    warnings: [],
    lease: freeLease,
    callback: null,
    has_secrets: false,
    logs_purged_at: null,
    ...changes,
  }
}

export function storedChunk(
  importId: number,
  number: number,
  changes: Partial<ChunkDocument> = {},
): ChunkDocument {
  return {
    _id: chunkId(importId, number),
    import_id: importId,
    organization_id: 1,
    dry_run: false,
    number,
    state: 'ready',
    kind: 'sorted',
    from: null,
    to: null,
    pieces: [],
    crc32: 0,
    record_count: 1,
    first_subscriber_id: 1,
    first_reaction_id: 1,
    quota_reserved: 0,
    quota_used: 0,
    lease: freeLease,
    fence: 0,
    next_record: 0,
    deactivated_to: null,
    counts: noCounts(),
    ...changes,
  }
}
