/**
 * The states of an import and who moves it:
 *
 *     create → scheduled ──engine──→ downloading ──engine──→ splitting ──engine──→ importing ──engine──→ finished
 *                  │  └────engine (not a url)────────────────────↑                     │
 *                  │                                                                    └─engine─→ failed
 *                  └─ pause (API) ─→ paused ─ unpause (API) ─→ the state it was paused from
 *
 * - failed is reached from downloading, splitting and importing; cancelled (API) from whatever hasn't ended.
 * - Every move is one guarded write on the import document (shared/store/imports.ts and import-steps.ts): expected
 *   state in the filter, so a move that lost a race matches nothing and changes nothing.
 * - `holds_list` is not a state. An import takes it when it leaves `scheduled`, keeps it while paused, and gives it
 *   back when nobody can write a row for it any more, which may be a moment after it was cancelled.
 */
export const importStates = [
  'scheduled',
  'downloading',
  'splitting',
  'importing',
  'paused',
  'finished',
  'failed',
  'cancelled',
] as const
export type ImportState = (typeof importStates)[number]

/** In which engines do something for it: obtain, split, import, finish. */
export const workingStates = [
  'downloading',
  'splitting',
  'importing',
] as const satisfies readonly ImportState[]

export const endedStates = ['finished', 'failed', 'cancelled'] as const satisfies readonly ImportState[]

export const pausableStates = [
  'scheduled',
  'downloading',
  'splitting',
  'importing',
] as const satisfies readonly ImportState[]

export const unfinishedStates = [...pausableStates, 'paused'] as const satisfies readonly ImportState[]

export function hasEnded(state: ImportState): boolean {
  return (endedStates as readonly ImportState[]).includes(state)
}
