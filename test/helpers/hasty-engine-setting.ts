import type { CallbackBounds } from '../../engine/stages/callback/callback-bounds.ts'
import type { WatchdogBounds } from '../../engine/runner/watchdog.ts'
import type { DownloadBounds } from '../../shared/net/download-bounds.ts'

/** The test's settings for hasty-engine.ts, as JSON in this variable. */
export interface Downloads {
  bounds?: Partial<DownloadBounds>
  watch?: Partial<WatchdogBounds>
  callbacks?: Partial<CallbackBounds>
  /** The addresses that consecutive look-ups of a host name get; the last ones are repeated. */
  answers?: Record<string, string[][]>
}

export const downloadsSetting = 'ROLLCALL_TEST_DOWNLOADS'
