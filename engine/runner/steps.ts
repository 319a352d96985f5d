import assert from 'node:assert'
import type { ClientSession } from 'mongodb'
import type { ImportDocument } from '../../shared/contract/schemas/import.ts'
import { claimStep } from '../../shared/store/import-steps.ts'
import { processImport } from '../process-import.ts'
import type { WorkingImport } from '../store/import-queues.ts'
import type { DoubtfulClaims } from './doubtful-claims.ts'
import { slots, type Kind } from './kinds.ts'
import type { Quarantine } from './quarantine.ts'
import type { StepOptions } from './step.ts'

/** One for each step in a slot. */
export const maxStepSessions = slots.start.atOnce + slots.download.atOnce + slots.step.atOnce

export interface StepKindOptions extends StepOptions {
  engineId: string
  /** There are `maxStepSessions` of them. */
  stepSessions: ClientSession[]
  doubts: DoubtfulClaims
  quarantine: Quarantine
}

/** Steps of imports (obtain, split, finish), by their state: downloads have slots of their own. */
export function stepKind(
  which: 'download' | 'step',
  options: StepKindOptions,
): Kind<WorkingImport, ImportDocument> {
  const { engineId, database } = options
  return {
    ...stepWork(options),
    name: 'a step of an import',
    slots: slots[which],
    keyOf: ({ _id }) => _id,
    keyName: 'import_id',
    isSingle: true,
    claim: ({ _id, state }, token) => claimStep(database.collections, _id, state, { engineId, token }),
  }
}

/** How a step runs that was claimed, at an import's start or later. */
export function stepWork({
  stepSessions,
  doubts,
  quarantine,
  ...options
}: StepKindOptions): Pick<Kind<never, ImportDocument>, 'mayBegin' | 'run' | 'leased'> {
  return {
    mayBegin: () => !quarantine.isOccupied && options.folder.problem === null,
    run: async (document, { token, signal }) => {
      const session = stepSessions.pop()
      assert(session !== undefined, 'there is a session for each slot')
      try {
        await processImport({ document, step: { id: document._id, token }, session, signal }, options)
      } finally {
        stepSessions.push(session)
      }
    },
    leased: { doubts, quarantine, deaths: ({ lease }) => lease.deaths },
  }
}
