import { ImportError } from '../../../shared/contract/errors.ts'
import { makePlan } from '../../../shared/store/import-plan.ts'
import { contentStartIn } from '../../../shared/csv/file-beginning.ts'
import type { CustomFieldDocument } from '../../../shared/contract/schemas/custom-field.ts'
import type { FileFormat } from '../../../shared/contract/schemas/import.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import type { ContentSample } from '../../api/body/sampled-content.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { checkCreation, creationContext, type CreationContext } from '../subscriber-imports/create/check.ts'
import {
  checkOptions,
  type CheckedOptions,
  type CheckedSource,
  type ImportDeps,
} from '../subscriber-imports/create/options.ts'
import type { ImportCreation } from '../subscriber-imports/schemas.ts'
import { asUtf8, detectCharacterSet, type CharacterSet } from './character-set.ts'
import { proposeColumns, type Proposal } from './column-proposals.ts'
import { detectDialect, detectHeader, firstRecords, type SampleDialect } from './dialect.ts'
import { rehearse, shortened, type RehearsedRecord } from './rehearsal.ts'
import { readSample, type Sample } from './sample.ts'
import type { InspectionRequest, InspectionView } from './schemas.ts'

interface Inspection {
  list: MailingListDocument
  given: InspectionRequest
  content: ContentSample | null
}

/** Throws `validation_failed` with all problems of the request, before its source is read. */
export async function checkInspection(
  deps: ControlPlane,
  { list, given, content }: Inspection,
): Promise<{ context: CreationContext; source: CheckedSource }> {
  const context = await creationContext(deps, list, given)
  const creation = { given: asCreation(given, context), content }
  const { source } = await checkCreation(deps, context, creation)
  return { context, source }
}

/** Detects the format and the columns of a source, and rehearses the import of its first records. */
export async function inspectSource(
  deps: ControlPlane,
  inspection: Inspection & { releaseSlot: () => void },
): Promise<InspectionView> {
  const { list, given, content, releaseSlot } = inspection
  const { context, source } = await checkInspection(deps, inspection)
  // Reading may take 30 s, during which the request must not occupy a slot.
  if (source.type !== 'json') releaseSlot()
  const sample = await readSample(deps, list.organization_id, source, content)
  // Inline content was decoded with the request.
  const characterSet = source.type === 'json' ? 'utf-8' : detectCharacterSet(sample.bytes, sample)
  const table = readTable(sample, characterSet, given, context.fields)
  const { proposals, dateFormat } = proposeColumns(table.columns, context)
  const format = chooseFormat(given, characterSet, table, dateFormat)
  const mapping = given.column_mapping ?? proposals.map(({ proposed }) => proposed)
  const checked = checkMapped(given, mapping, format, context)
  const { error, records } = await rehearseSample(deps, { list, sample, checked, now: context.now })
  return {
    character_set: characterSet,
    csv_field_separator: table.detected.separator,
    csv_field_enclosure: table.detected.enclosure,
    csv_has_headers: table.detectedHeader,
    date_format: dateFormat,
    column_mapping: checked.options?.options.column_mapping ?? mapping,
    columns: table.columns.map(({ header, values }, i) => ({
      header: header === null ? null : shortened(header),
      samples: [...new Set(values)].slice(0, maxSampledValues).map(shortened),
      ...(proposals[i] ?? noProposal),
    })),
    import_error: error,
    records,
    warnings: findWarnings(given, characterSet, source, table),
  }
}

const noProposal: Proposal = { proposed: null, confidence: 0 }
const maxSampledValues = 5
const maxColumns = 2_000

/** The request as a creation, with valid placeholders for the parts that are to be detected. */
const asCreation = (given: InspectionRequest, context: ImportDeps): ImportCreation => ({
  ...given,
  column_mapping: given.column_mapping ?? minimalMapping(context),
  file_format: completeFormat(given),
})

function minimalMapping({ list, fields }: ImportDeps): string[] {
  const key = fields.find((field) => field._id === list.primary_key_custom_field_id)
  return ['email', ...(key === undefined ? [] : [key.name])]
}

const completeFormat = ({ file_format: given }: InspectionRequest): FileFormat => ({
  csv_has_headers: given.csv_has_headers ?? true,
  character_set: given.character_set ?? 'utf-8',
  csv_field_separator: given.csv_field_separator ?? ',',
  csv_field_enclosure: given.csv_field_enclosure ?? '"',
  date_format: given.date_format ?? 'mdy',
})

interface Table {
  /** As detected, regardless of the request. */
  detected: SampleDialect
  detectedHeader: boolean
  /** As the records are read: given, or else detected. */
  dialect: SampleDialect
  hasHeader: boolean
  columns: { header: string | null; values: string[] }[]
}

