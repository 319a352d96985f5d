import type { Database } from '../../shared/database.ts'
import type { Logger } from '../../shared/logger.ts'
import { ring } from '../../shared/store/doorbell.ts'
import { heartbeatMs } from '../../shared/store/engines.ts'
import { enforcePendingLimits } from '../../shared/store/places.ts'
import type { Chore } from './maintenance.ts'

/** Enforces subscriber limits that a control plane changed and, having died, didn't enforce. */
export function enforceLimits(database: Database, log: Logger): Chore {
  return {
    name: 'enforcing changed subscriber limits',
    everyMs: heartbeatMs,
    async run() {
      const organizations = await enforcePendingLimits({ database, log })
      if (organizations.length > 0) await ring(database.collections, 'limit')
    },
  }
}
