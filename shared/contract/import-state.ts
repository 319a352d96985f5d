/**
 * The states of an import, and which process makes each move:
 *
 *     create → scheduled ──engine──→ downloading ──engine──→ splitting ──engine──→ importing ──engine──→ finished
 *                  │  └────engine (not a url)────────────────────↑                     │
 *                  │                                                                    └─engine─→ failed
 *                  └─ pause (API) ─→ paused ─ unpause (API) ─→ the state it was paused from
 *
 * - failed is reached from downloading, splitting and importing; cancelled (API) from every state that isn't an end.
 * - Every move is a compare-and-set write on the import document. Its filter has the expected state, so that a move
 *   that lost a race matches and changes nothing. The writes are in shared/store/imports.ts and import-steps.ts. In two
 *   moves the engine's step names the next state and writes it by `writeInStep`: `splitting` in
 *   engine/process-import.ts, and `importing` in engine/stages/split/split-import.ts.
 * - `holds_list` is not a state but the lock of the list. An import takes it when it leaves `scheduled` and keeps it
 *   while paused. It releases it when no engine can write a row for it any more, possibly just after a cancel.
 */

/** States in which engines work on an import: obtain, split, import, finish. */
export const workingStates = ['downloading', 'splitting', 'importing'] as const
export const pausableStates = ['scheduled', ...workingStates] as const
export const unfinishedStates = [...pausableStates, 'paused'] as const
export const endedStates = ['finished', 'failed', 'cancelled'] as const
export const importStates = [...unfinishedStates, ...endedStates] as const
export type ImportState = (typeof importStates)[number]

export function hasEnded(state: ImportState): boolean {
  return endedStates.some((ended) => ended === state)
}
