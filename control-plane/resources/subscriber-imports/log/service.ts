import { promisify } from 'node:util'
import { inflate } from 'node:zlib'
import { databaseTime } from '../../../../shared/runtime/database.ts'
import {
  contentFormat,
  idsOfImport,
  isSeparatorFromLine,
  logDays,
  logKinds,
  type CharacterSet,
  type ImportDocument,
  type LogKind,
} from '../../../../shared/contract/schemas/import.ts'
import { readSums } from '../../../../shared/store/chunks.ts'
import { isTranscoded, textEncoder } from '../../../../shared/csv/character-set.ts'
import { readCells } from '../../../../shared/csv/csv-cells.ts'
import { withoutFormula, writeLine, type CsvDialect } from '../../../../shared/csv/csv-line.ts'
import { dayMs } from '../../../../shared/values/durations.ts'
import type { Reply } from '../../../api/endpoint.ts'
import type { ControlPlane } from '../../../control-plane.ts'
import { noLog } from '../refusals.ts'

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
  const purgedBefore = now.getTime() - logDays * dayMs
  const isPurged =
    document.logs_purged_at !== null ||
    (document.finished_at !== null && document.finished_at.getTime() <= purgedBefore)
  const counts = (await readSums(deps.database.collections, [document], { withFaults: false })).get(
    document._id,
  )?.counts
  if (kind === undefined || isPurged || counts === undefined || counts[kind] === 0)
    throw noLog(document._id, String(kindText))

  const charset = kind === 'failed' ? failedLogCharset(document) : 'utf-8'
  const extension = kind === 'failed' ? 'csv' : 'txt'
  return {
    stream:
      kind === 'failed'
        ? failedLog(deps, document, { charset, isSafe, hasLines })
        : addressLog(deps, document, kind),
    contentType: `${kind === 'failed' ? 'text/csv' : 'text/plain'}; charset=${charset}`,
    headers: { 'Content-Disposition': `attachment; filename="import-${document._id}-${kind}.${extension}"` },
  }
}

/** The import's set, so that the log imports again with the same settings; UTF-8 where the import converted it. */
function failedLogCharset(document: ImportDocument): CharacterSet {
  const set = requestedSet(document)
  return isTranscoded(set) ? 'utf-8' : set
}

function requestedSet(document: ImportDocument): CharacterSet {
  const { character_set: set } = document.options.file_format
  return set === 'auto' || document.source.type === 'json' ? contentFormat(document).character_set : set
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
  { charset, isSafe, hasLines }: { charset: CharacterSet; isSafe: boolean; hasLines: boolean },
): AsyncGenerator<Buffer> {
  const { header, options } = document
  const { column_mapping: mapping } = options
  const format = contentFormat(document)
  const encode = textEncoder(charset)
  const logLine = (cells: string[], fileLine: string): string => {
    const padding = new Array<string>(Math.max(0, mapping.length + 1 - cells.length)).fill('')
    const padded = cells.toSpliced(-1, 0, ...padding, ...(hasLines ? [fileLine] : []))
    return `${writeLine(isSafe ? padded.map(withoutFormula) : padded, format)}\n`
  }
  // A spreadsheet recognizes UTF-8 by its byte order mark.
  if (isTranscoded(requestedSet(document))) yield Buffer.from('\ufeff')
  if (isSeparatorFromLine(document)) yield Buffer.from(`sep=${format.csv_field_separator}\n`)
  const skipped = document.beginning?.skipped_text ?? ''
  if (skipped !== '') yield encode(isSafe ? safeLines(skipped, format) : skipped)
  if (header !== null) yield encode(logLine([...header, 'error'], 'line'))
  const failures = deps.database.collections.failures
    .find({ _id: idsOfImport(document._id) })
    .sort({ _id: 1 })
  let lines = ''
  for await (const failure of failures) {
    lines += logLine(readCells(failure.line, format), String(failure.file_line))
    if (lines.length < bytesPerPiece) continue
    yield encode(lines)
    lines = ''
  }
  if (lines !== '') yield encode(lines)
}

/** As many lines, in which no cell runs as a formula. */
const safeLines = (text: string, format: CsvDialect): string =>
  text
    .split(/\r\n|\n|\r/)
    .slice(0, -1)
    .map((line) => `${line === '' ? '' : writeLine(readCells(line, format).map(withoutFormula), format)}\n`)
    .join('')
