import t from 'tap'
import { ensureSchema } from '../../../shared/runtime/database.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import type { ImportDocument } from '../../../shared/contract/schemas/import.ts'
import { listWorkingImports } from '../../../engine/store/import-queues.ts'
import { findOtherFolders, isLeadingEngine, readEngineFolder } from '../../../engine/store/engines.ts'
import { adoptDataFolderId } from '../../../shared/store/installation.ts'
import {
  recordMissingInChunk,
  recordMissingInStep,
  withoutMissing,
} from '../../../engine/store/missing-files.ts'
import { keyHashSecret } from '../../../shared/store/api-keys.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'
import { storedChunk, storedImport } from '../../helpers/stored-import.ts'

/** Which engine may fail an import whose file is missing, and which leaves it to others: docs/decisions/111. */

const { database } = await databaseAndFolder(t)
const { collections } = database
await ensureSchema(database.db, createLogger({ process: 'test', level: 'silent' }))

/** Counted from the moment of the call: tests of this file may have waited for others. */
const ago = (seconds: number): Date => new Date(Date.now() - seconds * 1_000)
const noteOf = (folder: string, seconds: number) => ({ missing: { folder, at: ago(seconds) } })
const step = { engine_id: 'mine', token: 'mine', moved_at: new Date() }
const chunk = { state: 'running', token: 'mine', engine_id: 'mine', lease_until: ago(-60) } as const

async function stored(changes: Partial<ImportDocument>): Promise<void> {
  await collections.imports.deleteMany({})
  await collections.imports.insertOne(storedImport({ _id: 1, step, ...changes }))
}

const found = async () => (await collections.imports.findOne({ _id: 1 }))!

const cases: {
  what: string
  note?: { by: 'mine' | 'theirs'; seconds: number }
  isAlone?: boolean
  /** How many seconds ago an engine started that remembers no other folder. */
  onlyFolderFor?: number
  /** How many seconds ago the import was created. */
  age?: number
  outcome: 'noted' | 'failed'
}[] = [
  { what: 'no engine has missed it', outcome: 'noted' },
  { what: 'another one has', note: { by: 'theirs', seconds: 170 }, outcome: 'failed' },
  { what: 'another one has, alone', note: { by: 'theirs', seconds: 1 }, isAlone: true, outcome: 'failed' },
  { what: 'another one has, long ago', note: { by: 'theirs', seconds: 190 }, outcome: 'noted' },
  { what: 'the same one has', note: { by: 'mine', seconds: 50 }, outcome: 'noted' },
  {
    what: 'the same one has just now, alone',
    note: { by: 'mine', seconds: 50 },
    isAlone: true,
    outcome: 'noted',
  },
  { what: 'the same one has, alone', note: { by: 'mine', seconds: 70 }, isAlone: true, outcome: 'failed' },
  {
    what: 'the same one has long ago, alone',
    note: { by: 'mine', seconds: 190 },
    isAlone: true,
    outcome: 'noted',
  },
  { what: 'no other folder is known', isAlone: true, onlyFolderFor: 30, age: 10, outcome: 'failed' },
  { what: 'the import is older than the engine', isAlone: true, onlyFolderFor: 5, age: 10, outcome: 'noted' },
]

const message = 'a file is gone'

t.test('a missing file fails the import when it was missed before', async (t) => {
  for (const { what, note, isAlone = false, onlyFolderFor, age = 0, outcome } of cases) {
    const changes = () => ({
      created_at: ago(age),
      ...(note === undefined ? {} : noteOf(note.by, note.seconds)),
    })
    const onlyFolderSince = onlyFolderFor === undefined ? null : ago(onlyFolderFor)
    const finding = { folder: 'mine', isAlone, onlyFolderSince, message }
    await stored(changes())
    const { missing } = await found()
    t.equal(await recordMissingInStep(collections, { id: 1, token: 'mine' }, finding), outcome, what)
    const after = await found()
    const expected =
      outcome === 'failed'
        ? { state: 'failed', error_message: message }
        : { state: 'splitting', error_message: null, finished_at: null, missing: { folder: 'mine' } }
    t.match(after, expected, what)
    t.equal(after.finished_at !== null, outcome === 'failed', what)
    if (note?.by === 'mine' && note.seconds < 60)
      t.same(after.missing, missing, `${what}: the time stays that of the first look`)

    await collections.chunks.deleteMany({})
    await collections.chunks.insertOne(storedChunk(1, 0, { ...chunk, attempt: 3 }))
    await stored({ ...changes(), state: 'importing', step: null })
    const leasedChunk = { importId: 1, chunkId: '1:000000', token: 'mine' }
    const noted = await database.client.withSession((session) =>
      recordMissingInChunk(collections, session, leasedChunk, finding),
    )
    t.equal(noted, outcome, `${what}, in a chunk`)
    t.equal((await found()).state, outcome === 'failed' ? 'failed' : 'importing', `${what}, in a chunk`)
    const released = { state: 'ready', token: null, attempt: 0 }
    t.match(await collections.chunks.findOne({}), released, `${what}: no attempt is counted`)
  }
})

