import { reactionsPerRecord } from '../../../shared/store/import-plan.ts'
import { rowDecider, valuesWithoutFile } from '../../../shared/csv/row-decision.ts'
import { rowReader } from '../../../shared/csv/row-reader.ts'
import { contentFormat, type ImportDocument } from '../../../shared/contract/schemas/import.ts'
import { writtenBytes } from '../../../shared/store/value-bytes.ts'
import { reactionWriter } from './reaction-writer.ts'
import { subscriberWriter, updateWriter } from './subscriber-writer.ts'

export type ImportContext = NonNullable<ReturnType<typeof importContext>>

/**
 * The functions that read, decide and write an import's rows; made once per import and worker. Null before the import
 * has a plan.
 */
export function importContext(document: ImportDocument) {
  const { plan, options, started_at: startedAt } = document
  if (plan === null || startedAt === null) return null
  const reader = rowReader(plan, options)
  const ids = {
    importId: document._id,
    organizationId: document.organization_id,
    mailingListId: document.mailing_list_id,
  }
  return {
    document,
    plan,
    /** How the records are read, and the failed ones written. */
    format: contentFormat(document),
    reader,
    decider: rowDecider({ plan, options, mappedFieldIds: reader.mappedFieldIds, startedAt }),
    writeSubscriber: subscriberWriter(ids.mailingListId, plan.fields),
    writeUpdate: updateWriter(ids.mailingListId, plan.fields),
    reactions: reactionWriter(ids, plan),
    /** Bytes of the default values that added rows, and updated ones, get where the file has no value. */
    defaultBytes: {
      added: writtenBytes(valuesWithoutFile(plan, options), plan),
      updated: writtenBytes(
        plan.fields.map(({ id }) => plan.default_values[id] ?? null),
        plan,
      ),
    },
    /** Reaction ids that the split reserved for each record; 0 in a dry run. */
    reactionsPerRecord: options.dry_run ? 0 : reactionsPerRecord(plan),
  }
}
