import { inflateSync } from 'node:zlib'
import { hasEnded, unfinishedStates } from '../../../shared/contract/import-state.ts'
import {
  idsOfImport,
  logKinds,
  recordsIn,
  type ImportDocument,
  type LogKind,
} from '../../../shared/contract/schemas/import.ts'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import { subscriberStatuses } from '../../../shared/contract/schemas/subscriber.ts'
import type { Database } from '../../../shared/runtime/database.ts'
import type { Answer, Json } from '../../helpers/service.ts'
import type { ActorName } from './actors.ts'
import { rowFaults } from './expected-rows.ts'
import type { Fixture } from './fixtures.ts'
import type { How } from './sweep.ts'
import { present } from '../../helpers/present.ts'

/**
 * Checks what must be true whenever no process is inside an operation. Returns the violations. Counts that equal logs
 * are also right for a list with wrong rows, so rows are compared with the model's, and files with those that may stay.
 */
export async function faultsNow({ collections }: Database, fixture: Fixture): Promise<string[]> {
  const faults: string[] = []
  for (const listId of await listsOf(collections, fixture))
    faults.push(...(await faultsOfList(collections, fixture, listId)))
  const active = await activeIn(collections, fixture)
  if (fixture.limit !== null && active > fixture.limit)
    faults.push(`${active} are active, and the limit is ${fixture.limit}`)
  return faults
}

const listsOf = ({ mailingLists }: Collections, { organizationId }: Fixture): Promise<number[]> =>
  mailingLists.distinct('_id', { organization_id: organizationId })

async function faultsOfList(collections: Collections, fixture: Fixture, listId: number): Promise<string[]> {
  const faults: string[] = []
  const subscribers = await collections.subscribers.find({ mailing_list_id: listId }).toArray()
  const list = present(await collections.mailingLists.findOne({ _id: listId }), `list ${listId}`)

  const stripes = await collections.subscriberCounts.find({ mailing_list_id: listId }).toArray()
  for (const status of subscriberStatuses) {
    const counted = stripes.reduce((sum, stripe) => sum + stripe[status], 0)
    const found = subscribers.filter((subscriber) => subscriber.status === status).length
    if (counted !== found) faults.push(`${counted} ${status} are counted and ${found} are there`)
  }

  const key = list.primary_key_custom_field_id
  for (const { _id, email, custom_fields: values } of subscribers) {
    const identity = key === null ? email : String(values[String(key)])
    if (_id !== `${listId}:${identity}`) faults.push(`${_id} isn't found by the list's primary key`)
  }
  if (new Set(subscribers.map(({ id }) => id)).size < subscribers.length)
    faults.push('two subscribers have one id')

  const holders = await collections.imports.countDocuments({ mailing_list_id: listId, holds_list: true })
  if (holders > 1) faults.push(`${holders} imports have the list`)

  const fields = new Set(await collections.customFields.distinct('_id', { mailing_list_id: listId }))
  for (const document of await collections.imports.find({ mailing_list_id: listId }).toArray()) {
    const isUnfinished = (unfinishedStates as readonly string[]).includes(document.state)
    if (isUnfinished && Object.values(document.field_ids).some((id) => !fields.has(id)))
      faults.push(`import ${document._id} maps a field that was deleted`)
    const running = await collections.chunks.countDocuments({ import_id: document._id, state: 'running' })
    if (running > 0 && fixture.name !== 'dead engine')
      faults.push(`${running} chunks of import ${document._id} are leased by no living engine`)
    if (document.lease.token !== null)
      faults.push(`the step of import ${document._id} is leased by no living engine`)
  }
  return faults
}