t.test('an engine that has lost the step or the chunk notes nothing', async (t) => {
  const finding = { folder: 'mine', isAlone: false, onlyFolderSince: null, message }
  for (const changes of [
    { step: { engine_id: 'theirs', token: 'theirs', moved_at: new Date() } },
    { step: null },
    { state: 'paused', paused_from: 'splitting', paused_at: ago(1) },
    { state: 'cancelled', finished_at: ago(1) },
  ] satisfies Partial<ImportDocument>[]) {
    await stored({ ...noteOf('theirs', 10), ...changes })
    const before = await found()
    t.equal(await recordMissingInStep(collections, { id: 1, token: 'mine' }, finding), 'lost')
    t.same(await found(), before, JSON.stringify(changes))
  }
  await stored({ ...noteOf('theirs', 10), state: 'importing', step: null })
  const before = await found()
  await collections.chunks.deleteMany({})
  await collections.chunks.insertOne(storedChunk(1, 0, { ...chunk, token: 'theirs' }))
  const leasedChunk = { importId: 1, chunkId: '1:000000', token: 'mine' }
  const noted = await database.client.withSession((session) =>
    recordMissingInChunk(collections, session, leasedChunk, finding),
  )
  t.equal(noted, 'lost')
  t.same(await found(), before)
})

t.test(
  'an engine leaves an import to the others for a minute, also where none is there just now',
  async (t) => {
    const engine = {
      ...{ _id: 'theirs', number: 1, host: 'h', process_id: 1, started_at: ago(60), dead: false },
      ...{ session_ids: [], lease_until: ago(-60) },
    }
    const isTaken = async (changes: Partial<ImportDocument>) => {
      await stored({ ...changes, step: null })
      const working = await listWorkingImports(collections)
      return (await withoutMissing(collections, working, 'mine')).length === 1
    }
    await collections.engines.insertOne(engine)
    t.ok(await isTaken({}))
    t.ok(await isTaken(noteOf('theirs', 1)), 'what another one has missed')
    t.notOk(await isTaken(noteOf('mine', 50)))
    t.ok(await isTaken(noteOf('mine', 70)))
    await collections.engines.replaceOne({ _id: 'theirs' }, { ...engine, lease_until: ago(1) })
    t.notOk(
      await isTaken(noteOf('mine', 50)),
      'after a failover leases have run out before anybody could renew them',
    )
    for (const gone of [{ sees_files: false }, { dead: true }]) {
      await collections.engines.replaceOne({ _id: 'theirs' }, { ...engine, ...gone })
      t.notOk(await isTaken(noteOf('mine', 50)), JSON.stringify(gone))
      t.ok(await isTaken(noteOf('mine', 70)), JSON.stringify(gone))
    }
  },
)

t.test('the id of the folder is adopted once', async (t) => {
  await keyHashSecret(collections)
  t.equal(await adoptDataFolderId(collections, 'first'), 'first')
  t.equal(await adoptDataFolderId(collections, 'second'), 'first')
})

t.test('of the engines that see their files the one with the smallest number leads', async (t) => {
  await collections.engines.deleteMany({})
  const engine = { host: 'h', process_id: 1, started_at: ago(60), session_ids: [], lease_until: ago(-60) }
  const leaders = async () => {
    const engines = await collections.engines.find().sort({ number: 1 }).toArray()
    const leads = await Promise.all(engines.map(({ _id }) => isLeadingEngine(collections, _id)))
    return engines.map(({ _id }) => _id).filter((_, i) => leads[i])
  }
  await collections.engines.insertMany(
    [0, 1, 2].map((number) => ({
      ...engine,
      ...{ _id: `engine ${number}`, number, folder: `h:/${number}`, dead: number === 0, sees_files: true },
    })),
  )
  t.same(await leaders(), ['engine 1'], 'a dead one does not')
  await collections.engines.updateOne({ number: 1 }, { $set: { sees_files: false } })
  t.same(await leaders(), ['engine 2'])
  await collections.engines.updateOne({ number: 2 }, { $set: { sees_files: false } })
  t.same(await leaders(), ['engine 1'], 'where all miss their files, one leads all the same')
})

t.test('an engine knows which other folders there are, and were until lately', async (t) => {
  await collections.engines.deleteMany({})
  const engine = (_id: string, number: number, changes: object) => ({
    ...{ _id, number, host: 'h', process_id: 1, started_at: ago(60), dead: false, session_ids: [] },
    ...{ lease_until: ago(-60), folder: 'h:/data', ...changes },
  })
  await collections.engines.insertMany([engine('mine', 1, {}), engine('twin', 2, {})])
  const mine = await readEngineFolder(collections, 'mine')
  t.match(mine, { host: 'h', folder: 'h:/data' })
  t.ok(mine.startedAt!.getTime() < Date.now() - 59_000)
  const none = { areAlive: false, areKnown: false }
  t.same(await findOtherFolders(collections, mine), none, 'beside one with the same folder')
  for (const [changes, expected] of [
    [{ folder: 'h:/other' }, { areAlive: true, areKnown: true }],
    [
      { folder: 'i:/data', dead: true },
      { areAlive: false, areKnown: true },
    ],
    [
      { folder: 'i:/data', sees_files: false },
      { areAlive: false, areKnown: true },
    ],
    [{}, none],
  ] as const) {
    await collections.engines.replaceOne({ _id: 'third' }, engine('third', 3, changes), { upsert: true })
    t.same(await findOtherFolders(collections, mine), expected, JSON.stringify(changes))
  }
  const { folder: _folder, number: _number, ...process } = engine('control plane', 0, {})
  for (const [host, areKnown] of [
    ['h', false],
    ['i', true],
  ] as const) {
    await collections.processes.replaceOne(
      { _id: 'control plane' },
      { ...process, host, kind: 'control-plane' },
      { upsert: true },
    )
    t.same(
      await findOtherFolders(collections, mine),
      { areAlive: false, areKnown },
      `a control plane on ${host}`,
    )
  }
})
