import { findNamedImport, type NamedImport } from '../../../shared/processes/import-views.ts'
import { logImportState } from '../../../shared/processes/import-log.ts'
import { actorFields } from '../../../shared/store/api-keys.ts'
import { hasEnded, type ImportState } from '../../../shared/contract/import-state.ts'
import type { ImportDocument } from '../../../shared/contract/schemas/import.ts'
import { cancelImport, pauseImport, readState, unpauseImport } from '../../../shared/store/imports.ts'
import { wakeUp } from '../../../shared/store/wake-up.ts'
import type { RecordOfPath, RequestCall } from '../../api/endpoint.ts'
import { auditedImport, partyOf, recordAct } from '../audit-events/record.ts'
import { pathId, canAccess } from '../../api/scope.ts'
import type { ImportView } from './schemas.ts'
import { fullView } from './view.ts'
import { noImport, refusedMoves, type ImportMove } from './refusals.ts'

/** One import by its id: found for a caller, paused, unpaused, cancelled. */

/** The import that a path names; one that the caller can't access is not found. */
export const importInPath: RecordOfPath<ImportDocument> = {
  refusals: [noImport],
  async find({ deps, caller, params: { id } }) {
    const document = await deps.database.collections.imports.findOne(
      { _id: pathId(id, noImport) },
      { projection: { content: 0 } },
    )
    if (document === null || !canAccess(caller, document.organization_id)) throw noImport(id)
    return document
  },
}

/** The same with the names that its view shows. */
export const namedImportInPath: RecordOfPath<NamedImport> = {
  refusals: [noImport],
  async find({ deps, caller, params: { id } }) {
    const named = await findNamedImport(deps.database.collections, pathId(id, noImport))
    if (named === null || !canAccess(caller, named.document.organization_id)) throw noImport(id)
    return named
  },
}

const pastMoves = { pause: 'paused', unpause: 'unpaused', cancel: 'cancelled' } as const
const moves = { pause: pauseImport, unpause: unpauseImport, cancel: cancelImport }

/** The full view of the moved import. Throws `validation_failed` where the import's state doesn't allow the move. */
export async function moveImport(
  { deps, caller, log }: RequestCall,
  { _id: id }: ImportDocument,
  kind: ImportMove,
): Promise<ImportView> {
  const { collections } = deps.database
  const moved = await moves[kind](deps, id, {
    by: partyOf(caller),
    onMove: (session, document) =>
      recordAct(deps.database, session, caller, { ...auditedImport(document), action: pastMoves[kind] }),
  })
  if (moved === null) {
    const state = await readState(collections, id)
    if (state === null) throw noImport(id)
    throw refusedMoves[kind][hasEnded(state) ? 'ended' : 'otherState'](id, state)
  }
  await wakeUp(collections, { reason: 'imports', import_id: id })
  const view = await fullView(deps, { document: moved })
  logImportState(log.child({ import_id: id }), moved, {
    ...{ from: stateBefore(moved, kind), to: moved.state },
    by: { by: 'api', ...actorFields(caller, caller.address) },
    ...(kind === 'cancel' ? { end: { at: moved.finished_at!, counts: view.stats.subscribers } } : {}),
  })
  return view
}

const stateBefore = (
  { paused_from: pausedFrom, cancelled_from: cancelledFrom }: ImportDocument,
  kind: ImportMove,
): ImportState | null =>
  kind === 'unpause' ? 'paused' : ((kind === 'pause' ? pausedFrom : cancelledFrom) ?? null)
