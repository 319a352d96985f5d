import type { Database } from '../../shared/runtime/database.ts'
import { heartbeatMs } from '../../shared/store/leases.ts'
import { cutLeases } from '../store/lease-cuts.ts'
import type { MaintenanceJob } from './maintenance.ts'

/** Cuts leases that a clock which was set back made longer, so that the work of dead processes is taken over in time. */
export function cutLongLeases(database: Database): MaintenanceJob {
  return {
    name: "cutting leases that the database's clock made longer",
    everyMs: heartbeatMs,
    runOnce: async () => ({ leases: await cutLeases(database) }),
    done: { level: 'warn', text: "the database's clock was set back: leases are cut to their length" },
  }
}
