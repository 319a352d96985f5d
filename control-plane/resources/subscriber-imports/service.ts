import { createHash } from 'node:crypto'
import type { ClientSession, Filter } from 'mongodb'
import type { Caller } from '../../../shared/store/api-keys.ts'
import { clock } from '../../../shared/runtime/clock.ts'
import { databaseTime, inTransaction, isDuplicateKey, nextIds } from '../../../shared/runtime/database.ts'
import { RequestError } from '../../../shared/contract/errors.ts'
import { sealed } from '../../../shared/runtime/import-secrets.ts'
import { hasEnded, unfinishedStates } from '../../../shared/contract/import-state.ts'
import type { IdempotencyDocument } from '../../../shared/contract/schemas/bookkeeping.ts'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import type { ImportDocument, ImportOptions } from '../../../shared/contract/schemas/import.ts'
import type { MailingListDocument } from '../../../shared/contract/schemas/mailing-list.ts'
import { NotOpened } from '../../../shared/runtime/secret-box.ts'
import { notifyEngines } from '../../../shared/store/wake-up.ts'
import { cancelImport, insertImport, pauseImport, unpauseImport } from '../../../shared/store/imports.ts'
import { KeyedMutex } from '../../../shared/runtime/keyed-mutex.ts'
import { summaryFields, type ImportSummary } from '../../../shared/store/import-views.ts'
import { PageReader, type PageCall } from '../../api/json-page.ts'
import { countedPaging, type Page } from '../../api/paging.ts'
import { missing, pathId, reaches } from '../../api/scope.ts'
import { pageStart } from '../../api/token-paging.ts'
import type { InlineContent } from '../../api/body/staged-content.ts'
import type { ControlPlane } from '../../control-plane.ts'
import { admitImport, leaveQuota } from './admission.ts'
import { checkCreation, creationContext } from './creation-check.ts'
import type { ImportCreation, ImportListQuery } from './schemas.ts'
import { fullView, listViews } from './view.ts'

const recentDays = 14

/** Throws `not_found`, also for one that the caller doesn't reach. */
export async function findImport(
  deps: ControlPlane,
  caller: Caller,
  text: string | undefined,
): Promise<ImportDocument> {
  const document = await deps.database.collections.imports.findOne({ _id: pathId(text, 'subscriber import') })
  if (document === null || !reaches(caller, document.organization_id))
    throw missing('subscriber import', text)
  return document
}

/** First those that haven't ended, soonest first; then the ended ones, newest first. */
export async function listImports(
  call: PageCall,
  where: Filter<ImportDocument>,
  query: ImportListQuery,
): Promise<Page> {
  const { db, collections } = call.deps.database
  const { imports } = collections
  const scope = `imports ${JSON.stringify([where, query.scope])}`
  const { skip, after } = pageStart(call.deps, query, scope)
  const since = new Date((await databaseTime(db)).getTime() - recentDays * 24 * 3_600_000)
  const active = { ...where, finished_at: null }
  const ended = { ...where, finished_at: query.scope === 'recent' ? { $gte: since } : { $ne: null } }
  const [activeTotal, endedTotal] = await Promise.all([
    query.scope === 'finished' ? 0 : imports.countDocuments(active),
    query.scope === 'active' ? 0 : imports.countDocuments(ended),
  ])
  const shownIds: number[] = []
  const reader = new PageReader<ImportSummary>({
    call,
    max: query.per_page,
    views: (documents) => {
      shownIds.push(...documents.map(({ _id }) => _id))
      return listViews(call.deps, documents)
    },
  })
  const options = { projection: summaryFields }
  const position = after === null ? null : positionOf(after)
  if (activeTotal > 0 && skip < activeTotal && position?.isEnded !== true)
    await reader.read(
      imports
        .find<ImportSummary>({ $and: [active, behind('begins_at', '$gt', position)] }, options)
        .sort({ begins_at: 1, _id: 1 })
        .skip(skip)
        .limit(reader.limit),
    )
  if (endedTotal > 0 && !reader.hasMore)
    await reader.read(
      imports
        .find<ImportSummary>(
          {
            $and: [
              ended,
              behind('finished_at', '$lt', position?.isEnded === true ? position : null),
              // One that has ended since the active ones were read is on the page already.
              { _id: { $nin: shownIds } },
            ],
          },
          options,
        )
        .sort({ finished_at: -1, _id: -1 })
        .skip(Math.max(0, skip - activeTotal))
        .limit(reader.limit),
    )
  const last = reader.last
  return {
    data: reader.data,
    paging: countedPaging(call, query, {
      scope,
      last: last === null ? null : tokenOf(last),
      total: activeTotal + endedTotal,
    }),
  }
}