/** Checks what must be true when all work is done. Returns the violations. */
export async function faultsAtTheEnd(
  { collections }: Database,
  fixture: Fixture,
  actors: readonly ActorName[],
): Promise<string[]> {
  const faults: string[] = []
  const lists = await listsOf(collections, fixture)
  const imports = await collections.imports.find({ mailing_list_id: { $in: lists } }).toArray()
  const own = present(
    imports.find(({ _id }) => _id === fixture.importId),
    'the import',
  )
  const list = await collections.mailingLists.findOne({ _id: fixture.listId })
  if (own.state === 'finished' && own.totals !== null && list?.primary_key_custom_field_id === null)
    faults.push(
      ...(await rowFaults(collections, fixture, {
        touched: new Set(actors.flatMap((actor) => touchedBy[actor] ?? [])),
        overLimit: own.totals.skipped_over_limit,
      })),
    )
  if (own.state === 'failed' && !actors.some((actor) => mayFail.includes(actor)))
    faults.push(`the import failed: ${own.error_message}`)
  for (const document of imports) faults.push(...(await faultsOfImport(collections, document)))
  const left = {
    chunks: await collections.chunks.countDocuments({ import_id: { $in: imports.map(({ _id }) => _id) } }),
    'pieces of staged files': await collections.blobPieces.countDocuments({ blob: /^staging/ }),
    'imports that count to the quota': (await collections.ledgers.find().toArray()).reduce(
      (sum, { imports: entered }) => sum + entered.length,
      0,
    ),
    'pinned uploads': await collections.uploads.countDocuments({ 'pinned_by.0': { $exists: true } }),
    'uploads without a name': await collections.uploads.countDocuments({ state: 'detached' }),
    'blobs without a record': await countStrays(collections),
    'ledgers that are not the sum of their records': await countWrongLedgers(collections),
    'leases of uploads': await collections.uploads.countDocuments({ lease: { $ne: null } }),
    'marked limits': await collections.organizations.countDocuments({ limit_change: { $exists: true } }),
  }
  for (const [what, count] of Object.entries(left)) if (count > 0) faults.push(`${count} ${what} are left`)

  const subscribers = await collections.subscribers.find({ mailing_list_id: fixture.listId }).toArray()
  const fields = new Set(
    (await collections.customFields.find({ mailing_list_id: fixture.listId }).toArray()).map(({ _id }) =>
      String(_id),
    ),
  )
  const stale = subscribers.filter(({ custom_fields: values }) =>
    Object.keys(values).some((id) => !fields.has(id)),
  )
  if (stale.length > 0) faults.push(`${stale.length} subscribers have a value of a deleted field`)

  const ids = new Set(subscribers.map(({ id }) => id))
  const reactions = await collections.reactions.find({ mailing_list_id: fixture.listId }).toArray()
  const orphans = reactions.filter(
    ({ state, subscriber_id: id }) => state === 'queued' && id !== null && !ids.has(id),
  )
  if (orphans.length > 0) faults.push(`${orphans.length} reactions of deleted subscribers wait`)
  return faults
}

/** Emails that requests write. */
const touchedBy: Partial<Record<ActorName, string>> = {
  'create subscriber': 'person30@example.com',
  'create another subscriber': 'other@example.com',
  'create import': 'late@example.com',
  'update subscriber': 'person100011@example.com',
  'unsubscribe subscriber': 'person100011@example.com',
  'delete subscriber': 'person100011@example.com',
  'delete imported subscriber': 'person0@example.com',
}

/** No other actor makes an import fail. */
const mayFail: ActorName[] = ['fail', 'fail and finalize', 'rename upload away']

async function countStrays({ blobPieces, uploads }: Collections): Promise<number> {
  const blobs = await blobPieces.distinct('blob', { blob: /^uploads/ })
  const known = new Set(await uploads.distinct('blob'))
  return blobs.filter((blob) => !known.has(blob)).length
}

async function countWrongLedgers({ ledgers, uploads }: Collections): Promise<number> {
  let wrong = 0
  for (const { _id, bytes, files } of await ledgers.find().toArray()) {
    const records = await uploads.find({ organization_id: _id }).toArray()
    const names = new Set(records.flatMap(({ state, name }) => (state === 'detached' ? [] : [name])))
    const charged = records.reduce((sum, record) => sum + record.charged, 0)
    if (charged !== bytes || names.size !== files) wrong += 1
  }
  return wrong
}

