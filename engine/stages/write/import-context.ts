import { reactionsPerRecord } from '../../../shared/store/import-plan.ts'
import { rowDecider, valuesWithoutFile, type RowDecider } from '../../../shared/csv/row-decision.ts'
import { rowReader, type RowReader } from '../../../shared/csv/row-reader.ts'
import {
  contentFormat,
  type ContentFormat,
  type ImportDocument,
  type ImportPlan,
} from '../../../shared/contract/schemas/import.ts'
import { writtenBytes } from '../../../shared/store/value-bytes.ts'
import { reactionWriter } from './reaction-writer.ts'
import { subscriberWriter, updateWriter } from './subscriber-writer.ts'

/** The functions that read, decide and write an import's rows; made once per import and worker. */
export interface ImportContext {
  document: ImportDocument
  plan: ImportPlan
  /** How the records are read, and the failed ones written. */
  format: ContentFormat
  reader: RowReader
  decider: RowDecider
  writeSubscriber: ReturnType<typeof subscriberWriter>
  writeUpdate: ReturnType<typeof updateWriter>
  reactions: ReturnType<typeof reactionWriter>
  /** Bytes of the default values that added rows, and updated ones, get where the file has no value. */
  defaultBytes: { added: number; updated: number }
  /** Reaction ids that the split reserved for each record; 0 in a dry run. */
  reactionsPerRecord: number
}

/** Null before the import is split. */
export function importContext(document: ImportDocument): ImportContext | null {
  const { plan, partition, options, started_at: startedAt } = document
  if (plan === null || partition === null || startedAt === null) return null
  const reader = rowReader(plan, options)
  const ids = {
    importId: document._id,
    organizationId: document.organization_id,
    mailingListId: document.mailing_list_id,
  }
  return {
    document,
    plan,
    format: contentFormat(document),
    reader,
    decider: rowDecider({ plan, options, mappedFieldIds: reader.mappedFieldIds, startedAt }),
    writeSubscriber: subscriberWriter(ids.mailingListId, plan.fields),
    writeUpdate: updateWriter(plan.fields),
    reactions: reactionWriter(ids, plan),
    defaultBytes: {
      added: writtenBytes(valuesWithoutFile(plan, options), plan),
      updated: writtenBytes(
        plan.fields.map(({ id }) => plan.default_values[id] ?? null),
        plan,
      ),
    },
    reactionsPerRecord: options.dry_run ? 0 : reactionsPerRecord(plan),
  }
}
