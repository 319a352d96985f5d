import { ImportError } from '../../../shared/contract/errors.ts'
import { makePlan } from '../../../shared/store/import-plan.ts'
import { recordDecoder } from '../../../shared/csv/character-set.ts'
import { cellText } from '../../../shared/csv/csv-cells.ts'
import { detectDialect, firstRecords, type SampleDialect } from '../../../shared/csv/dialect.ts'
import {
  detectCharacterSet,
  guessUtf16,
  readBeginning,
  type Beginning,
} from '../../../shared/csv/file-beginning.ts'
import type { Sample } from '../../../shared/csv/sampled-records.ts'
import type { CustomFieldDocument } from '../../../shared/contract/schemas/custom-field.ts'
import type { ContentFormat, FileFormat } from '../../../shared/contract/schemas/import.ts'
import type { ContentSample } from '../../api/body/parse-body.ts'
import type { RequestError } from '../../api/request-error.ts'
import { isHash } from '../../api/validation.ts'
import type { ControlPlane } from '../../control-plane.ts'
import {
  checkCreation,
  creationContext,
  type CreationContext,
  type ListContext,
} from '../subscriber-imports/create/check.ts'
import {
  checkOptions,
  type CheckedOptions,
  type CheckedSource,
  type ImportDeps,
} from '../subscriber-imports/create/options.ts'
import { optionWarnings, type SentRequest } from '../subscriber-imports/create/option-warnings.ts'
import { importCreation, type ImportCreation } from '../subscriber-imports/schemas.ts'
import { proposeColumns } from './column-proposals.ts'
import { detectHeader, linesBeforeHeader } from './header.ts'
import { rehearse, type RehearsalResult } from './rehearsal.ts'
import { readSample } from './sample.ts'
import { unreadableSource } from './refusals.ts'
import type { InspectionRequest, InspectionView } from './schemas.ts'
import { toView } from './view.ts'

interface Inspection {
  listContext: ListContext
  request: InspectionRequest
  sent: SentRequest
  content: ContentSample | null
  releaseSlot: () => void
}

/**
 * Detects the format and the columns of a source, and rehearses the import of its first records. Throws
 * `validation_failed` with all problems of the request, before the source is read.
 */
export async function inspectSource(
  deps: ControlPlane,
  { listContext, request: given, sent, content, releaseSlot }: Inspection,
): Promise<InspectionView> {
  const context = await creationContext(deps, listContext, given)
  const { source } = await checkCreation(deps, context, { body: asCreation(given, context), content })
  const asked = withNullEscape(given, sent)
  // Reading may take 30 s, during which the request must not occupy a slot.
  if (source.type !== 'json') releaseSlot()
  const sample = await readSample(deps, context.list.organization_id, source, content)
  // Each step takes milliseconds, and other requests are served between two of them.
  await deps.pacer.nextPiece()
  const { request, warnings: notes } = withSkippedLines(asked, readInspected(sample, asked, source))
  await deps.pacer.nextPiece()
  const { beginning, refusal } = readInspected(sample, request, source)
  await deps.pacer.nextPiece()
  const table = readTable(beginning, request, context.fields)
  await deps.pacer.nextPiece()
  const { proposals, dateFormat, warnings: unfitColumns } = proposeColumns(table.columns, context)
  const format = chooseFormat(request, beginning, table, dateFormat)
  const mapping = request.column_mapping ?? proposals.map(({ proposed }) => proposed)
  const isEmpty = table.columns.length === 0 && isBlank(beginning)
  const checked = checkMapped({ request, mapping, format, isEmpty }, context)
  const rehearsed = refusal === null ? checked : { options: null, error: refusal }
  const sampled = { beginning, format }
  const rehearsal = await rehearseSample(deps, context, sampled, rehearsed)
  return toView({
    format,
    skipLines: request.file_format.csv_skip_lines,
    proposals,
    rehearsal,
    dateFormat: request.file_format.date_format ?? dateFormat,
    mapping: checked.options?.options.column_mapping ?? mapping,
    columns: table.columns,
    warnings: [
      ...(checked.options === null
        ? []
        : optionWarnings(
            checked.options,
            { fields: context.fields, isInline: request.file_source.type === 'json' },
            sent,
          )),
      ...beginning.warnings,
      ...rehearsal.warnings,
      ...findWarnings(request, sample, source, table),
      ...notes,
      ...(request.column_mapping === undefined ? unfitColumns : []),
    ],
  })
}

/** A null that was sent asks for no escape. Parsing drops nulls, and a missing escape is detected. */
function withNullEscape(request: InspectionRequest, { document }: SentRequest): InspectionRequest {
  const format = isHash(document) ? document['file_format'] : undefined
  if (!isHash(format) || format['csv_field_escape'] !== null) return request
  return { ...request, file_format: { ...request.file_format, csv_field_escape: null } }
}

