import type { ClientSession } from 'mongodb'
import { actorFields } from '../../../../shared/store/api-keys.ts'
import { clock } from '../../../../shared/runtime/clock.ts'
import { conflictTimeoutMs, inTransaction } from '../../../../shared/runtime/transactions.ts'
import type { Logger } from '../../../../shared/runtime/logger.ts'
import { isDuplicateKey } from '../../../../shared/runtime/driver-errors.ts'
import { BusyError } from '../../../../shared/contract/errors.ts'
import { sealed } from '../../../../shared/store/secrets.ts'
import type { IdempotencyDocument } from '../../../../shared/contract/schemas/bookkeeping.ts'
import type { ImportDocument } from '../../../../shared/contract/schemas/import.ts'
import { freeLease } from '../../../../shared/contract/schemas/lease.ts'
import { newImportView } from '../../../../shared/processes/import-views.ts'
import { logImportState } from '../../../../shared/processes/import-log.ts'
import { insertImport } from '../../../../shared/store/imports.ts'
import { maxBytesInDocument } from '../../../../shared/storage/staging/packed-content.ts'
import { wakeUp } from '../../../../shared/store/wake-up.ts'
import type { RequestCaller } from '../../../api/request-locals.ts'
import { noMailingList } from '../../../api/scope.ts'
import type { InlineContent } from '../../../api/body/parse-body.ts'
import type { ControlPlane } from '../../../control-plane.ts'
import { insertReply } from '../../../store/idempotency-keys.ts'
import { lockListAtRevision } from '../../../store/revisions.ts'
import { allocateEventId, auditedImport, partyOf, recordAct } from '../../audit-events/record.ts'
import { unconfirmed } from '../refusals.ts'
import type { CreatedImportView, ImportCreation, ImportView } from '../schemas.ts'
import { admitImport, withdrawImport } from './admission.ts'
import { checkCreation, creationContext, readListContext, type ListContext } from './check.ts'
import { earlierReply, idempotencyId, storedReply } from './idempotency.ts'
import { optionWarnings, type SentRequest } from './option-warnings.ts'

export interface CreationRequest {
  caller: RequestCaller
  log: Logger
  listContext: ListContext
  body: ImportCreation
  sent: SentRequest
  /** The text of the file source, packed. It is the source where the body's source type is `json`. */
  content: InlineContent | null
  /** Digest of the body as sent. */
  bodyDigest: string
  /** The key that the client sent; null for none. */
  idempotencyKey: string | null
}

/**
 * Creates an import, or replies as to the first request with the same Idempotency-Key. Throws `validation_failed`, also for
 * a key that was used with another body; 503 where the first request isn't confirmed yet.
 */
export async function createImport(deps: ControlPlane, request: CreationRequest): Promise<CreatedImportView> {
  const { collections } = deps.database
  const keyId = idempotencyId(request)
  const earlier = await earlierReply(deps, keyId, request.bodyDigest)
  if (earlier !== null) return earlier

  // Where DATA_DIR is missing, the key that encrypts the import's secrets may be missing too.
  await deps.folder.require()
  const deadline = clock.monotonicMs() + conflictTimeoutMs
  const [checkedFirst, eventId] = await Promise.all([
    checkedDocument(deps, request, null),
    allocateEventId(deps.database.ids),
  ])
  let checked = checkedFirst
  const { _id: id } = checked.document
  await admitImport(deps, request, checked.document)
  for (;;) {
    const { document, revision } = checked
    const view = await viewOfNew(deps, checked)
    const stored = sealed(document, deps.secrets)
    const reply = keyId === null ? null : storedReply(deps, keyId, request, stored, view)
    const insertion = { document: stored, revision, reply, deadline, caller: request.caller, eventId }
    const outcome = await insertUnlessListChanged(deps, insertion)
    if (outcome === 'done') {
      logImportState(request.log.child({ import_id: id }), document, {
        ...{ from: null, to: 'scheduled' },
        by: { by: 'api', ...actorFields(request.caller, request.caller.address) },
      })
      await wakeUp(collections, {
        ...{ reason: 'created', organization_id: document.organization_id },
        list_id: document.options.dry_run ? null : document.mailing_list_id,
      })
      return view
    }
    if (outcome === 'key_taken') {
      const first = await earlierReply(deps, keyId, request.bodyDigest)
      if (first === null) throw unconfirmed()
      return first
    }
    try {
      const { _id: listId } = request.listContext.list
      const listContext = await readListContext(deps, listId)
      if (listContext === null) throw noMailingList(listId)
      checked = await checkedDocument(deps, { ...request, listContext }, id)
    } catch (error) {
      await withdrawImport(deps, document)
      throw error
    }
  }
}

