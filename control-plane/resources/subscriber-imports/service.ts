import { hasEnded } from '../../../shared/contract/import-state.ts'
import type { ImportDocument } from '../../../shared/contract/schemas/import.ts'
import { cancelImport, pauseImport, readState, unpauseImport } from '../../../shared/store/imports.ts'
import { wakeUp } from '../../../shared/store/wake-up.ts'
import type { RecordOfPath } from '../../api/endpoint.ts'
import { pathId, canAccess } from '../../api/scope.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { noImport, refusedMoves, type ImportMove } from './refusals.ts'

/** One import by its id: found for a caller, paused, unpaused, cancelled. */

/** The import that a path names; one that the caller can't access is not found. */
export const importInPath: RecordOfPath<ImportDocument> = {
  refusals: [noImport],
  async find({ deps, caller, params: { id } }) {
    const document = await deps.database.collections.imports.findOne({ _id: pathId(id, noImport) })
    if (document === null || !canAccess(caller, document.organization_id)) throw noImport(id)
    return document
  },
}

const moves = { pause: pauseImport, unpause: unpauseImport, cancel: cancelImport }

/** Throws `validation_failed` where the import's state doesn't allow the move. */
export async function moveImport(
  deps: ControlPlane,
  { _id: id }: ImportDocument,
  kind: ImportMove,
): Promise<ImportDocument> {
  const { collections } = deps.database
  const moved = await moves[kind](deps, id)
  if (moved === null) {
    const state = await readState(collections, id)
    if (state === null) throw noImport(id)
    throw refusedMoves[kind][hasEnded(state) ? 'ended' : 'otherState'](id, state)
  }
  await wakeUp(collections, { reason: 'imports', import_id: id })
  return moved
}
