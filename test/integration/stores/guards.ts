import { isDeepStrictEqual } from 'node:util'
import type { ClientSession, Collection, Document } from 'mongodb'
import t from 'tap'
import { ensureSchema } from '../../../shared/runtime/ensure-schema.ts'
import { inTransaction } from '../../../shared/runtime/transactions.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import type { ReactionDocument } from '../../../shared/contract/schemas/autoresponder.ts'
import type { CallbackDocument } from '../../../shared/contract/schemas/callback.ts'
import { noCounts, type ChunkDocument, type ImportDocument } from '../../../shared/contract/schemas/import.ts'
import type { OrganizationDocument } from '../../../shared/contract/schemas/organization.ts'
import type { LedgerDocument, UploadDocument } from '../../../shared/contract/schemas/upload.ts'
import { sessionId } from '../../../shared/runtime/transactions.ts'
import * as callbacks from '../../../engine/store/callbacks.ts'
import * as chunks from '../../../shared/store/chunks.ts'
import { enforcePendingFences, fenceChunks, preemptWrites } from '../../../shared/store/fence.ts'
import * as steps from '../../../shared/store/import-steps.ts'
import * as imports from '../../../shared/store/imports.ts'
import { charge } from '../../../shared/store/ledger.ts'
import { readPrimaryClock } from '../../../shared/store/leases.ts'
import * as outbox from '../../../shared/store/outbox.ts'
import { enforcePendingLimits, reserveQuota, useQuota } from '../../../shared/store/subscriber-quota.ts'
import * as staged from '../../../shared/store/staged-usage.ts'
import { changeCounts, changeCountsOfLane, noStatusCounts } from '../../../shared/store/subscriber-counts.ts'
import * as uploads from '../../../shared/store/uploads.ts'
import * as workLeases from '../../../shared/store/work-leases.ts'
import { changeInPlace } from '../../../control-plane/store/write-subscriber.ts'
import { valuesBytes } from '../../../shared/store/value-bytes.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'
import { present } from '../../helpers/present.ts'
import { leaseOf, storedChunk, storedImport } from '../../helpers/stored-import.ts'
import { storedReaction } from '../../helpers/stored-reaction.ts'
import { subscriberDocument } from '../../helpers/subscriber-document.ts'

/**
 * Each guarded write of docs/protocol.md changes the document in the state that the page names. In each other state
 * it leaves the document alone: leased under another token or by another engine, done, ended, not due yet.
 */

const { database } = await databaseAndFolder(t)
const { collections, client } = database
const log = createLogger({ process: 'test', level: 'silent' })
await ensureSchema(database.db, log)
const context = { database, log }

interface GuardedWrite<D> {
  write: string
  run: () => Promise<unknown>
  /** Values of the document with which the write must happen. */
  changes: Partial<D>
  /**
   * Differences, such as another engine's token or another state, with which nothing is written and the answer is no.
   */
  leaves: Partial<D>[]
}

/** Resolves to what was wrong with each write of the table. */
async function findFaults<D extends Document>(
  collection: Collection<D>,
  document: (changes: Partial<D>) => D,
  writes: GuardedWrite<D>[],
): Promise<string[]> {
  const faults: string[] = []
  for (const { write, run, changes, leaves } of writes)
    for (const [i, differing] of [{}, ...leaves].entries()) {
      const before = document({ ...changes, ...differing })
      await collection.deleteMany({})
      await collection.insertOne(before as never)
      const answer = await run().catch((error: unknown) => error)
      const after = await collection.findOne({})
      const isChanged = !isDeepStrictEqual({ ...before }, { ...after })
      const where = i === 0 ? 'what it is for' : JSON.stringify(differing)
      if (answer instanceof Error) faults.push(`${write}, ${where}: ${answer.message}`)
      else if (isChanged !== (i === 0)) faults.push(`${write}, ${where}: ${isChanged ? '' : 'not '}changed`)
      else if (i > 0 && isYes(answer)) faults.push(`${write}, ${where}: answered ${JSON.stringify(answer)}`)
    }
  return faults
}

const isYes = (answer: unknown): boolean =>
  Array.isArray(answer) ? answer.length > 0 : answer instanceof Set ? answer.size > 0 : Boolean(answer)

const past = new Date(Date.now() - 3_600_000)
const future = new Date(Date.now() + 3_600_000)
const mine = { engineId: 'mine', token: 'mine' }

// ---- chunks ----

const chunk = (changes: Partial<ChunkDocument>): ChunkDocument => storedChunk(1, 0, changes)
const held = { token: 'mine', holder: 'mine', until: future }
const leased = { state: 'running', ...leaseOf(held) } as const
const ofAnother = leaseOf({ token: 'theirs', holder: 'theirs' })
const notLeased = [ofAnother, { state: 'ready', ...leaseOf({}) }, { state: 'done' }] as const
const leasedChunk = { ...chunk({ ...leased, next_record: 5 }), token: 'mine' }
const progress = {
  chunk: leasedChunk,
  from: 5,
  to: 6,
  isLast: false,
  counts: noCounts(),
  faults: null,
  quota: { reserved: 1, used: 0 },
}

