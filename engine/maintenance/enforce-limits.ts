import type { Database } from '../../shared/database.ts'
import type { Logger } from '../../shared/logger.ts'
import { ring } from '../../shared/store/doorbell.ts'
import { heartbeatMs } from '../../shared/store/leases.ts'
import { enforcePendingLimits } from '../../shared/store/places.ts'
import { enforcePendingFences } from '../../shared/store/fence.ts'
import type { Chore } from './maintenance.ts'

/** Enforces changed subscriber limits, pauses and cancels of control planes that died before they had enforced them. */
export function enforceLimits(database: Database, log: Logger): Chore {
  return {
    name: 'enforcing changed subscriber limits, pauses and cancels',
    everyMs: heartbeatMs,
    async run() {
      await enforcePendingFences({ database, log })
      const organizations = await enforcePendingLimits({ database, log })
      if (organizations.length > 0) await ring(database.collections, 'limit')
    },
  }
}
