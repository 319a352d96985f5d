import type { Comparison, Study } from './scenario.ts'
import { deliveryEvents } from './scenarios/delivery-events.ts'
import { ftpUploads } from './scenarios/ftp-uploads.ts'
import { allSkipped } from './scenarios/all-skipped.ts'
import { beyondCache } from './scenarios/beyond-cache.ts'
import { mixed } from './scenarios/mixed.ts'
import { overwriting } from './scenarios/overwriting.ts'
import { wide } from './scenarios/wide.ts'
import { newRows } from './scenarios/new-rows.ts'
import { reactions } from './scenarios/reactions.ts'
import { requests } from './scenarios/requests.ts'
import { staging } from './scenarios/staging.ts'
import { subscriberLimit } from './scenarios/subscriber-limit.ts'

/** All there are, in the order in which they are listed and shown. */
export const benchmarks: (Comparison | Study)[] = [
  newRows,
  overwriting,
  allSkipped,
  mixed,
  wide,
  beyondCache,
  staging,
  subscriberLimit,
  requests,
  deliveryEvents,
  ftpUploads,
  reactions,
]