/** The request with the lines before the table, given or else detected, and a warning where more are detected than given. */
function withSkippedLines(
  request: InspectionRequest,
  { beginning }: { beginning: Beginning },
): { request: InspectionRequest & { file_format: { csv_skip_lines: number } }; warnings: string[] } {
  const { file_format: format } = request
  const { csv_has_headers: hasHeader, csv_skip_lines: given } = format
  const sample = textSample(beginning)
  const found = hasHeader === false ? 0 : linesBeforeHeader(sample, format)
  // The sample begins behind the given lines. Blank lines needn't be given.
  const isMore =
    given !== undefined &&
    sample.bytes
      .toString()
      .split(/\r\n|\n|\r/, found)
      .join('')
      .trim() !== ''
  return {
    request: { ...request, file_format: { ...format, csv_skip_lines: given ?? found } },
    warnings: isMore
      ? [`file_format.csv_skip_lines is ${given}, and the file looks as if it were ${given + found}`]
      : [],
  }
}

/** The beginning in UTF-8. */
function textSample({ stored, records: { bytes, isWhole } }: Beginning): Sample {
  const text = recordDecoder(stored.character_set).decode(bytes, 0, bytes.length)
  return { bytes: Buffer.from(text), isWhole }
}

/** A line that is longer than the sample has no record either, and is not blank. */
const isBlank = (beginning: Beginning): boolean => textSample(beginning).bytes.toString().trim() === ''

/**
 * The beginning in the character set of the request, or else a detected one. `refusal`: why an import with the request's
 * settings would fail; then the beginning is read in the character set that it seems to have. Throws
 * `validation_failed` for what no setting makes a table.
 */
function readInspected(
  sample: Sample,
  { file_format: format }: InspectionRequest,
  source: CheckedSource,
): { beginning: Beginning; refusal: string | null } {
  const {
    csv_field_separator: named,
    csv_field_enclosure: enclosure = '"',
    csv_field_escape: escape,
    csv_skip_lines: skipLines = 0,
  } = format
  // Null: where no line sets the separator, readTable detects it together with the enclosure.
  const separator = named === undefined || named === 'auto' ? null : named
  const read = (characterSet: FileFormat['character_set']) =>
    readBeginning(sample, { characterSet, separator, enclosure, escape, skipLines })
  const guess = guessUtf16(sample.bytes)
  const requested = source.type === 'json' ? 'utf-8' : (format.character_set ?? guess ?? 'auto')
  try {
    return { beginning: read(requested), refusal: null }
  } catch (error) {
    if (!(error instanceof ImportError)) throw error
    if (error.isNoTable) throw unreadableSource[source.type](error.message)
    for (const characterSet of guess === null ? (['auto'] as const) : ([guess, 'auto'] as const)) {
      try {
        return { beginning: read(characterSet), refusal: error.message }
      } catch (again) {
        if (!(again instanceof ImportError)) throw again
        if (again.isNoTable) throw unreadableSource[source.type](again.message)
      }
    }
    return { beginning: noTable, refusal: error.message }
  }
}

const noTable: Beginning = {
  stored: { character_set: 'utf-8', csv_field_separator: ',', start: 0, skipped_lines: 0 },
  ...{ transcodedFrom: null, markBytes: 0, warnings: [] },
  records: { bytes: Buffer.alloc(0), isWhole: true },
}

const maxColumns = 2_000

/** The request as a creation, with its defaults, or valid placeholders, for what is to be detected. */
const asCreation = (request: InspectionRequest, context: ImportDeps): ImportCreation => ({
  ...request,
  column_mapping: request.column_mapping ?? minimalMapping(context),
  file_format: importCreation.shape.file_format.parse(request.file_format),
})

function minimalMapping({ list, fields }: ImportDeps): string[] {
  const key = fields.find((field) => field._id === list.primary_key_custom_field_id)
  return ['email', ...(key === undefined ? [] : [key.name])]
}

interface Table {
  /** The detected dialect, regardless of the request. */
  detected: SampleDialect
  detectedHeader: boolean
  /** The dialect in which the records are read: given, or else detected. */
  dialect: SampleDialect
  hasHeader: boolean
  columns: { header: string | null; values: string[] }[]
}

