import { z } from 'zod'
import { instantView } from '../../api/fields.ts'

/** The state of the service in a reply. */

export const serviceStateView = z
  .object({
    engines_alive: z.int().min(0).describe('engines that can work on imports'),
    oldest_waiting_seconds: z
      .number()
      .min(0)
      .nullable()
      .describe(
        "how long the organization's import that waits the longest for its start has been due; null where none waits",
      ),
    last_progress_at: instantView()
      .nullable()
      .describe('when an import of the organization last began, advanced or ended; null where none did'),
    problems: z
      .array(z.string())
      .describe('sentences on what keeps imports from running; none where nothing does'),
  })
  .meta({ id: 'ServiceState' })
export type ServiceStateView = z.infer<typeof serviceStateView>

export const exampleServiceState: ServiceStateView = {
  engines_alive: 0,
  oldest_waiting_seconds: 94,
  last_progress_at: '2026-11-21T09:00:00+01:00',
  problems: ['no engine is alive'],
}
