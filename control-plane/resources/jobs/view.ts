import { clock } from '../../../shared/runtime/clock.ts'
import type { ImportSummary, ViewContext } from '../../../shared/processes/import-views.ts'
import { recordsIn, shownFilename } from '../../../shared/contract/schemas/import.ts'
import { formatInstant } from '../../../shared/values/time-zone.ts'
import type { JobView } from './schemas.ts'

/** A job is a second view of an import: every import is a job. */
export function toView(document: ImportSummary, { zones, sums }: ViewContext): JobView {
  const zone = zones.get(document.organization_id) ?? 'UTC'
  const { created_at, begins_at, started_at, finished_at, state } = document
  const format = (instant: Date) => formatInstant(instant, zone)
  const now = clock.now()
  const counts = sums.get(document._id)?.counts
  const retryAt = [document.lease.not_before, document.download.next_attempt_at].find(
    (instant) => instant instanceof Date && instant > now,
  )
  return {
    id: document._id,
    mailing_list_id: document.mailing_list_id,
    organization_id: document.organization_id,
    suppression_list_id: null,
    state,
    state2: null,
    paused: state === 'paused',
    name: shownFilename(document.source),
    progress_value: counts === undefined ? 0 : recordsIn(counts),
    progress_total: document.number_of_records,
    job_type: 'SubscriberImport',
    begins_at: format(begins_at),
    started_at: started_at && format(started_at),
    finished_at: finished_at && format(finished_at),
    created_at: format(created_at),
    updated_at: format(finished_at ?? started_at ?? created_at),
    retry_at: finished_at === null && retryAt ? format(retryAt) : null,
  }
}