/** The last import of a page, by what its part of the list is ordered by. */
interface Position {
  isEnded: boolean
  at: Date
  id: number
}

const tokenOf = ({ _id, begins_at, finished_at }: ImportSummary): string =>
  `${finished_at === null ? 'active' : 'ended'}:${(finished_at ?? begins_at).getTime()}:${_id}`

function positionOf(token: string): Position {
  const [part, time, id] = token.split(':')
  return { isEnded: part === 'ended', at: new Date(Number(time)), id: Number(id) }
}

function behind(
  key: 'begins_at' | 'finished_at',
  operator: '$gt' | '$lt',
  position: Position | null,
): Filter<ImportDocument> {
  if (position === null) return {}
  const { at, id } = position
  return { $or: [{ [key]: { [operator]: at } }, { [key]: at, _id: { [operator]: id } }] }
}

export interface CreationRequest {
  caller: Caller
  list: MailingListDocument
  given: ImportCreation
  /** The text of the file source, staged; it is the source when the type says so. */
  content: InlineContent | null
  /** Digest of the body as sent, and the client's key, where he gave one. */
  bodyDigest: string
  idempotencyKey: string | null
}

type CreatedView = Awaited<ReturnType<typeof fullView>> & { callback_secret?: string }

/** Creations on one list write its document: side by side they would only make each other begin anew. */
const creationMutex = new KeyedMutex<number>()

/** Long before a client's connection is given up; who waits longer is told to come again. */
const timeoutMs = 20_000

/**
 * Creates an import, or answers as the first request with the same Idempotency-Key was answered. Throws
 * `validation_failed`, also for a key that was used with another body; 503 where the first request isn't confirmed yet.
 */
export async function createImport(deps: ControlPlane, request: CreationRequest): Promise<CreatedView> {
  const { collections } = deps.database
  const idempotencyId =
    request.idempotencyKey === null
      ? null
      : digestOf(`${request.caller.keyId}\n${request.list._id}\n${request.idempotencyKey}`)
  const earlier = await earlierReply(deps, idempotencyId, request.bodyDigest)
  if (earlier !== null) return earlier

  // Without DATA_DIR there may be no key for its secrets either.
  await deps.folder.require()
  const deadline = clock.monotonicMs() + timeoutMs
  let admitted: ImportDocument | null = null
  for (;;) {
    let checked: CheckedDocument
    try {
      checked = await checkedDocument(deps, request, admitted?._id ?? null)
    } catch (error) {
      if (admitted !== null) await leaveQuota(deps, admitted)
      throw error
    }
    const { document: whole, revision } = checked
    if (admitted === null) await admitImport(deps, request, whole)
    admitted = whole
    const view = await viewOfNew(deps, whole)
    const document = sealed(whole, deps.secrets)
    const reply =
      idempotencyId === null
        ? null
        : {
            _id: idempotencyId,
            body_digest: request.bodyDigest,
            import_id: document._id,
            ...keptReply(deps, idempotencyId, document, view),
          }
    try {
      const isIn = await creationMutex.runExclusive(document.mailing_list_id, () =>
        insertIfUnchanged(deps, { document, revision, reply, deadline }),
      )
      if (!isIn) continue
    } catch (error) {
      if (isDuplicateKey(error)) {
        await leaveQuota(deps, document)
        const won = await earlierReply(deps, idempotencyId, request.bodyDigest)
        if (won !== null) return won
        if (idempotencyId !== null) throw unconfirmed()
      } else {
        // Whether it was committed isn't known. If it wasn't, the engines' sweep removes the content.
        keepContent(request)
      }
      throw error
    }
    keepContent(request)
    await notifyEngines(collections, 'created')
    return view
  }
}