const writeChunk = (
  name: string,
  changes: Partial<ChunkDocument>,
  leaves: readonly Partial<ChunkDocument>[],
  run: () => Promise<unknown>,
): GuardedWrite<ChunkDocument> => ({ write: name, run, changes, leaves: [...leaves] })
const inSession = <T>(work: (session: ClientSession) => Promise<T>) => inTransaction(database, work)

t.test('a chunk is claimed and advanced under its lease and fence alone', async (t) => {
  const faults = await findFaults(collections.chunks, chunk, [
    writeChunk('claimChunk', {}, [leased, { state: 'done' }, { fence: 3 }, { import_id: 2 }], () =>
      chunks.claimChunk(collections, { _id: 1, fence: 2 }, mine),
    ),
    writeChunk(
      'advanceChunk',
      { ...leased, next_record: 5 },
      [...notLeased, { next_record: 6 }, { next_record: 4 }],
      () => inSession((session) => chunks.advanceChunk(collections, session, progress)),
    ),
    writeChunk('advanceChunk, last', { ...leased, next_record: 5 }, [...notLeased, { next_record: 6 }], () =>
      inSession((session) => chunks.advanceChunk(collections, session, { ...progress, isLast: true })),
    ),
  ])
  t.same(faults, [])
})

t.test('a chunk is released under its lease alone, or once the lease is over', async (t) => {
  const faults = await findFaults(collections.chunks, chunk, [
    writeChunk('recordReservation', leased, notLeased, () =>
      inSession((session) => chunks.recordReservation(collections, session, leasedChunk, 7)),
    ),
    writeChunk('releaseChunk', leased, notLeased, () =>
      chunks.releaseChunk(collections, { chunkId: leasedChunk._id, token: 'mine', countsAsAttempt: false }),
    ),
    writeChunk('releaseFailedChunk', leased, notLeased, () =>
      inSession((session) =>
        chunks.releaseFailedChunk(collections, session, {
          importId: 1,
          chunkId: leasedChunk._id,
          token: 'mine',
        }),
      ),
    ),
    writeChunk(
      'releaseClaim',
      leased,
      [...notLeased, leaseOf({ ...held, holder: 'theirs' }), leaseOf({ ...held, token: 'theirs' })],
      () => workLeases.releaseClaim(collections, mine),
    ),
    writeChunk('releaseLeasesOfEngine', leased, [ofAnother, { state: 'done' }], async () => {
      const released = await workLeases.releaseLeasesOfEngine(collections, 'mine', { died: true })
      return released.chunks
    }),
    writeChunk(
      'releaseExpired',
      { ...leased, ...leaseOf({ ...held, until: past }) },
      [leased, { state: 'done' }],
      () => workLeases.releaseExpired(collections),
    ),
  ])
  t.same(faults, [])
})

t.test('a chunk is deactivated, closed and taken from its holder in the named states alone', async (t) => {
  const faults = await findFaults(collections.chunks, chunk, [
    writeChunk(
      'recordDeactivated',
      { state: 'done', deactivated_to: '1:b' },
      [{ deactivated_to: '1:c' }, { deactivated_to: null }, leased],
      () =>
        inSession((session) =>
          chunks.recordDeactivated(collections, session, {
            chunk: chunk({ deactivated_to: '1:b' }),
            to: '1:d',
            subscribers: 3,
          }),
        ),
    ),
    writeChunk('closeChunks', {}, [{ state: 'done' }, { import_id: 2 }], () =>
      chunks.closeChunks(collections, 1),
    ),
    writeChunk(
      'fenceChunks',
      leased,
      [{ state: 'done' }, { fence: 4 }, { _id: '2:000000', import_id: 2 }],
      () => fenceChunks(context, { _id: 1, fence: 4 }),
    ),
    writeChunk('preemptWrites', leased, [{ state: 'done' }, { state: 'ready' }, { import_id: 2 }], () =>
      preemptWrites(context, [1]),
    ),
  ])
  t.same(faults, [])
})

t.test('a leased chunk is not closed, and is counted as not over', async (t) => {
  await collections.chunks.deleteMany({})
  await collections.chunks.insertOne(chunk(leased))
  t.equal(await chunks.closeChunks(collections, 1), 1)
  t.match(await collections.chunks.findOne({}), leased, 'its lease stays')
})

