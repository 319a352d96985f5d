import type { ImportState } from '../contract/import-state.ts'
import {
  logKinds,
  shownFilename,
  type ImportCounts,
  type ImportDocument,
} from '../contract/schemas/import.ts'
import type { Logger } from '../runtime/logger.ts'

/**
 * A line of the log for each change of an import's state, written after its commit: a kill may lose a line, but no line
 * tells of a change that wasn't made.
 */

/** Who changed it: a request, whose caller the other fields name, or an engine, which all lines of its log name. */
type ChangedBy = { by: 'api' | 'service' } & Record<string, unknown>

interface StateChange {
  /** Null for the creation. */
  from: ImportState | null
  to: ImportState
  by: ChangedBy
  /** At the end; `isOfClient`: it failed for what its file or its request is. */
  end?: { at: Date; counts: ImportCounts; reason?: string; isOfClient?: boolean }
}

type LoggedImport = Pick<ImportDocument, 'organization_id' | 'mailing_list_id' | 'source' | 'started_at'>

const messages: Partial<Record<ImportState, string>> = {
  scheduled: 'import created',
  paused: 'import paused',
  finished: 'import finished',
  failed: 'import failed',
  cancelled: 'import cancelled',
}

/** The lines of `log` must have the import's id. */
export function logImportState(
  log: Logger,
  { organization_id, mailing_list_id, source, started_at }: LoggedImport,
  { from, to, by, end }: StateChange,
): void {
  const fields = {
    event: 'import_state',
    ...by,
    // The import's, also where a system admin of another organization acts.
    ...{ organization_id, mailing_list_id },
    ...{ filename: shownFilename(source), from, to },
    ...(end === undefined
      ? {}
      : { seconds: secondsBetween(started_at, end.at), reason: end.reason, ...pickCounts(end.counts) }),
  }
  log[to === 'failed' && end?.isOfClient !== true ? 'warn' : 'info'](fields, messageOf(from, to))
}

function messageOf(from: ImportState | null, to: ImportState): string {
  if (from === 'paused' && to !== 'cancelled') return 'import resumed'
  return messages[to] ?? (from === 'scheduled' ? 'import started' : `import is ${to}`)
}

/** 0 for an import that never started. */
const secondsBetween = (startedAt: Date | null, endedAt: Date): number =>
  startedAt === null ? 0 : Math.max(0, endedAt.getTime() - startedAt.getTime()) / 1_000

const pickCounts = (counts: ImportCounts) =>
  Object.fromEntries(logKinds.map((kind) => [kind, counts[kind]] as const))