/** The database has the first request's import, and no majority of it yet: a failover may still undo it. */
const unconfirmed = (): RequestError =>
  new RequestError(
    'internal_error',
    'another request with this Idempotency-Key has just been written and is not yet confirmed by the database: send the same request again in a moment, it makes no second import',
    { status: 503, headers: { 'Retry-After': '5' } },
  )

function keepContent({ content, given }: CreationRequest): void {
  if (given.file_source.type === 'json') content?.keep()
}

async function earlierReply(
  deps: ControlPlane,
  id: string | null,
  bodyDigest: string,
): Promise<CreatedView | null> {
  const earlier =
    id === null
      ? null
      : await deps.database.collections.idempotencyKeys.findOne({
          _id: id,
          $expr: { $gt: ['$expires_at', '$$NOW'] },
        })
  if (earlier === null) return null
  if (earlier.body_digest !== bodyDigest) {
    throw new RequestError(
      'validation_failed',
      `Idempotency-Key was used with another body for import ${earlier.import_id}: give each import a key of its own`,
    )
  }
  return JSON.parse(earlier.reply ?? (await openReply(deps, earlier))) as CreatedView
}

const ownerOfReply = (id: string): string => `idempotency key ${id}`

/** The reply has the callback's secret and the URLs as given, so it is encrypted where the import is. */
function keptReply(
  { secrets }: ControlPlane,
  id: string,
  document: ImportDocument,
  view: CreatedView,
): Pick<IdempotencyDocument, 'reply' | 'sealed_reply'> {
  const reply = JSON.stringify(view)
  return document.sealed === undefined ? { reply } : { sealed_reply: secrets.seal(reply, ownerOfReply(id)) }
}

async function openReply({ secrets }: ControlPlane, earlier: IdempotencyDocument): Promise<string> {
  try {
    return await secrets.open(earlier.sealed_reply!, ownerOfReply(earlier._id))
  } catch (error) {
    if (!(error instanceof NotOpened)) throw error
    throw new RequestError(
      'internal_error',
      `import ${earlier.import_id} was created with this Idempotency-Key, and the reply to that can't be decrypted: ${error.message}`,
      { status: 500, cause: error },
    )
  }
}

interface CheckedDocument {
  document: ImportDocument
  revision: number
}

/** The import as it would be, checked against its list; `revision` is the list's that it was checked with. */
async function checkedDocument(
  deps: ControlPlane,
  { list: known, given, content }: CreationRequest,
  knownId: number | null,
): Promise<CheckedDocument> {
  const context = await creationContext(deps, known, given)
  const { options, fieldIds, source, beginsAt, callback } = await checkCreation(deps, context, {
    given,
    content,
  })
  const importId =
    source.type === 'json'
      ? content!.importId
      : (knownId ?? (await nextIds(deps.database.collections, 'subscriber_import')))
  const document: ImportDocument = {
    _id: importId,
    organization_id: known.organization_id,
    mailing_list_id: known._id,
    created_at: context.now,
    begins_at: beginsAt,
    started_at: null,
    finished_at: null,
    state: 'scheduled',
    paused_from: null,
    paused_at: null,
    options,
    field_ids: fieldIds,
    source,
    first_new_subscriber_id: null,
    step_failures: 0,
    download: { attempts: 0, next_attempt_at: null, ends_at: null, bytes_received: 0, bytes_expected: null },
    plan: null,
    header: null,
    number_of_records: null,
    partition: null,
    totals: null,
    error_message: null,
    warnings: warningsOf(options),
    step: null,
    callback,
    logs_purged_at: null,
    settled: false,
  }
  return { document, revision: context.list.revision }
}