async function faultsOfImport(collections: Collections, document: ImportDocument): Promise<string[]> {
  const faults: string[] = []
  const say = (fault: string) => faults.push(`import ${document._id} (${document.state}): ${fault}`)
  if (!hasEnded(document.state)) say('it never ends')
  if (!document.finalized) say('it is never cleared up')
  if (document.holds_list) say('it keeps the list')
  if (document.lease.token !== null) say('its step is held')
  const callbacks = await collections.callbacks.countDocuments({ _id: document._id })
  if (callbacks !== (document.callback === null ? 0 : 1)) say(`${callbacks} callbacks are queued`)
  const { totals } = document
  if (totals === null) say('it has no totals')
  else {
    if (document.state === 'finished' && recordsIn(totals) !== document.number_of_records)
      say(`its counts sum up to ${recordsIn(totals)} of ${document.number_of_records}`)
    const lines: Record<string, string[]> = {}
    const outcomes = await collections.outcomes.find({ _id: idsOfImport(document._id) }).toArray()
    for (const { logs } of outcomes)
      for (const [kind, bytes] of Object.entries(logs))
        (lines[kind] ??= []).push(...inflateSync(bytes).toString().split('\n').slice(0, -1))
    const failed = await collections.failures.countDocuments({ _id: idsOfImport(document._id) })
    for (const kind of logKinds) {
      const logged = kind === 'failed' ? failed : (lines[kind] ?? []).length
      if (logged !== totals[kind]) say(`${totals[kind]} ${kind} are counted and ${logged} logged`)
    }
    const added = lines['added'] ?? []
    if (new Set(added).size < added.length) say('a subscriber was added twice')
  }
  return faults
}

export interface Done {
  actor: ActorName
  answer: Answer | boolean
  /** Active subscribers of the organization when it was answered. */
  activeThen: number
}

/** The data of a successful answer; null where the request was refused, or there was none. */
const succeeded = ({ answer }: Done): Json =>
  typeof answer === 'object' && answer.body?.success === true ? answer.body.data : null

/** Checks what the answers promised, when both actors have ended and nothing else has happened. */
export async function brokenPromises(
  { collections }: Database,
  { fixture, how }: { fixture: Fixture; how: How },
  done: Done[],
): Promise<string[]> {
  const faults: string[] = []
  const document = present(await collections.imports.findOne({ _id: fixture.importId }), 'the import')
  const chunks = await collections.chunks.find({ import_id: fixture.importId }).toArray()
  const counted = (kind: LogKind): number =>
    document.totals?.[kind] ?? chunks.reduce((sum, chunk) => sum + chunk.counts[kind], 0)
  for (const one of done) {
    const data = succeeded(one)
    // A caller that lost a reply of the database may be told to try again.
    if (
      typeof one.answer === 'object' &&
      one.answer.status >= 500 &&
      !(how !== 'hold' && one.answer.status === 503)
    )
      faults.push(`${one.actor} was answered with ${one.answer.status} ${one.answer.text.slice(0, 200)}`)
    if (data === null) continue
    if (one.actor === 'pause' || one.actor === 'cancel') {
      for (const kind of logKinds) {
        const answered = data.stats.subscribers[kind]
        if (answered !== counted(kind))
          faults.push(`${one.actor} was answered with ${answered} ${kind}, now it is ${counted(kind)}`)
      }
    }
    if (one.actor === 'limit') {
      const active = await activeIn(collections, fixture)
      if (active > Math.max(3, one.activeThen))
        faults.push(`a limit of 3 was answered with ${one.activeThen} active, now it is ${active}`)
    }
    if (one.actor === 'delete subscriber' || one.actor === 'delete imported subscriber') {
      const id = one.actor === 'delete subscriber' ? fixture.absentId : fixture.presentId
      if ((await collections.subscribers.countDocuments({ id })) > 0)
        faults.push('a deleted subscriber is there')
    }
    if (one.actor === 'unsubscribe subscriber') {
      // Another request may have changed or deleted the subscriber since.
      const found = await collections.subscribers.findOne({ id: fixture.absentId })
      if (found?.status === 'deactivated') faults.push('who was unsubscribed is deactivated')
    }
  }
  const created = new Set(
    done.filter(({ actor }) => actor === 'create import').map((one) => succeeded(one)?.id),
  )
  created.delete(undefined)
  const others = await collections.imports.countDocuments({
    mailing_list_id: fixture.listId,
    _id: { $ne: fixture.importId },
  })
  if (created.size > 1 || others > 1) faults.push(`one key made ${others} imports`)
  return faults
}

/** Active subscribers of the organization. */
export async function activeIn(collections: Collections, fixture: Fixture): Promise<number> {
  const lists = await listsOf(collections, fixture)
  return collections.subscribers.countDocuments({ mailing_list_id: { $in: lists }, status: 'active' })
}
