import type { Database } from '../../shared/runtime/database.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import { enforcePendingFences } from '../../shared/store/fence.ts'
import { heartbeatMs } from '../../shared/store/leases.ts'
import { enforcePendingLimits } from '../../shared/store/subscriber-quota.ts'
import { wakeUp } from '../../shared/store/wake-up.ts'
import type { MaintenanceJob } from './maintenance.ts'

/** Enforces changed subscriber limits, pauses and cancels whose control plane died before it had enforced them. */
export function enforceLimits(database: Database, log: Logger): MaintenanceJob {
  return {
    name: 'enforcing changed subscriber limits, pauses and cancels',
    everyMs: heartbeatMs,
    runOnce: async () => {
      await enforcePendingFences({ database, log })
      const organizations = await enforcePendingLimits({ database, log })
      if (organizations.length > 0) await wakeUp(database.collections, { reason: 'imports' })
      return { organizations: organizations.length }
    },
  }
}
