import type { Caller } from '../../../../shared/store/api-keys.ts'
import type { NamedImport } from '../../../../shared/processes/import-views.ts'
import { meetsNeed } from '../../../api/authorization.ts'
import { either, permission, type RequestCall, type Reply } from '../../../api/endpoint.ts'
import { canAccess } from '../../../api/scope.ts'
import type { ControlPlane } from '../../../control-plane.ts'

/** A key that creates imports can read them, but not their logs, which contain addresses. */
export const readsImports = either(permission('subscriber', 'read'), permission('subscriber', 'import'))

/** Also checked while a caller follows an import: its key may lose the permission. */
export const mayReadImports = (caller: Caller, organizationId: number): boolean =>
  meetsNeed(caller, readsImports) && canAccess(caller, organizationId)

/**
 * An import's server-sent events. When a stream has ended, browsers and libraries connect again, with the id of their last
 * event. If that is the import's last one the reply is a 204, after which they stop.
 */
export async function importEvents(
  { importWatch }: ControlPlane,
  followed: NamedImport,
  options: { caller: Caller; lastEventId: string | undefined; onClose: RequestCall['onClose'] },
): Promise<Reply> {
  const first = await importWatch.snapshot(followed)
  if (first.isLast && options.lastEventId === first.id) return { nothing: true }
  return {
    stream: importWatch.events(first, options.caller, options.onClose),
    contentType: 'text/event-stream',
    // Without this nginx buffers events until its buffer is full.
    headers: { 'X-Accel-Buffering': 'no' },
  }
}
