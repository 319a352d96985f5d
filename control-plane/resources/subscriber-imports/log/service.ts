import { promisify } from 'node:util'
import { inflate } from 'node:zlib'
import { databaseTime } from '../../../../shared/runtime/database.ts'
import { RequestError } from '../../../api/request-error.ts'
import {
  contentFormat,
  idsOfImport,
  logDays,
  logKinds,
  type ImportDocument,
  type LogKind,
} from '../../../../shared/contract/schemas/import.ts'
import { readSums } from '../../../../shared/store/chunks.ts'
import { readCells } from '../../../../shared/csv/csv-cells.ts'
import { withoutFormula, writeLine } from '../../../../shared/csv/csv-line.ts'
import type { Reply } from '../../../api/endpoint.ts'
import type { ControlPlane } from '../../../control-plane.ts'

const inflateAsync = promisify(inflate)

/**
 * An import's log, streamed from what its batches have committed, so it is correct while the import runs. Throws
 * `not_found` for an unknown kind, one without an entry, and logs that are purged.
 */
export async function importLog(
  deps: ControlPlane,
  document: ImportDocument,
  kindText: string | undefined,
  { isSafe, hasLines }: { isSafe: boolean; hasLines: boolean },
): Promise<Reply> {
  const kind = logKinds.find((candidate) => candidate === kindText)
  const now = await databaseTime(deps.database.db)
  const purgedBefore = now.getTime() - logDays * 24 * 3_600_000
  const isPurged =
    document.logs_purged_at !== null ||
    (document.finished_at !== null && document.finished_at.getTime() <= purgedBefore)
  const counts = (await readSums(deps.database.collections, [document])).get(document._id)?.counts
  if (kind === undefined || isPurged || counts === undefined || counts[kind] === 0)
    throw new RequestError('not_found', `subscriber import ${document._id} has no log ${String(kindText)}`)

  const charset = kind === 'failed' ? contentFormat(document).character_set : 'utf-8'
  const extension = kind === 'failed' ? 'csv' : 'txt'
  return {
    stream:
      kind === 'failed'
        ? failedLog(deps, document, { encoding: charset === 'utf-8' ? 'utf8' : 'latin1', isSafe, hasLines })
        : addressLog(deps, document, kind),
    contentType: `${kind === 'failed' ? 'text/csv' : 'text/plain'}; charset=${charset}`,
    headers: { 'Content-Disposition': `attachment; filename="import-${document._id}-${kind}.${extension}"` },
  }
}

async function* addressLog(
  deps: ControlPlane,
  document: ImportDocument,
  kind: LogKind,
): AsyncGenerator<Buffer> {
  const path = `logs.${kind}`
  const outcomes = deps.database.collections.outcomes
    .find({ _id: idsOfImport(document._id), [path]: { $exists: true } }, { projection: { [path]: 1 } })
    .sort({ _id: 1 })
    .batchSize(100)
  for await (const { logs } of outcomes) {
    const deflated = logs[kind]
    if (deflated !== undefined) yield await inflateAsync(deflated)
  }
}

const bytesPerPiece = 64 * 1024

/**
 * The failed records in file order, as a CSV file that can be corrected and imported again. With `isSafe` formulas become
 * text, so that a spreadsheet doesn't run them. With `hasLines` the cell before the message says on which line of the
 * file the record begins.
 */
async function* failedLog(
  deps: ControlPlane,
  document: ImportDocument,
  { encoding, isSafe, hasLines }: { encoding: 'utf8' | 'latin1'; isSafe: boolean; hasLines: boolean },
): AsyncGenerator<Buffer> {
  const { header, options } = document
  const { file_format: format, column_mapping: mapping } = options
  const logLine = (cells: string[], fileLine: string): string => {
    const padding = new Array<string>(Math.max(0, mapping.length + 1 - cells.length)).fill('')
    const padded = cells.toSpliced(-1, 0, ...padding, ...(hasLines ? [fileLine] : []))
    return `${writeLine(isSafe ? padded.map(withoutFormula) : padded, format)}\n`
  }
  if (header !== null) yield Buffer.from(logLine([...header, 'error'], 'line'), encoding)
  const failures = deps.database.collections.failures
    .find({ _id: idsOfImport(document._id) })
    .sort({ _id: 1 })
  let lines = ''
  for await (const failure of failures) {
    lines += logLine(readCells(failure.line, format), String(failure.file_line ?? ''))
    if (lines.length < bytesPerPiece) continue
    yield Buffer.from(lines, encoding)
    lines = ''
  }
  if (lines !== '') yield Buffer.from(lines, encoding)
}