interface CheckedDocument {
  document: ImportDocument
  /** The revision of the list that the import was checked against. */
  revision: number
  listName: string
  /** The organization's time zone. */
  zone: string
}

/** The import, checked against its list. `knownId` is the id that an earlier check gave it. */
async function checkedDocument(
  deps: ControlPlane,
  { caller, listContext, body, sent, content }: CreationRequest,
  knownId: number | null,
): Promise<CheckedDocument> {
  const context = await creationContext(deps, listContext, body)
  const { options, fieldIds, source, beginsAt, callback } = await checkCreation(deps, context, {
    body,
    content,
  })
  const document: ImportDocument = {
    _id: knownId ?? (await deps.database.ids.allocate('subscriber_import')),
    organization_id: context.list.organization_id,
    mailing_list_id: context.list._id,
    created_at: context.now,
    begins_at: beginsAt,
    started_at: null,
    finished_at: null,
    state: 'scheduled',
    created_by: partyOf(caller),
    paused_from: null,
    paused_at: null,
    fence: 0,
    options,
    field_ids: fieldIds,
    source,
    ...(source.type === 'json' && content !== null && content.packed.length <= maxBytesInDocument
      ? { content: content.packed }
      : {}),
    first_new_subscriber_id: null,
    step_writes: 0,
    download: { attempts: 0, next_attempt_at: null, ends_at: null, bytes_received: 0, bytes_expected: null },
    plan: null,
    header: null,
    number_of_records: null,
    partition: null,
    totals: null,
    error_message: null,
    warnings: optionWarnings(
      { options, fieldIds },
      { fields: context.fields, isInline: source.type === 'json' },
      sent,
    ),
    lease: freeLease,
    callback,
    has_secrets: false,
    logs_purged_at: null,
    finalized: false,
  }
  const { revision, name: listName } = context.list
  return { document, revision, listName, zone: context.zoneName }
}

async function viewOfNew({ secrets }: ControlPlane, checked: CheckedDocument): Promise<CreatedImportView> {
  const { document } = checked
  const view: ImportView = await newImportView(document, checked, secrets)
  const secret = document.callback?.secret
  return secret === undefined ? view : { ...view, callback_secret: secret }
}

interface ImportInsertion extends Pick<CheckedDocument, 'document' | 'revision'> {
  reply: Omit<IdempotencyDocument, 'expires_at'> | null
  deadline: number
  caller: RequestCaller
  eventId: number
}

/** `key_taken`: another request with the same Idempotency-Key has created its import. */
async function insertUnlessListChanged(
  deps: ControlPlane,
  insertion: ImportInsertion,
): Promise<'done' | 'list_changed' | 'key_taken'> {
  const { document, reply, deadline } = insertion
  try {
    const isInserted = await deps.importCreations.runExclusive(document.mailing_list_id, () =>
      inTransaction(deps.database, (session) => insertInTransaction(deps, session, insertion), deadline),
    )
    if (!isInserted) return 'list_changed'
    return 'done'
  } catch (error) {
    const isTaken = isDuplicateKey(error)
    // Whether another error's transaction was committed isn't known. If it wasn't, the engines' sweep removes the content.
    if (isTaken || error instanceof BusyError) await withdrawImport(deps, document)
    if (isTaken && reply !== null) return 'key_taken'
    throw error
  }
}

/** False when the list's fields or primary key changed since the import was checked against them. */
async function insertInTransaction(
  { database }: ControlPlane,
  session: ClientSession,
  { document, revision, reply, caller, eventId }: ImportInsertion,
): Promise<boolean> {
  const { collections } = database
  const isUnchanged = await lockListAtRevision(collections, session, {
    listId: document.mailing_list_id,
    revision,
  })
  if (!isUnchanged) return false
  if (reply !== null) await insertReply(collections, session, reply)
  await insertImport(collections, document, session)
  await recordAct(database, session, caller, { ...auditedImport(document), action: 'created' }, eventId)
  return true
}
