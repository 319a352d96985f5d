import type { Comparison, Study } from './scenario.ts'
import { allSkipped } from './scenarios/all-skipped.ts'
import { beyondCache } from './scenarios/beyond-cache.ts'
import { deliveryEvents } from './scenarios/delivery-events.ts'
import { doors } from './scenarios/doors.ts'
import { ftpUploads } from './scenarios/ftp-uploads.ts'
import { listmonk } from './scenarios/listmonk.ts'
import { manySmall } from './scenarios/many-small.ts'
import { mixed } from './scenarios/mixed.ts'
import { newRows } from './scenarios/new-rows.ts'
import { overwriting } from './scenarios/overwriting.ts'
import { pauseAndKill } from './scenarios/pause-and-kill.ts'
import { reactionsQueued } from './scenarios/reactions-queued.ts'
import { reactions } from './scenarios/reactions.ts'
import { requests } from './scenarios/requests.ts'
import { smallBesideGiant } from './scenarios/small-beside-giant.ts'
import { staging } from './scenarios/staging.ts'
import { subscriberLimit } from './scenarios/subscriber-limit.ts'
import { wide } from './scenarios/wide.ts'

/** All there are, in the order in which they are listed and shown. */
export const benchmarks: (Comparison | Study)[] = [
  newRows,
  overwriting,
  allSkipped,
  mixed,
  wide,
  beyondCache,
  doors,
  listmonk,
  reactionsQueued,
  manySmall,
  smallBesideGiant,
  pauseAndKill,
  staging,
  subscriberLimit,
  requests,
  deliveryEvents,
  ftpUploads,
  reactions,
]