/** The file's columns as text, in any character set. */
function readTable(
  beginning: Beginning,
  { file_format: format }: InspectionRequest,
  fields: CustomFieldDocument[],
): Table {
  const sample = textSample(beginning)
  const { stored } = beginning
  const hasLine = stored.skipped_lines > (format.csv_skip_lines ?? 0)
  const fromLine = hasLine ? stored.csv_field_separator : undefined
  const detected = detectDialect(sample, { separator: fromLine, enclosure: undefined, escape: undefined })
  const { csv_field_separator: separator, csv_field_enclosure: enclosure, csv_field_escape: escape } = format
  const isNamed = separator !== undefined && separator !== 'auto'
  const dialect =
    isNamed || enclosure !== undefined || escape !== undefined
      ? detectDialect(sample, { separator: isNamed ? separator : fromLine, enclosure, escape })
      : detected
  const { cells } = firstRecords(sample, dialect)
  const detectedHeader = detectHeader(
    cells,
    fields.map((field) => field.name),
  )
  const hasHeader = format.csv_has_headers ?? detectedHeader
  const header = hasHeader ? cells[0] : undefined
  const records = hasHeader ? cells.slice(1) : cells
  const width = Math.min(maxColumns, header?.length ?? Math.max(0, ...records.map(({ length }) => length)))
  const columns = Array.from({ length: width }, (_, i) => ({
    header: header === undefined ? null : cellText(header[i] ?? ''),
    values: records.map((record) => cellText(record[i] ?? '')).filter((cell) => cell !== ''),
  }))
  return { detected, detectedHeader, dialect, hasHeader, columns }
}

function chooseFormat(
  { file_format: format }: InspectionRequest,
  { stored }: Beginning,
  { dialect, hasHeader }: Table,
  dateFormat: FileFormat['date_format'] | null,
): ContentFormat {
  return {
    csv_has_headers: hasHeader,
    character_set: stored.character_set,
    csv_field_separator: dialect.separator,
    csv_field_enclosure: dialect.enclosure,
    csv_field_escape: dialect.escape,
    date_format: format.date_format ?? dateFormat ?? 'mdy',
    isDetected: (format.character_set ?? 'auto') === 'auto',
  }
}

/** The options of the import, or the reason why it couldn't be created. */
function checkMapped(
  {
    request,
    mapping,
    format: { isDetected: _, ...format },
    isEmpty,
  }: { request: InspectionRequest; mapping: (string | null)[]; format: ContentFormat; isEmpty: boolean },
  context: ImportDeps,
): { options: CheckedOptions | null; error: string | null } {
  const problems: RequestError[] = []
  const options = checkOptions(
    {
      ...request,
      column_mapping: mapping,
      file_format: { ...format, csv_skip_lines: request.file_format.csv_skip_lines ?? 0 },
    },
    context,
    problems,
  )
  if (problems.length === 0) return { options, error: null }
  return {
    options: null,
    error: `${problems.map(({ message }) => message).join('; ')}: ${isEmpty ? 'the file is empty, or has only lines that are skipped' : 'no such column was recognized, so give a column_mapping'}`,
  }
}

async function rehearseSample(
  { database: { collections } }: ControlPlane,
  { list, now }: CreationContext,
  { beginning, format }: { beginning: Beginning; format: ContentFormat },
  checked: ReturnType<typeof checkMapped>,
): Promise<RehearsalResult> {
  try {
    if (checked.options === null) return { error: checked.error, records: [], warnings: [] }
    const { options, fieldIds } = checked.options
    const plan = await makePlan(collections, {
      organization_id: list.organization_id,
      mailing_list_id: list._id,
      options,
      field_ids: fieldIds,
    })
    return await rehearse(beginning.records, {
      ...{ collections, list, plan, options, format, now },
      skippedLines: beginning.stored.skipped_lines,
    })
  } catch (error) {
    if (error instanceof ImportError) return { error: error.message, records: [], warnings: [] }
    throw error
  }
}

/** Warns of given settings that differ from the detected ones, and of data that the import would lose. */
function findWarnings(
  { file_format: format }: InspectionRequest,
  sample: Sample,
  source: CheckedSource,
  { detected, detectedHeader, dialect }: Table,
): string[] {
  const warnings: string[] = []
  const differs = (key: string, value: unknown, found: unknown) => {
    if (value !== undefined && value !== 'auto' && value !== found)
      warnings.push(
        `file_format.${key} is ${JSON.stringify(value)}, and the file looks as if it were ${JSON.stringify(found)}`,
      )
  }
  const { character_set: characterSet } = format
  // Only UTF-8 is recognized with certainty. Other sets have the same bytes for different characters.
  if (source.type !== 'json' && characterSet !== undefined && sample.bytes.some((byte) => byte >= 0x80)) {
    const found = detectCharacterSet(sample)
    if (characterSet === 'utf-8' || found === 'utf-8') differs('character_set', characterSet, found)
  }
  differs('csv_field_separator', format.csv_field_separator, detected.separator)
  differs('csv_field_enclosure', format.csv_field_enclosure, detected.enclosure)
  differs('csv_field_escape', format.csv_field_escape, detected.escape)
  if (dialect.separator === detected.separator)
    differs('csv_has_headers', format.csv_has_headers, detectedHeader)
  return warnings
}
