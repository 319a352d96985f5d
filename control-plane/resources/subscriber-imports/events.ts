import type { Caller } from '../../../shared/store/api-keys.ts'
import type { ImportDocument } from '../../../shared/contract/schemas/import.ts'
import { meets } from '../../api/authorization.ts'
import { either, permission, type Call, type Reply } from '../../api/endpoint.ts'
import { missing, reaches } from '../../api/scope.ts'
import type { ControlPlane } from '../../control-plane.ts'

/** What creates imports may see what becomes of them, but not their logs, which hold addresses. */
export const readsImports = either(permission('subscriber', 'read'), permission('subscriber', 'import'))

/** Whether a caller may see an organization's imports; asked again while he follows one. */
export const mayReadImports = (caller: Caller, organizationId: number): boolean =>
  meets(caller, readsImports) && reaches(caller, organizationId)

/**
 * An import's server-sent events. Browsers and libraries come again when a stream has ended, with the id of the last
 * event that they have: who has the last one that there will be gets a 204, at which they leave it.
 */
export async function importEvents(
  { importWatch }: ControlPlane,
  { _id }: ImportDocument,
  options: { caller: Caller; lastEventId: string | undefined; onClose: Call<unknown, unknown>['onClose'] },
): Promise<Reply> {
  const first = await importWatch.see(_id)
  if (first === null) throw missing('subscriber import', _id)
  if (first.isLast && options.lastEventId === first.id) return { nothing: true }
  return {
    stream: importWatch.events(first, options.caller, options.onClose),
    contentType: 'text/event-stream',
    // Else nginx buffers them until its buffer is full.
    headers: { 'X-Accel-Buffering': 'no' },
  }
}