/** What the options alone say that looks like a mistake; what the file says comes when it is split. */
function warningsOf({ overwrite, overwrite_what, column_mapping }: ImportOptions): string[] {
  const ignoresStatus = column_mapping.includes('status') && overwrite && !overwrite_what.status
  return ignoresStatus
    ? [
        'column_mapping has status, and overwrite_what.status is off: only new subscribers get the status of their row, existing ones keep theirs',
      ]
    : []
}

async function viewOfNew(deps: ControlPlane, document: ImportDocument): Promise<CreatedView> {
  const view = await fullView(deps, document)
  const secret = document.callback?.secret
  return secret === undefined ? view : { ...view, callback_secret: secret }
}

/** False when the list's fields or primary key changed since the import was checked against them. */
function insertIfUnchanged(
  deps: ControlPlane,
  creation: {
    document: ImportDocument
    revision: number
    reply: Omit<IdempotencyDocument, 'expires_at'> | null
    deadline: number
  },
): Promise<boolean> {
  const { collections } = deps.database
  const { document, revision, reply, deadline } = creation
  const insert = async (session: ClientSession): Promise<boolean> => {
    // Meets whoever changes the list at the same moment, and tells no other creation that the list has changed.
    const { matchedCount } = await collections.mailingLists.updateOne(
      { _id: document.mailing_list_id, revision },
      { $inc: { import_creations: 1 } },
      { session },
    )
    if (matchedCount === 0) return false
    if (reply !== null) await insertReply(collections, reply, session)
    await insertImport(collections, document, session)
    return true
  }
  return inTransaction(deps.database, insert, deadline)
}

/** For a day, in place of one that has expired. Throws a duplicate key error when another one is there. */
async function insertReply(
  { idempotencyKeys }: Collections,
  { _id, import_id, ...rest }: Omit<IdempotencyDocument, 'expires_at'>,
  session: ClientSession,
): Promise<void> {
  await idempotencyKeys.deleteOne({ _id, $expr: { $lte: ['$expires_at', '$$NOW'] } }, { session })
  // With another import's there it matches nothing, and inserting is refused.
  await idempotencyKeys.updateOne(
    { _id, import_id },
    [
      {
        $set: {
          ...literals(rest),
          expires_at: { $add: ['$$NOW', 24 * 3_600_000] },
        },
      },
    ],
    { upsert: true, session },
  )
}

/** For a pipeline, which would take a text that begins with `$` for a path. */
const literals = (values: object): Record<string, unknown> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { $literal: value as unknown }]))

const digestOf = (content: string): string => createHash('sha256').update(content).digest('base64url')

type Move = 'pause' | 'unpause' | 'cancel'

const moves = {
  pause: { make: pauseImport, expected: 'scheduled, downloading, splitting or importing' },
  unpause: { make: unpauseImport, expected: 'paused' },
  cancel: { make: cancelImport, expected: unfinishedStates.join(', ') },
} as const

/** Pauses, unpauses or cancels. Throws `validation_failed` where the import's state doesn't allow it. */
export async function moveImport(
  deps: ControlPlane,
  document: ImportDocument,
  move: Move,
): Promise<ImportDocument> {
  const { collections } = deps.database
  const moved = await moves[move].make(deps, document._id)
  if (moved === null) {
    const state =
      (await collections.imports.findOne({ _id: document._id }, { projection: { state: 1 } }))?.state ??
      document.state
    const end = hasEnded(state) ? 'it has ended' : `it must be ${moves[move].expected}`
    throw new RequestError(
      'validation_failed',
      `subscriber import ${document._id} can't be ${move === 'cancel' ? 'cancelled' : `${move}d`}: it is ${state}, and ${end}`,
    )
  }
  await notifyEngines(collections, move)
  return moved
}
