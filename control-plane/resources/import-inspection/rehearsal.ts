import { recordDecoder } from '../../../shared/csv/character-set.ts'
import { BatchReader, type ReadRecord } from '../../../shared/csv/chunk-records.ts'
import { readCells } from '../../../shared/csv/csv-cells.ts'
import { checkedRecords, encodingError } from '../../../shared/csv/file-beginning.ts'
import { FileWarnings } from '../../../shared/csv/file-warnings.ts'
import { IdentityReader } from '../../../shared/csv/identity-reader.ts'
import { headerLength, writeHeader } from '../../../shared/csv/partition-file.ts'
import { dialectBytes, type ScannedRecord } from '../../../shared/csv/record-scanner.ts'
import { rowDecider, needsQuota, type ExistingSubscriber } from '../../../shared/csv/row-decision.ts'
import { RowFailure } from '../../../shared/csv/row-fault.ts'
import { readRow, rowReader, type Row, type RowReader } from '../../../shared/csv/row-reader.ts'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import type { FieldValue } from '../../../shared/contract/schemas/custom-field.ts'
import type {
  ContentFormat,
  ImportOptions,
  ImportPlan,
  RowResult,
} from '../../../shared/contract/schemas/import.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import { readSubscriberLimit } from '../../../shared/store/subscriber-quota.ts'
import { RefusalCounts } from './refusal-counts.ts'
import { activeSubscribers } from '../../../shared/store/subscriber-counts.ts'
import { findValueSizes, makesTooLarge, noSizes, valuesTooLarge } from '../../../shared/store/value-bytes.ts'
import { subscriberKey } from '../../../shared/values/identity.ts'
import { TextBytes } from '../../../shared/values/text-bytes.ts'
import { formatInstant } from '../../../shared/values/time-zone.ts'
import { scanSample, type Sample } from '../../../shared/csv/sampled-records.ts'

/**
 * Rehearses the import of a sample's first records. They pass the same code as an import's records (scanner, identity,
 * cells, row, decision), and existing subscribers are read; only the writes are missing.
 */
interface Rehearsal {
  collections: Collections
  list: MailingListDocument
  plan: ImportPlan
  options: ImportOptions
  /** How the sample is read. */
  format: ContentFormat
  /** Lines before the sample. */
  skippedLines: number
  now: Date
}

interface RehearsedRecord {
  /** Its number in the file, from 1. */
  record: number
  result: RowResult
  error: string | null
  /** By mapped column. A failed record has the texts as typed; a blank cell is null. */
  values: Record<string, FieldValue | null>
}

const rehearsedRecords = 20

/** `error`: the reason why the whole import would fail; then there are no records. */
export interface RehearsalResult {
  error: string | null
  records: RehearsedRecord[]
  /** Those that the import would have of the sample, and how many records say no to mail. */
  warnings: string[]
}

export async function rehearse(sample: Sample, rehearsal: Rehearsal): Promise<RehearsalResult> {
  const { records, invalid, checked, warnings } = readRecords(sample, rehearsal)
  const refusal = encodingError(invalid, Math.max(1, checked), rehearsal.format)
  if (refusal !== null) return { error: refusal.message, records: [], warnings: [] }
  return { error: null, records: await decideAll(records, rehearsal), warnings }
}

function readRecords(
  sample: Sample,
  { plan, options, format, skippedLines }: Rehearsal,
): { records: ReadRecord[]; invalid: number; checked: number; warnings: string[] } {
  const identities = new IdentityReader(plan, format)
  const decoder = recordDecoder(format.character_set)
  const warnings = new FileWarnings(plan, format)
  let refusals = new RefusalCounts([], plan, options)
  const records: ReadRecord[] = []
  let headerIsNext = format.csv_has_headers
  let header: string[] | null = null
  let invalid = 0
  let number = 0
  scanSample(sample, {
    dialect: dialectBytes(format),
    wantedColumn: plan.identity.column,
    skippedLines,
    onRecord(record) {
      const { bytes, start, end } = record
      const cells = () => readCells(decoder.decode(bytes, start, end), format)
      if (headerIsNext) {
        headerIsNext = false
        header = cells()
        warnings.headerRecord(header)
        warnings.noticeEnclosures(record)
        refusals = new RefusalCounts(header, plan, options)
        return
      }
      number += 1
      if (number === 1 && !format.csv_has_headers) warnings.firstRecord(cells())
      warnings.notice(record, number)
      if (refusals.isNeeded) refusals.add(cells())
      if (number <= checkedRecords && !decoder.isValid(bytes, start, end)) invalid += 1
      if (number <= rehearsedRecords) records.push(readRecord(record, number, identities, format))
    },
  })
  if (number === 0 && sample.isWhole) warnings.noRecord(header)
  return {
    records,
    invalid,
    checked: Math.min(number, checkedRecords),
    warnings: [...warnings.sentences, ...refusals.sentences(number)],
  }
}

