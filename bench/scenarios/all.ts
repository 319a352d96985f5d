import type { Scenario } from '../scenario.ts'
import { allSkipped, beyondCache, newRows, overwriting, staging } from './comparisons.ts'
import { ftpUploads } from './ftp-uploads.ts'
import { manySmall } from './many-small.ts'
import { pauseAndKill } from './pause-and-kill.ts'
import { requests } from './requests.ts'
import { smallBesideGiant } from './small-beside-giant.ts'

/** In the order in which they are listed and shown. */
export const scenarios: Scenario[] = [
  newRows,
  overwriting,
  allSkipped,
  beyondCache,
  pauseAndKill,
  smallBesideGiant,
  manySmall,
  staging,
  requests,
  ftpUploads,
]
