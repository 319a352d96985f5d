import type { CallbackBounds } from '../../engine/jobs/callbacks/callback-bounds.ts'
import type { StepBounds } from '../../engine/scheduler/step-progress.ts'
import type { DownloadBounds } from '../../shared/net/download-bounds.ts'

/** What a test tells hasty-engine.ts, as JSON in this variable. */
export interface Downloads {
  bounds?: Partial<DownloadBounds>
  steps?: Partial<StepBounds>
  callbacks?: Partial<CallbackBounds>
  /** For each host name the addresses that one look-up after the other gets; the last ones again and again. */
  answers?: Record<string, string[][]>
  /** Bytes from which on two threads split a source. */
  twoThreadsFrom?: number
}

export const downloadsSetting = 'ROLLCALL_TEST_DOWNLOADS'