/** Puts the record into the form of a partition, and reads it with the reader of chunks. */
function readRecord(
  record: ScannedRecord,
  number: number,
  identities: IdentityReader,
  format: ContentFormat,
): ReadRecord {
  const identityLength = identities.read(record)
  const identity = identities.identityBytes.subarray(0, Math.max(0, identityLength))
  const header = Buffer.alloc(headerLength)
  const length = record.end - record.start
  const { line, flags } = record
  writeHeader(header, 0, { number, line, flags, identityLength: identity.length, length })
  const bytes = Buffer.concat([header, identity, record.bytes.subarray(record.start, record.end)])
  const kind = identityLength === -1 ? 'unidentified' : 'sorted'
  const read = new BatchReader({ offsets: Uint32Array.of(0), bytes }, format, kind).read()
  if (read === null) throw new Error('a batch of one record is empty')
  return read
}

/** The order of the checks is that of `rowDecider`. */
async function decideAll(records: ReadRecord[], rehearsal: Rehearsal): Promise<RehearsedRecord[]> {
  const { collections, list, plan, options, now } = rehearsal
  const reader = rowReader(plan, options)
  const decider = rowDecider({
    plan,
    options,
    mappedFieldIds: reader.mappedFieldIds,
    startedAt: now,
  })
  const [existing, limit, active] = await Promise.all([
    findExisting(collections, list._id, records, decider.projection),
    readSubscriberLimit(collections, list.organization_id),
    activeSubscribers(collections, undefined, list.organization_id),
  ])
  const sizes = await findValueSizes(collections, [...existing.keys()])
  let remainingQuota = limit === null ? Infinity : Math.max(0, limit - active)
  const identities = new Set<string>()
  return records.map((record): RehearsedRecord => {
    const { number } = record
    const identity = record.identity?.toString() ?? null
    const asTyped = (result: RowResult, error: string | null): RehearsedRecord => ({
      ...{ record: number, result, error },
      values: typedValues(record.cells.strings(), plan),
    })
    if (identity !== null && identities.has(identity)) return asTyped('skipped_duplicate', null)
    if (identity !== null) identities.add(identity)
    const row = readRow(reader, record)
    if (row instanceof RowFailure) return asTyped('failed', row.reason)
    if (identity === null) throw new Error('a valid row has no identity')
    const key = subscriberKey(list._id, identity)
    const decision = decider.decide({ row, newId: 1, now: now.getTime() }, existing.get(key))
    if (decision.result === 'failed') return asTyped('failed', decision.reason)
    const isWritten = decision.result === 'added' || decision.result === 'updated'
    if (isWritten && makesTooLarge(decision, plan, sizes.get(key) ?? noSizes))
      return asTyped('failed', valuesTooLarge)
    const values = rowValues(row, plan, reader)
    if (needsQuota(decision)) {
      if (remainingQuota === 0) return { record: number, result: 'skipped_over_limit', error: null, values }
      remainingQuota -= 1
    }
    return { record: number, result: decision.result, error: null, values }
  })
}

async function findExisting(
  collections: Collections,
  listId: number,
  records: ReadRecord[],
  projection: Record<string, 1>,
): Promise<Map<string, ExistingSubscriber>> {
  const keys = records.flatMap(({ identity }) =>
    identity === null ? [] : subscriberKey(listId, String(identity)),
  )
  const found = await collections.subscribers
    .find({ _id: { $in: [...new Set(keys)] } }, { projection })
    .toArray()
  return new Map(found.map((subscriber) => [subscriber._id, subscriber]))
}

/** The names of the mapped columns; null for an ignored column. */
const columnNames = ({ columns, fields }: ImportPlan): (string | null)[] =>
  columns.map((column) => {
    if (column === null) return null
    if (column.kind === 'built_in') return column.name
    return fields.find((field) => field.id === column.field_id)?.name ?? null
  })

const maxShownValueLength = 1_000

function typedValues(cells: string[], plan: ImportPlan): RehearsedRecord['values'] {
  return Object.fromEntries(
    columnNames(plan).flatMap((name, i) => {
      const text = (cells[i] ?? '').trim()
      return name === null ? [] : [[name, text === '' ? null : shortened(text)] as const]
    }),
  )
}

function rowValues(row: Row, plan: ImportPlan, reader: RowReader): RehearsedRecord['values'] {
  const zone = plan.time_zone_name
  return Object.fromEntries(
    columnNames(plan).flatMap((name, i) => {
      const column = plan.columns[i]
      if (name === null || column === null || column === undefined) return []
      const value =
        column.kind === 'field'
          ? (row.fields[reader.mappedFieldIds.indexOf(column.field_id)] ?? null)
          : column.name === 'consent'
            ? row.status && row.status === 'active'
            : row[column.name]
      const isTime = column.kind === 'built_in' && typeof value === 'number'
      if (isTime) return [[name, formatInstant(new Date(value), zone)] as const]
      const isText = typeof value === 'string' || value instanceof TextBytes
      return [[name, isText ? shortened(String(value)) : value] as const]
    }),
  )
}

export const shortened = (text: string): string =>
  text.length > maxShownValueLength ? `${text.slice(0, maxShownValueLength)}…` : text
