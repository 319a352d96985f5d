import type { Caller } from '../../../shared/store/api-keys.ts'
import { RequestError } from '../../api/request-error.ts'
import { hasEnded, unfinishedStates } from '../../../shared/contract/import-state.ts'
import type { ImportDocument } from '../../../shared/contract/schemas/import.ts'
import { cancelImport, pauseImport, readState, unpauseImport } from '../../../shared/store/imports.ts'
import { notifyEngines } from '../../../shared/store/wake-up.ts'
import { missing, pathId, canAccess } from '../../api/scope.ts'
import type { ControlPlane } from '../../control-plane.ts'

/** One import by its id: found for a caller, paused, unpaused, cancelled. */

/** Throws `not_found`, also for an import that the caller can't access. */
export async function findImport(
  deps: ControlPlane,
  caller: Caller,
  text: string | undefined,
): Promise<ImportDocument> {
  const document = await deps.database.collections.imports.findOne({ _id: pathId(text, 'subscriber import') })
  if (document === null || !canAccess(caller, document.organization_id))
    throw missing('subscriber import', text)
  return document
}

const moves = {
  pause: {
    move: pauseImport,
    participle: 'paused',
    expected: 'scheduled, downloading, splitting or importing',
  },
  unpause: { move: unpauseImport, participle: 'unpaused', expected: 'paused' },
  cancel: { move: cancelImport, participle: 'cancelled', expected: unfinishedStates.join(', ') },
} as const

export type ImportMove = keyof typeof moves

/** Throws `validation_failed` where the import's state doesn't allow the move. */
export async function moveImport(
  deps: ControlPlane,
  document: ImportDocument,
  kind: ImportMove,
): Promise<ImportDocument> {
  const { collections } = deps.database
  const { move, participle, expected } = moves[kind]
  const moved = await move(deps, document._id)
  if (moved === null) {
    const state = (await readState(collections, document._id)) ?? document.state
    const reason = hasEnded(state) ? 'it has ended' : `it must be ${expected}`
    throw new RequestError(
      'validation_failed',
      `subscriber import ${document._id} can't be ${participle}: it is ${state}, and ${reason}`,
    )
  }
  await notifyEngines(collections, kind)
  return moved
}
