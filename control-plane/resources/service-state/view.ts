import { formatInstant } from '../../../shared/values/time-zone.ts'
import type { ServiceStateView } from './schemas.ts'
import type { ServiceState } from './service.ts'

export const toView = (state: ServiceState, zone: string): ServiceStateView => ({
  engines_alive: state.enginesAlive,
  oldest_waiting_seconds: state.oldestWaitingSeconds,
  last_progress_at: state.lastProgressAt === null ? null : formatInstant(state.lastProgressAt, zone),
  problems: state.problems,
})