/** The collection, in which something happens between the read of a list and the writes that follow from it. */
function withEventAfterRead<D extends Document>(
  collection: Collection<D>,
  event: () => Promise<unknown>,
): Collection<D> {
  const readThenEvent = (method: 'find' | 'aggregate') =>
    ((...args: [never, never]) => {
      const cursor = collection[method](...args)
      return {
        toArray: async () => {
          const found = await cursor.toArray()
          await event()
          return found
        },
        async *[Symbol.asyncIterator]() {
          yield* await this.toArray()
        },
      }
    }) as never
  return new Proxy(collection, {
    get(target, name) {
      if (name === 'find' || name === 'aggregate') return readThenEvent(name)
      const value = Reflect.get(target, name) as unknown
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

t.test('progress between a read and the write that follows prevents the take-over', async (t) => {
  const advances: Partial<ChunkDocument>[] = [leased, ofAnother, { state: 'done', ...leaseOf({}) }]
  for (const advanced of advances) {
    await collections.chunks.deleteMany({})
    await collections.chunks.insertOne(chunk({ ...leased, ...leaseOf({ ...held, until: past }) }))
    const withEvent = withEventAfterRead(collections.chunks, () =>
      collections.chunks.updateOne({}, { $set: advanced }),
    )
    t.same(await workLeases.releaseExpired({ ...collections, chunks: withEvent }), [])
    t.match(await collections.chunks.findOne({}), advanced)
  }
})

t.test('the fence lets no engine write in the two states without a holder', async (t) => {
  await collections.chunks.deleteMany({})
  await collections.chunks.insertMany([
    chunk(leased),
    storedChunk(1, 1),
    storedChunk(1, 2, { state: 'done' }),
  ])
  await fenceChunks(context, { _id: 1, fence: 4 })
  t.match(await collections.chunks.find().sort({ _id: 1 }).toArray(), [
    { state: 'ready', lease: { token: null }, fence: 4 },
    { state: 'ready', lease: { token: null }, fence: 4 },
    { state: 'done' },
  ])
  t.equal(
    await chunks.claimChunk(collections, { _id: 1, fence: 3 }, mine),
    null,
    'not for who read it before',
  )
  t.match(await chunks.claimChunk(collections, { _id: 1, fence: 4 }, mine), { lease: { token: 'mine' } })
})

// ---- imports and their steps ----

const importOf = (changes: Partial<ImportDocument>): ImportDocument => storedImport({ _id: 1, ...changes })
const step = { holder: 'mine', token: 'mine' }
const stepLost = [ofAnother, leaseOf({})]
const ours = { id: 1, token: 'mine' }
const ended = { state: 'failed', finished_at: past } as const

const working = { ...leaseOf(step), state: 'splitting' } as const
const { download } = importOf({})

t.test('a step is claimed when it is due', async (t) => {
  const faults = await findFaults<ImportDocument>(collections.imports, importOf, [
    {
      write: 'claimStep',
      changes: {},
      leaves: [
        ...[
          ofAnother,
          { state: 'importing' },
          { state: 'paused' },
          { finalized: true },
          { begins_at: future },
        ],
        ...[leaseOf({ not_before: future }), { download: { ...download, next_attempt_at: future } }],
      ] as Partial<ImportDocument>[],
      run: () => steps.claimStep(collections, 1, 'splitting', mine),
    },
  ])
  t.same(faults, [])
})

t.test('a step is released by its holder alone', async (t) => {
  const faults = await findFaults<ImportDocument>(collections.imports, importOf, [
    {
      write: 'releaseStep',
      changes: working,
      leaves: stepLost,
      run: () => steps.releaseStep(collections, 1, 'mine'),
    },
    {
      write: 'releaseClaim',
      changes: working,
      leaves: [...stepLost, leaseOf({ ...step, holder: 'theirs' }), leaseOf({ ...step, token: 'theirs' })],
      run: () => workLeases.releaseClaim(collections, mine),
    },
    {
      write: 'releaseLeasesOfEngine',
      changes: working,
      leaves: stepLost,
      run: () =>
        workLeases
          .releaseLeasesOfEngine(collections, 'mine', { died: true })
          .then((released) => released.steps),
    },
  ])
  t.same(faults, [])
})

t.test('a step writes and waits under its own token alone', async (t) => {
  const faults = await findFaults<ImportDocument>(collections.imports, importOf, [
    {
      write: 'writeInStep',
      changes: working,
      leaves: [...stepLost, { state: 'paused' }, ended],
      run: () => steps.writeInStep(collections, { ...ours, state: 'splitting' }, { $set: { header: ['x'] } }),
    },
    {
      write: 'beginTry',
      changes: { ...leaseOf(step), state: 'downloading' },
      leaves: [...stepLost, { state: 'paused' }],
      run: () => steps.beginAttempt(collections, ours, 60_000),
    },
    {
      write: 'scheduleRetry',
      changes: { ...leaseOf(step), state: 'downloading' },
      leaves: [
        ...stepLost,
        { state: 'cancelled', finished_at: past },
        { download: { ...download, attempts: 1 } },
      ],
      run: () => steps.scheduleRetry(collections, ours, { attempts: 1, waitMs: 1_000 }),
    },
    {
      write: 'postponeStep',
      changes: working,
      leaves: stepLost,
      run: () => steps.postponeStep(collections, ours, { failures: 1, waitMs: 1_000 }),
    },
    {
      write: 'delayStep',
      changes: working,
      leaves: stepLost,
      run: () => steps.delayStep(collections, ours, { waitMs: 1_000, warning: 'it waits' }),
    },
  ])
  t.same(faults, [])
})

t.test('an import changes state only from the named states', async (t) => {
  const totals = noCounts()
  const failed = { ...ended, totals: null }
  const split = { plan: null, number_of_records: 0, header: null, warnings: [] }
  const faults = await findFaults<ImportDocument>(collections.imports, importOf, [
    {
      write: 'startImport',
      changes: { state: 'scheduled', started_at: null },
      leaves: [{ state: 'paused' }, { state: 'splitting' }, { begins_at: future }],
      run: () => imports.startImport(collections, 1, {}),
    },
    {
      write: 'pauseImport',
      changes: { state: 'importing' },
      leaves: [{ state: 'paused' }, { state: 'finished' }, ended, { state: 'cancelled' }],
      run: () => imports.pauseImport(context, 1),
    },
    {
      write: 'unpauseImport',
      changes: { state: 'paused', paused_from: 'importing', paused_at: past },
      leaves: [{ state: 'importing' }, { state: 'cancelled' }, { state: 'finished' }],
      run: () => imports.unpauseImport(context, 1),
    },
    {
      write: 'cancelImport',
      changes: { state: 'importing' },
      leaves: [{ state: 'finished' }, ended, { state: 'cancelled' }],
      run: () => imports.cancelImport(context, 1),
    },
    {
      write: 'failImport',
      changes: { state: 'splitting', ...leaseOf(step) },
      leaves: [...stepLost, { state: 'paused' }, { state: 'cancelled' }, { state: 'finished' }],
      run: () => imports.failImport(collections, ours, 'it broke'),
    },
    {
      write: 'finishImport',
      changes: { state: 'importing', ...leaseOf(step), holds_list: true },
      leaves: [...stepLost, { state: 'paused' }, { state: 'cancelled' }],
      run: () => imports.finishImport(collections, ours, { counts: totals, faults: [] }),
    },
    {
      write: 'finishSmallImport',
      changes: { ...working, holds_list: true },
      leaves: [...stepLost, { state: 'paused' }, { state: 'importing' }, { step_writes: 1 }],
      run: () =>
        inSession((session) =>
          imports.finishSmallImport(collections, session, { ...ours, stepWrites: 0 }, split, {
            ...{ counts: totals, faults: [], isFinalized: true },
          }),
        ),
    },
    {
      write: 'preemptWrites',
      changes: working,
      leaves: [{ state: 'scheduled' }, { state: 'cancelled' }, { state: 'importing' }, { _id: 2 }],
      run: () => preemptWrites(context, [1]),
    },
    {
      write: 'fixTotals',
      changes: { ...failed, holds_list: true },
      leaves: [{ state: 'paused' }, { state: 'importing' }, { totals: { ...totals, added: 3 } }],
      run: () => imports.fixTotals(collections, 1, { counts: totals, faults: [] }),
    },
    {
      write: 'markFinalized',
      changes: { ...ended, totals },
      leaves: [{ totals: null }, { state: 'importing' }, { finalized: true }],
      run: () => imports.markFinalized(collections, 1),
    },
  ])
  t.same(faults, [])
})

t.test('an import of whose chunk the engine is not the holder does not fail', async (t) => {
  const session = client.startSession()
  t.teardown(() => session.endSession())
  const fail = (): Promise<boolean> =>
    imports.failImportOfChunk(
      collections,
      session,
      { importId: 1, chunkId: leasedChunk._id, token: 'mine' },
      'its records can’t be read',
    )
  const put = async (ofImport: Partial<ImportDocument>, ofChunk: object): Promise<void> => {
    await Promise.all([collections.imports.deleteMany({}), collections.chunks.deleteMany({})])
    await collections.imports.insertOne(importOf({ state: 'importing', ...ofImport }))
    await collections.chunks.insertOne(chunk({ ...leased, ...ofChunk }))
  }
  for (const lost of notLeased) {
    await put({}, lost)
    t.equal(await fail(), false)
    t.match(await collections.imports.findOne({ _id: 1 }), { state: 'importing', error_message: null })
  }
  await put({ state: 'paused' }, {})
  t.equal(await fail(), false)
  await put({}, {})
  t.equal(await fail(), true)
  t.match(await collections.imports.findOne({ _id: 1 }), { state: 'failed', error_message: /read/ })
  t.match(await collections.chunks.findOne({}), { state: 'ready', lease: { token: null } })
})

t.test('one import at a time has a list', async (t) => {
  await collections.imports.deleteMany({})
  await collections.imports.insertMany([
    storedImport({ _id: 1, state: 'importing', holds_list: true }),
    storedImport({ _id: 2, state: 'scheduled', started_at: null }),
  ])
  t.equal(await imports.startImport(collections, 2, {}), null)
  t.match(await collections.imports.findOne({ _id: 2 }), { state: 'scheduled' })
  await collections.imports.updateOne({ _id: 1 }, { $unset: { holds_list: '' } })
  t.match(await imports.startImport(collections, 2, {}), { _id: 2, state: 'splitting', started_at: Date })
  t.match(await collections.imports.findOne({ _id: 2 }), { state: 'splitting', holds_list: true })
})

t.test('a new fence is in the write of the pause and of the cancel', async (t) => {
  for (const move of [imports.pauseImport, imports.cancelImport]) {
    await Promise.all([collections.imports.deleteMany({}), collections.chunks.deleteMany({})])
    await collections.imports.insertOne(importOf({ state: 'importing', fence: 6 }))
    await collections.chunks.insertMany([chunk(leased), storedChunk(1, 1)])
    t.match(await move(context, 1), { fence: 7 })
    t.match(await collections.chunks.find().toArray(), [
      { state: 'ready', lease: { token: null }, fence: 7 },
      { state: 'ready', lease: { token: null }, fence: 7 },
    ])
  }
})

t.test('a pause ends the transaction of an engine that hangs in a step', async (t) => {
  await Promise.all([collections.imports.deleteMany({}), collections.chunks.deleteMany({})])
  await collections.imports.insertOne(importOf({ state: 'importing', ...leaseOf(step) }))
  const session = client.startSession()
  await collections.engines.insertOne({
    ...{ _id: 'mine', number: 1, host: 'here', process_id: 1, started_at: past, dead: false },
    ...{ sees_files: true, lease_until: future, lease_election: null, session_ids: [sessionId(session)] },
  })
  session.startTransaction()
  const update = { $inc: { step_writes: 1 } }
  t.equal(await steps.writeInStep(collections, { ...ours, state: 'importing' }, update, session), true)
  t.match(await imports.pauseImport(context, 1), { state: 'paused', step_writes: 0 })
  await t.rejects(session.commitTransaction())
  await session.endSession()
})

t.test('a pause or a cancel whose request died is enforced', async (t) => {
  for (const state of ['paused', 'cancelled', 'importing'] as const) {
    await Promise.all([collections.imports.deleteMany({}), collections.chunks.deleteMany({})])
    await collections.imports.insertOne(importOf({ state, fence: 4 }))
    await collections.chunks.insertOne(chunk(leased))
    const isStopped = state !== 'importing'
    t.equal(await enforcePendingFences(context), isStopped ? 1 : 0, state)
    t.match(
      await collections.chunks.findOne({}),
      isStopped ? { state: 'ready', lease: { token: null }, fence: 4 } : leased,
      state,
    )
  }
})

t.test('an import that is finalized while its counts are read keeps them', async (t) => {
  const counts = { ...noCounts(), added: 5, failed: 2 }
  const faults = [{ kind: 'nul', column: null, field_id: null, rows: 2, first: { record: 7, example: null } }]
  const finalize = async (): Promise<void> => {
    await imports.fixTotals(collections, 1, { counts, faults })
    await chunks.deleteChunks(collections, 1)
  }
  for (const read of ['chunks', 'imports'] as const) {
    await Promise.all([collections.imports.deleteMany({}), collections.chunks.deleteMany({})])
    await collections.imports.insertOne(importOf(ended))
    await collections.chunks.insertOne(chunk({ state: 'done', counts, faults }))
    const reading = {
      ...collections,
      [read]: withEventAfterRead<never>(collections[read] as never, finalize),
    }
    const found = await chunks.readSums(reading, [{ _id: 1, number_of_records: 1, totals: null }], {
      withFaults: true,
    })
    t.match(found.get(1), { counts, faults }, `after the read of ${read}`)
  }
})

// ---- callbacks, messages, reactions ----

t.test('a callback is written only by its holder', async (t) => {
  const callback = (changes: Partial<CallbackDocument>): CallbackDocument => ({
    ...{
      _id: 1,
      organization_id: 1,
      queue: '1@h',
      webhook_id: 'w',
      body: '{}',
      state: 'waiting',
      due_at: past,
    },
    ...{ token: null, tried_at: null, failures: 0, problem: null, ended_at: null },
    ...changes,
  })
  const tried = { token: 'mine', tried_at: past, due_at: future }
  const lost = [{ token: 'theirs' }, { token: null }, { state: 'delivered' }, { state: 'given_up' }] as const
  const ofMine = { importId: 1, token: 'mine' }
  const faults = await findFaults<CallbackDocument>(collections.callbacks, callback, [
    {
      write: 'claimCallback',
      changes: {},
      leaves: [{ due_at: future }, { state: 'delivered' }, { state: 'given_up' }, { queue: '2@h' }],
      run: () =>
        callbacks.claimCallback(collections, '1@h', { until: new Date(), token: 'mine', leaseMs: 1_000 }),
    },
    {
      write: 'markDelivered',
      changes: tried,
      leaves: [...lost],
      run: () => callbacks.markDelivered(collections, ofMine),
    },
    {
      write: 'noteFailure',
      changes: tried,
      leaves: [...lost],
      run: () => callbacks.recordFailure(collections, ofMine, { problem: 'it hung', waitMs: 1_000 }),
    },
    {
      write: 'releaseCallback',
      changes: tried,
      leaves: [...lost],
      run: () => callbacks.releaseCallback(collections, ofMine),
    },
  ])
  t.same(faults, [])
})

const message = (changes: Partial<ReactionDocument>) => storedReaction({ due_at: past, ...changes })
const taken = { available_at: future, lease: { token: 'mine', began_at: past } } as const
const confirmation = { _id: 'confirmation 1', pending_subscriber: '1:a@example.com' }
const takenByAnother = { lease: { token: 'theirs', began_at: past } }
const lease = { token: 'mine', seconds: 60 }

t.test('a message is written only while it is available, or under its lease', async (t) => {
  const beginnings = [{ queue: 1, dueAt: past }]
  const now = new Date()
  const acknowledge = () =>
    outbox.acknowledgeMessages(collections, { organizationId: 1 }, [{ id: 1, leaseToken: 'mine' }])
  const drop = (changes: Partial<ReactionDocument>) => () =>
    outbox.dropMessages(collections, [message({ ...changes, ...taken })], lease)
  const ended = [{ state: 'sent' }, { state: 'dropped' }] as const
  const faults = await findFaults<ReactionDocument>(collections.reactions, message, [
    {
      write: 'claimMessages',
      changes: {},
      leaves: [{ ...taken, ...takenByAnother }, { autoresponder_id: 2 }, ...ended],
      run: () => outbox.claimMessages(collections, beginnings, { now, limit: 10, lease }),
    },
    {
      write: 'claimMessages, expired',
      changes: { ...taken, ...takenByAnother, available_at: past },
      leaves: [{ available_at: future }],
      run: () => outbox.claimMessages(collections, beginnings, { now, limit: 10, lease }),
    },
    {
      write: 'dropWithoutContent',
      changes: {},
      leaves: [taken, { autoresponder_id: 2 }, ...ended],
      run: () => outbox.dropWithoutContent(collections, beginnings, now),
    },
    {
      write: 'returnMessages',
      changes: taken,
      leaves: [takenByAnother],
      run: () => outbox.returnMessages(collections, [message({})], lease),
    },
    {
      write: 'acknowledgeMessages',
      changes: taken,
      leaves: [takenByAnother, { organization_id: 2 }],
      run: acknowledge,
    },
    {
      write: 'acknowledgeMessages, confirmation',
      changes: { ...taken, ...confirmation },
      leaves: [takenByAnother],
      run: acknowledge,
    },
    { write: 'dropMessages', changes: taken, leaves: [takenByAnother], run: drop({}) },
    {
      write: 'dropMessages, confirmation',
      changes: { ...taken, ...confirmation },
      leaves: [takenByAnother],
      run: drop(confirmation),
    },
  ])
  t.same(faults, [])
})

t.test('of messages that were read as available, those that another call took or dropped stay', async (t) => {
  const { reactions } = collections
  const claim = { now: new Date(), limit: 10, lease: { token: 'first', seconds: 60 } }
  await reactions.deleteMany({})
  await reactions.insertMany([1, 2, 3].map((id) => message({ _id: `${id}:1:request 1`, id })))
  await outbox.claimMessages(collections, [{ queue: 1, dueAt: past }], { ...claim, limit: 1 })
  await reactions.updateOne({ id: 2 }, { $set: { state: 'dropped' } })
  const claimed = await outbox.claimMessages(collections, [{ queue: 1, dueAt: past }], { ...claim, lease })
  t.same(
    claimed?.map(({ id }) => id),
    [3],
  )
  t.same(
    (await reactions.find().sort({ id: 1 }).toArray()).map(({ state }) => state),
    ['queued', 'dropped', 'queued'],
  )
  await reactions.deleteMany({})
})

// ---- the quota ----

t.test('the totals of the quota change only within the limits', async (t) => {
  const ledger = (changes: Partial<LedgerDocument>): LedgerDocument => ({
    ...{ _id: 1, bytes: 0, files: 0, changes: 3, imports: [], kept: 0 },
    ...changes,
  })
  const entry = (import_id: number, source = 0, partition = 0) => ({
    ...{ import_id, source, partition },
    entered_at: past,
  })
  const limits = { bytes: 100, imports: 2 }
  const faults = await findFaults<LedgerDocument>(collections.ledgers, ledger, [
    {
      write: 'enterImport',
      changes: {},
      leaves: [
        { imports: [entry(1)] },
        { imports: [entry(2), entry(3)] },
        { bytes: 61 },
        { kept: 61 },
        { imports: [entry(2, 30, 31)] },
      ],
      run: () => staged.enterImport(collections, 1, { importId: 1, bytes: 40 }, limits),
    },
    {
      write: 'growSource',
      changes: { imports: [entry(1, 10)] },
      leaves: [{ imports: [] }, { imports: [entry(2, 10)] }, { imports: [entry(1, 61)] }, { bytes: 51 }],
      run: () => staged.growSource(collections, 1, { importId: 1, bytes: 40, within: 'all' }, 100),
    },
    {
      write: 'reservePartition',
      changes: { imports: [entry(1, 10), entry(2, 10, 10)] },
      leaves: [{ imports: [] }, { imports: [entry(1, 10), entry(2, 10, 50)] }],
      run: () => staged.reservePartition(collections, 1, { importId: 1, bytes: 40 }, 100),
    },
    {
      write: 'charge',
      changes: {},
      leaves: [{ bytes: 61 }, { kept: 61 }, { imports: [entry(2, 30, 31)] }, { files: 5 }],
      run: () =>
        inTransaction(database, (session) =>
          charge(collections, session, 1, { bytes: 40, files: 1 }, { bytes: 100, files: 5 }),
        ),
    },
  ])
  t.same(faults, [])
})

t.test(
  'an upload is renewed and gets another blob only under its token, and is pinned when finished',
  async (t) => {
    const upload = (changes: Partial<UploadDocument>): UploadDocument => ({
      ...{ _id: 'u', organization_id: 2, name: 'a.csv', state: 'unfinished', blob: 'uploads/00/u' },
      ...{ size: 10, charged: 50, modified_at: past, lease: { token: 'mine', until: past }, pinned_by: [] },
      ...changes,
    })
    const leaves: Partial<UploadDocument>[] = [
      { lease: { token: 'other', until: past } },
      { lease: null },
      { state: 'finished' },
      { _id: 'another' },
    ]
    const faults = await findFaults<UploadDocument>(collections.uploads, upload, [
      {
        write: 'renewUpload',
        ...{ changes: {}, leaves },
        run: () => uploads.renewUpload(collections, upload({}), 'mine'),
      },
      {
        write: 'replaceBlob',
        ...{ changes: {}, leaves },
        run: () => uploads.replaceBlob(collections, upload({}), 'mine', 'uploads/00/v'),
      },
      {
        write: 'pinUpload',
        changes: { state: 'finished' },
        leaves: [{ state: 'unfinished' }, { state: 'detached' }, { organization_id: 3 }, { name: 'b.csv' }],
        run: () => uploads.pinUpload(collections, { organizationId: 2, name: 'a.csv', importId: 7 }),
      },
    ])
    t.same(faults, [])
  },
)

// ---- transactions ----

t.test('values are changed in place only while the fields were read a moment ago', async (t) => {
  const document = subscriberDocument(77, 'place@example.com', 7_700)
  await collections.subscribers.insertOne(document)
  const { time } = await readPrimaryClock(database)
  const changeAfter = async (ms: number, value: string) => {
    const change = { set: {}, unset: [], values: new Map([[5, value]]) }
    const written = await changeInPlace(database, document, change, new Date(time.getTime() - ms))
    return written?.custom_fields['5']
  }
  t.equal(await changeAfter(10_000, 'in time'), 'in time')
  t.equal(await changeAfter(60_000, 'late'), undefined)
  t.match(await collections.subscribers.findOne({ _id: document._id }), { custom_fields: { 5: 'in time' } })
})

t.test('changes in place keep the limit of a subscriber together, however many come at once', async (t) => {
  const document = subscriberDocument(78, 'full@example.com', 7_800)
  await collections.subscribers.insertOne(document)
  const { time } = await readPrimaryClock(database)
  const value = 'x'.repeat(600_000)
  const written = await Promise.all(
    Array.from({ length: 8 }, (_, i) =>
      changeInPlace(database, document, { set: {}, unset: [], values: new Map([[i, value]]) }, time),
    ),
  )
  t.equal(written.filter((each) => each !== null).length, 6, 'as many as fit into 4 MiB')
  const full = present(await collections.subscribers.findOne({ _id: document._id }), 'the subscriber')
  t.ok(valuesBytes(full.custom_fields) <= 4_194_304)
  const smaller = { set: {}, unset: [], values: new Map([[0, null]]) }
  t.ok(await changeInPlace(database, full, smaller, time), 'what is full can get smaller')
})

t.test('what a transaction has written is undone with it', async (t) => {
  const moved = { organizationId: 1, listId: 1, changes: { ...noStatusCounts(), active: 3 } }
  const request = { amount: 1, hasQuotaLock: true }
  const writes: Record<string, (session: ClientSession) => Promise<unknown>> = {
    changeCounts: (session) => changeCounts(database, session, moved),
    changeCountsOfLane: (session) => changeCountsOfLane(collections, session, 'e1', moved),
    useQuota: (session) => useQuota(collections, session, 1, request),
    advanceChunk: (session) => chunks.advanceChunk(collections, session, progress),
    recordReservation: (session) => chunks.recordReservation(collections, session, leasedChunk, 7),
    releaseFailedChunk: (session) =>
      chunks.releaseFailedChunk(collections, session, {
        importId: 1,
        chunkId: leasedChunk._id,
        token: 'mine',
      }),
    replaceChunks: (session) => chunks.replaceChunks(collections, session, 1, [storedChunk(1, 5)]),
    recordDeactivated: (session) =>
      chunks.recordDeactivated(collections, session, {
        ...{ chunk: storedChunk(1, 1), to: '1:d', subscribers: 3 },
      }),
    writeInStep: (session) =>
      steps.writeInStep(
        collections,
        { ...ours, state: 'splitting' },
        { $set: { state: 'importing' } },
        session,
      ),
    insertImport: (session) => imports.insertImport(collections, storedImport({ _id: 2 }), session),
  }
  const touched = [
    collections.chunks,
    collections.imports,
    collections.organizations,
    collections.subscriberCounts,
  ] as unknown as Collection[]
  const everything = () =>
    Promise.all(touched.map((collection) => collection.find().sort({ _id: 1 }).toArray()))
  await Promise.all(touched.map((collection) => collection.deleteMany({})))
  await collections.organizations.insertOne(organization({}))
  await collections.imports.insertOne(importOf(leaseOf(step)))
  await collections.chunks.insertMany([leasedChunk, storedChunk(1, 1, { state: 'done' })])
  const before = await everything()
  const session = client.startSession()
  for (const [name, write] of Object.entries(writes)) {
    session.startTransaction({ readConcern: { level: 'snapshot' }, writeConcern: { w: 'majority' } })
    t.not(await write(session), false, `${name} writes`)
    await session.abortTransaction()
    t.same(await everything(), before, name)
  }
  await session.endSession()
})

// ---- quota under the subscriber limit ----

const organization = (changes: Partial<OrganizationDocument>): OrganizationDocument => ({
  ...{ _id: 1, name: 'One', time_zone_name: 'UTC', subscriber_limit: 10, places_revision: 0 },
  created_at: past,
  ...changes,
})

t.test('a limit whose request died binds all that may still write by the old one', async (t) => {
  for (const writing of [{ state: 'importing' }, ended] as const) {
    await Promise.all([
      collections.organizations.deleteMany({}),
      collections.mailingLists.deleteMany({}),
      collections.subscriberCounts.deleteMany({}),
      collections.imports.deleteMany({}),
      collections.chunks.deleteMany({}),
    ])
    await collections.organizations.insertOne(organization({ limit_change: 'x' }))
    await collections.mailingLists.insertOne({
      ...{ _id: 1, organization_id: 1, name: 'News', name_key: 'news', has_format: false },
      ...{ has_confirmed: false, is_remote_list: false, primary_key_custom_field_id: null, revision: 0 },
      created_at: past,
    })
    await collections.imports.insertOne(importOf(writing))
    await collections.chunks.insertOne(chunk(leased))
    t.same(await enforcePendingLimits(context), [1])
    t.match(
      await collections.chunks.findOne({}),
      { state: 'ready', lease: { token: null } },
      'running chunks are taken back',
    )
    const stripes = await collections.subscriberCounts.find().toArray()
    t.ok(
      stripes.length > 0 && stripes.every((stripe) => stripe.limit_changes === 1),
      'requests in progress conflict with it',
    )
    t.equal((await collections.organizations.findOne({}))!.limit_change, undefined)
    t.same(await enforcePendingLimits(context), [])
  }
})

/** A limit of 10, 6 active subscribers, and three running chunks, the first with a reservation of 3. */
async function prepareQuota(): Promise<void> {
  await Promise.all([
    collections.organizations.deleteMany({}),
    collections.subscriberCounts.deleteMany({}),
    collections.chunks.deleteMany({}),
  ])
  await collections.organizations.insertOne(organization({}))
  await collections.subscriberCounts.insertOne({
    ...{ _id: '1:a0', organization_id: 1, mailing_list_id: 1 },
    ...{ active: 6, bounced: 0, unsubscribed: 0, scomp: 0, deactivated: 0 },
  })
  await collections.chunks.insertMany([
    storedChunk(1, 0, { ...leased, quota_reserved: 3 }),
    storedChunk(1, 1, { ...leased, ...leaseOf({ ...held, token: 'second' }) }),
    storedChunk(1, 2, { ...leased, ...leaseOf({ ...held, token: 'third' }) }),
  ])
}

type TransactionWork = (session: ClientSession) => Promise<unknown>

/** Two transactions that both do their work before either commits. Resolves to how many committed. */
async function countCommitted(one: TransactionWork, other: TransactionWork): Promise<number> {
  const committed = await Promise.allSettled(
    (await Promise.all([one, other].map(beginTransaction))).map(async ({ session, hasFailed }) => {
      try {
        if (hasFailed) throw new Error('it conflicts with the other one')
        await session.commitTransaction()
      } finally {
        await session.endSession()
      }
    }),
  )
  return committed.filter(({ status }) => status === 'fulfilled').length
}

async function beginTransaction(work: TransactionWork) {
  const session = client.startSession()
  session.startTransaction({ readConcern: { level: 'snapshot' }, writeConcern: { w: 'majority' } })
  const hasFailed = await work(session).then(
    () => false,
    () => true,
  )
  return { session, hasFailed }
}

const takeOne: TransactionWork = (session) =>
  useQuota(collections, session, 1, { amount: 1, hasQuotaLock: true })
/** Reserves a quota of 1 for a chunk of import 1. */
const reserveOne =
  (number: number, token: string, limit = 10) =>
  (session: ClientSession) =>
    reserveQuota(collections, session, {
      chunk: { _id: storedChunk(1, number)._id, import_id: 1, organization_id: 1, dry_run: false, token },
      ...{ limit, needed: 1, wanted: 1 },
    })

t.test('a request takes only quota that is neither used nor reserved, and is told which it is', async (t) => {
  const take = (amount: number) =>
    inTransaction(database, (session) => useQuota(collections, session, 1, { amount, hasQuotaLock: true }))
  await prepareQuota()
  t.equal(await take(1), 'ok')
  t.equal(await take(2), 'busy', 'a chunk has reserved what would be left')
  t.equal(await take(5), 'full', 'active subscribers alone leave too little')
})

t.test('the last of the quota is taken once when two ask for it at the same moment', async (t) => {
  await prepareQuota()
  t.equal(await countCommitted(takeOne, takeOne), 1, 'two requests')
  await prepareQuota()
  t.equal(await countCommitted(reserveOne(1, 'second'), reserveOne(2, 'third')), 1, 'two chunks')
  await prepareQuota()
  t.equal(await countCommitted(takeOne, reserveOne(1, 'second')), 1, 'a request and a chunk')
})

t.test('a chunk knows whether another one may still give quota back', async (t) => {
  await prepareQuota()
  // 9 of 10 are active or reserved by the first chunk.
  t.same(await inTransaction(database, reserveOne(1, 'second')), { reserved: 1, isLast: false })
  await prepareQuota()
  await collections.chunks.updateMany({}, { $set: { quota_reserved: 0 } })
  t.same(await inTransaction(database, reserveOne(1, 'second', 7)), { reserved: 1, isLast: true })
  t.same(await inTransaction(database, reserveOne(1, 'second', 8)), { reserved: 1, isLast: false })
})

t.test('a chunk whose lease is lost reserves nothing', async (t) => {
  await prepareQuota()
  t.equal(await inTransaction(database, reserveOne(1, 'lost', 100)), 'lost')
})