/** The file's columns as text, in any character set. */
function readTable(
  { bytes, isWhole }: Sample,
  characterSet: CharacterSet,
  { file_format: given }: InspectionRequest,
  fields: CustomFieldDocument[],
): Table {
  const sample = { bytes: asUtf8(bytes, characterSet), isWhole }
  const detected = detectDialect(sample, { separator: undefined, enclosure: undefined })
  const dialect = detectDialect(sample, {
    separator: given.csv_field_separator,
    enclosure: given.csv_field_enclosure,
  })
  const { cells } = firstRecords(sample, dialect)
  const detectedHeader = detectHeader(
    cells,
    fields.map((field) => field.name),
  )
  const hasHeader = given.csv_has_headers ?? detectedHeader
  const header = hasHeader ? cells[0] : undefined
  const records = hasHeader ? cells.slice(1) : cells
  const width = Math.min(maxColumns, header?.length ?? Math.max(0, ...records.map(({ length }) => length)))
  const columns = Array.from({ length: width }, (_, i) => ({
    header: header === undefined ? null : (header[i] ?? '').trim(),
    values: records.map((record) => (record[i] ?? '').trim()).filter((cell) => cell !== ''),
  }))
  return { detected, detectedHeader, dialect, hasHeader, columns }
}

/** The format for the import, or the reason why imports can't read the file. */
function chooseFormat(
  { file_format: given }: InspectionRequest,
  characterSet: CharacterSet,
  { dialect, hasHeader }: Table,
  dateFormat: FileFormat['date_format'] | null,
): FileFormat | { error: string } {
  const { separator } = dialect
  if (separator === '|')
    return { error: 'the cells are separated by bars (|); imports read commas, semicolons and tabs' }
  return {
    csv_has_headers: hasHeader,
    character_set:
      given.character_set ??
      (characterSet === 'iso-8859-1' || characterSet === 'windows-1252' ? 'iso-8859-1' : 'utf-8'),
    csv_field_separator: separator,
    csv_field_enclosure: dialect.enclosure,
    date_format: given.date_format ?? dateFormat ?? 'mdy',
  }
}

/** The options of the import, or the reason why it couldn't be created. */
function checkMapped(
  given: InspectionRequest,
  mapping: (string | null)[],
  format: FileFormat | { error: string },
  context: ImportDeps,
): { options: CheckedOptions | null; error: string | null } {
  if ('error' in format) return { options: null, error: format.error }
  const problems: string[] = []
  const options = checkOptions({ ...given, column_mapping: mapping, file_format: format }, context, problems)
  if (problems.length === 0) return { options, error: null }
  return {
    options: null,
    error: `${problems.join('; ')}: no such column was recognized, so give a column_mapping`,
  }
}

async function rehearseSample(
  deps: ControlPlane,
  {
    list,
    sample,
    checked,
    now,
  }: {
    list: MailingListDocument
    sample: Sample
    checked: ReturnType<typeof checkMapped>
    now: Date
  },
): Promise<{ error: string | null; records: RehearsedRecord[] }> {
  const { collections } = deps.database
  try {
    const start = contentStartIn(sample.bytes)
    if (checked.options === null) return { error: checked.error, records: [] }
    const { options, fieldIds } = checked.options
    const plan = await makePlan(collections, {
      organization_id: list.organization_id,
      mailing_list_id: list._id,
      options,
      field_ids: fieldIds,
      first_new_subscriber_id: 1,
    })
    return await rehearse(
      { bytes: sample.bytes.subarray(start), isWhole: sample.isWhole },
      {
        collections,
        organizationId: list.organization_id,
        mailingListId: list._id,
        plan,
        options,
        now,
      },
    )
  } catch (error) {
    if (error instanceof ImportError) return { error: error.message, records: [] }
    throw error
  }
}

/** Warns of given settings that differ from the detected ones, and of data that the import would lose. */
function findWarnings(
  { file_format: given }: InspectionRequest,
  characterSet: CharacterSet,
  source: CheckedSource,
  { detected, detectedHeader, dialect }: Table,
): string[] {
  const warnings: string[] = []
  const differs = (key: string, value: unknown, found: unknown) => {
    if (value !== undefined && value !== found)
      warnings.push(
        `file_format.${key} is ${JSON.stringify(value)}, and the file looks as if it were ${JSON.stringify(found)}`,
      )
  }
  if (characterSet === 'windows-1252')
    warnings.push(
      'the file has bytes 0x80-0x9F, which are control characters in ISO-8859-1: it is windows-1252, as spreadsheets write it; save it as UTF-8, or its dashes, quotes and euro signs get lost',
    )
  else if (source.type !== 'json') differs('character_set', given.character_set, characterSet)
  differs('csv_field_separator', given.csv_field_separator, detected.separator)
  differs('csv_field_enclosure', given.csv_field_enclosure, detected.enclosure)
  if (dialect.separator === detected.separator)
    differs('csv_has_headers', given.csv_has_headers, detectedHeader)
  return warnings
}
