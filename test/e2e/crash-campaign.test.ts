import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { seededRandom } from '../../bench/load/random.ts'
import {
  beginImport,
  differences,
  leftovers,
  prepareLists,
  threeBatches,
  untilFinalized,
  whatIsLeftBy,
  writeFiles,
  type Left,
} from '../helpers/compared-import.ts'
import { Engines, type RunningEngine } from '../helpers/engines.ts'
import { startService, until, type Service } from '../helpers/service.ts'
import { storedUploads } from '../helpers/stored-uploads.ts'
import { sweepFiles } from '../helpers/sweep-files.ts'

/**
 * Engines are killed and suspended at the points where it may do harm. The import must leave what an undisturbed one
 * leaves.
 *
 * In `npm test` one import passes through points of each kind, and small ones, which are written whole, through theirs.
 * An engine is killed at a point, and the next one takes over and is killed at its own point; in the end two are
 * suspended. The test ends the leases itself, to save the wait.
 *
 * With ROLLCALL_ROUNDS (docs/campaigns.md) it runs that number of rounds, each with one import and one or several
 * deaths. Leases run out by themselves, and the time from the last death to the end of the import is measured.
 */

/** Where engines die; test/helpers/crash-at.ts says how. */
const points = {
  'start of an import sent, unanswered': 'findAndModify imports started_at after 1',
  'chunks written, not committed': 'insert import_chunks after 1',
  'split committed, unanswered': 'update imports number_of_records > commitTransaction after 1',
  'before the commit of an unpin': 'findAndModify uploads $pull > commitTransaction before 1',
  'claim of a chunk sent, unanswered': 'findAndModify import_chunks after 2',
  'in a batch, subscribers inserted': 'insert subscribers after 2',
  'in a batch, subscribers updated': 'update import_chunks $literal > update subscribers after 2',
  // This is the chunk of one identity. It has three batches, so the next engine resumes inside it.
  'before the commit of a batch, one of its chunk committed':
    'update import_chunks },"quota_reserved" > commitTransaction before 2',
  'batch committed, unanswered, others of its chunk left':
    'update import_chunks },"quota_reserved" > commitTransaction after 1',
  "before the commit of a chunk's last batch":
    'update import_chunks "state":"done"} > commitTransaction before 2',
  'last batch of a chunk committed, unanswered':
    'update import_chunks "state":"done"} > commitTransaction after 2',
  'claim of the finishing step sent, unanswered': 'findAndModify imports "state":"importing" after 1',
  'counted, no subscriber deactivated': 'aggregate import_chunks $counts.added after 1',
  'before the commit of a deactivation': 'update import_chunks deactivated_to > commitTransaction before 2',
  'deactivation committed, unanswered': 'update import_chunks deactivated_to > commitTransaction after 2',
  'before an import is finished': 'findAndModify imports "state":"finished" before 1',
  'end of an import sent, unanswered': 'findAndModify imports "state":"finished" after 1',
  'ended, chunks closed': 'update imports $unset before 1',
  'totals fixed, working data there': 'update imports $unset after 1',
  'files removed, chunks there': 'delete import_chunks "ordered":true,"writeConcern" before 1',
  'chunks removed, not finalized': 'delete import_chunks "ordered":true,"writeConcern" after 1',
  'finalized, unanswered': 'findAndModify imports "finalized":true after 1',
} as const

/** Further points, for the long form. */
const morePoints = {
  'plan written': 'update imports "$set":{"plan" after 1',
  'subscriber ids taken, no chunk yet': 'findAndModify counters after 1',
  'before the commit of the split': 'update imports number_of_records > commitTransaction before 1',
  'claim of a chunk not sent': 'findAndModify import_chunks before 1',
  'places taken, not committed': 'update organizations places_revision after 1',
  'places taken, unanswered': 'update organizations places_revision > commitTransaction after 2',
  'in a batch, reactions queued': 'insert reactions after 1',
  'in a batch, counts written': 'update import_chunks $literal > update subscriber_counts after 1',
  'in a deactivation, progress noted': 'update import_chunks deactivated_to after 2',
  'in a deactivation, subscribers updated':
    'update import_chunks deactivated_to > update subscribers after 1',
} as const

/** Deaths during the take-over from another dead engine, and at the start. */
const takeOverPoints = {
  'before its sessions are killed': 'killSessions before 1',
  'its sessions killed': 'killSessions after 1',
  'its chunks given back': 'update import_chunks "q":{"state":"running","lease.holder" after 1',
  'its steps given back': 'update imports "q":{"finalized":false,"lease.holder" after 1',
  'its document removed': 'delete engines after 1',
  'taken over, noted': 'update engines "dead":true after 1',
  'entered, nothing else': 'update engines started_at after 1',
  'further sessions noted': 'update engines $addToSet after 1',
} as const

const downloadPoints = {
  'downloaded, not noted': 'update imports "$set":{"state":"splitting" before 1',
  'download noted, unanswered': 'update imports "$set":{"state":"splitting" after 1',
} as const

/** Where engines die of a small import. */
const smallPoints = {
  'start of a small import not sent': 'findAndModify imports started_at before 1',
  'start of a small import sent, unanswered': 'findAndModify imports started_at after 1',
  'in a small import, subscribers inserted': 'insert subscribers after 1',
  'before the commit of a small import':
    'findAndModify imports number_of_records > commitTransaction before 1',
  'small import committed, its files there':
    'findAndModify imports number_of_records > commitTransaction after 1',
  'files of a small import removed, still counted': 'update ledgers $pull before 1',
} as const

/** Deaths of a small import with a callback, which is queued after the end. */
const callbackPoints = {
  'callback of a small import not queued': 'insert import_callbacks before 1',
  'callback of a small import queued': 'insert import_callbacks after 1',
  'small import finalized, unanswered': 'findAndModify imports "finalized":true after 1',
} as const

/** Further points, for the long form. */
const moreSmallPoints = {
  'ids of a small import taken': 'findAndModify counters after 1',
  'in a small import, log lines inserted': 'insert import_outcomes after 1',
  'in a small import, reactions queued': 'insert reactions after 1',
  'in a small import, subscribers updated': 'update subscribers after 1',
  'in a small import, counts written': 'update subscriber_counts after 1',
  'in a small import, failed rows inserted': 'insert import_failures after 1',
  'end of a small import written': 'findAndModify imports number_of_records after 1',
  'small import counted no more': 'update ledgers $pull after 1',
} as const

/** Where an engine is suspended for longer than its lease. When it is resumed, it sends the very next command. */
const suspensionPoints = {
  'before it starts an import': 'findAndModify imports started_at before 1 SIGSTOP',
  'before it claims a step': 'findAndModify imports "state":"importing" before 1 SIGSTOP',
  'before it claims a chunk': 'findAndModify import_chunks before 1 SIGSTOP',
  'before the commit of the split': 'update imports number_of_records > commitTransaction before 1 SIGSTOP',
  'before a batch': 'update import_chunks $literal before 2 SIGSTOP',
  'before the commit of a batch': 'update import_chunks $literal > commitTransaction before 2 SIGSTOP',
  'before a deactivation': 'update import_chunks deactivated_to before 2 SIGSTOP',
  'before the commit of a deactivation':
    'update import_chunks deactivated_to > commitTransaction before 2 SIGSTOP',
  'before the end of an import': 'findAndModify imports "state":"finished" before 1 SIGSTOP',
  'before it settles': 'update imports $unset before 1 SIGSTOP',
} as const

const smallSuspensionPoints = {
  'before it starts a small import': 'findAndModify imports started_at before 1 SIGSTOP',
  'before the end of a small import': 'findAndModify imports number_of_records before 1 SIGSTOP',
  'before the commit of a whole import':
    'findAndModify imports number_of_records > commitTransaction before 1 SIGSTOP',
} as const

/** Points of the long form alone: in the short one, an engine dies next to each of them. */
const longAlone = new Set<string>([
  'start of an import sent, unanswered',
  'in a batch, subscribers inserted',
  'in a batch, subscribers updated',
  "before the commit of a chunk's last batch",
  'claim of the finishing step sent, unanswered',
  'counted, no subscriber deactivated',
  'before an import is finished',
  'ended, chunks closed',
  'totals fixed, working data there',
  'files removed, chunks there',
  'finalized, unanswered',
  'its sessions killed',
  'its chunks given back',
  'its steps given back',
  'taken over, noted',
  'further sessions noted',
  'downloaded, not noted',
  'callback of a small import not queued',
  'small import finalized, unanswered',
] satisfies (
  | keyof typeof points
  | keyof typeof takeOverPoints
  | keyof typeof downloadPoints
  | keyof typeof callbackPoints
)[])

const rounds = Number(process.env['ROLLCALL_ROUNDS'] ?? 0)
const seed = Number(process.env['ROLLCALL_SEED'] ?? 1)

if (rounds === 0) {
  t.setTimeout(550_000)
  t.test(
    'killed and suspended, one engine after the other, imports leave what an undisturbed one leaves',
    { timeout: 550_000 },
    async (t) => {
      const all = Object.entries({ ...points, ...takeOverPoints, ...downloadPoints }).filter(
        ([name]) => !longAlone.has(name),
      )
      // Three are used, more where an engine misses its point.
      const field = await openField(t, { rows: 3_400, imports: 5 })
      await dieOneAfterTheOther(field, all)
      const importId = await field.begin()
      const names = ['before the commit of a batch', 'before the commit of a deactivation'] as const
      await suspend(field, importId, { names, wakeAt: 'finalized', endsLease: true })
      await check(field, importId, 'suspended one after the other')
    },
  )
  t.test(
    'killed and suspended, small imports leave what an undisturbed one leaves',
    { timeout: 300_000 },
    async (t) => {
      const field = await openField(t, { rows: 600, imports: 6, isSmall: true })
      await dieOneAfterTheOther(
        field,
        Object.entries({ ...smallPoints, ...callbackPoints }).filter(([name]) => !longAlone.has(name)),
      )
      const importId = await field.begin()
      const names = ['before the commit of a whole import'] as const
      await suspend(field, importId, { names, wakeAt: 'finalized', endsLease: true })
      await check(field, importId, 'suspended')
    },
  )
} else {
  t.setTimeout(rounds * 60_000)
  t.test(`${rounds} rounds, seed ${seed}`, { timeout: rounds * 60_000 }, campaign)
  t.test(
    'an engine that is judged dead, claims once more and dies of it, loses no row',
    { timeout: 300_000 },
    dieOfAClaimUnderADeadName,
  )
}

// ---- a field: a database, a control plane, lists that are the same, and what an import leaves there ----

interface Field {
  t: Test
  service: Service
  engines: Engines
  /** Lists with the same subscribers; each round uses one. */
  lists: number[]
  undisturbed: Left
  undisturbedMs: number
  isSmall: boolean
  /** How many points engines were killed at, of those that come in turn. */
  pointsUsed: number
  /** Begins the import on the next list, with the source or the callback that the point needs. */
  begin: (point?: string) => Promise<number>
}

async function openField(
  t: Test,
  { isSmall = false, ...size }: { rows: number; imports: number; isSmall?: boolean },
): Promise<Field> {
  const service = await startService(t, ['control-plane'])
  const engines = new Engines(t, service)
  await writeFiles(service, { rows: size.rows, repeated: isSmall ? 100 : threeBatches })
  const engine = await engines.start()
  const lists = await prepareLists(service, size.imports + 1)
  // Under a limit no import is small.
  if (isSmall) await service.collections.organizations.updateMany({}, { $set: { subscriber_limit: null } })
  const fileUrl = await serveText(t, () => storedUploads(service).content('file.csv'))
  const begin = (point = '') => {
    const url = point in downloadPoints ? fileUrl : undefined
    return beginImport(service, lists.pop()!, { url, isSmall, hasCallback: point in callbackPoints })
  }
  const beganAt = Date.now()
  const importId = await begin()
  await untilFinalized(service, importId)
  const undisturbedMs = Date.now() - beganAt
  const undisturbed = await whatIsLeftBy(service, importId)
  t.equal(undisturbed.view.state, 'finished')
  t.strictSame(differences(undisturbed, undisturbed), [], 'the undisturbed import is consistent')
  const unused = Object.entries(undisturbed.view.stats.subscribers as Record<string, number>).filter(
    ([kind, count]) => count === 0 && exercised.includes(kind) && !(isSmall && kind === 'deactivated'),
  )
  t.strictSame(unused, [], 'the file has a row of every kind')
  engine.signal('SIGTERM')
  await engine.ended
  const { partition } = (await service.collections.imports.findOne({ _id: importId }))!
  t.equal(partition === null, isSmall, 'an import that is written whole has no partition')
  t.strictSame(await leftovers(service, importId), [], 'it left nothing else')
  return { t, service, engines, lists, undisturbed, undisturbedMs, isSmall, pointsUsed: 0, begin }
}

const exercised = [
  'added',
  'updated',
  'failed',
  'skipped_unsubscribed',
  'skipped_bounced',
  'skipped_duplicate',
  'deactivated',
]

async function serveText(t: Test, read: () => Promise<string>): Promise<string> {
  const server = createServer((_, response) => {
    void read().then((text) => response.end(text))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/file.csv`
}

async function check(
  { t, service, engines, undisturbed, isSmall }: Field,
  importId: number,
  what: string,
): Promise<void> {
  const { partition } = (await service.collections.imports.findOne({ _id: importId }))!
  if (isSmall) t.equal(partition, null, `${what}: it was written whole`)
  const wrong = [
    ...differences(undisturbed, await whatIsLeftBy(service, importId)),
    ...(await leftovers(service, importId)),
  ]
  t.strictSame(wrong, [], what)
  if (wrong.length > 0) t.comment(engines.log.slice(-6_000))
}

// ---- the short form ----

type Point = [name: string, crashAt: string]

async function dieOneAfterTheOther(field: Field, deaths: Point[]): Promise<void> {
  const { t, service, engines } = field
  const begun: number[] = []
  for (const [name, crashAt] of deaths) {
    const engine = await engines.start(crashAt)
    const deadline = Date.now() + 60_000
    while (engine.isAlive() && Date.now() < deadline) {
      if ((await service.collections.imports.countDocuments({ finalized: false })) === 0)
        begun.push(await field.begin(name))
      await Promise.race([engine.ended, sleep(100)])
    }
    if (!t.notOk(engine.isAlive(), `an engine died: ${name}`)) t.comment(engine.log())
    await engines.kill([engine])
    await engines.endLeaseOf(engine)
  }
  const last = await engines.start()
  for (const importId of begun) {
    await untilFinalized(service, importId, 60_000)
    if (field.isSmall) await sweepLater(service)
    await check(field, importId, `import ${importId} left what an undisturbed one leaves`)
  }
  await engines.untilDeadOnesAreGone(30_000)
  await engines.kill([last])
  await engines.endLeaseOf(last)
}

/** Runs the sweep as if it were two hours later. It removes what an engine left that died after a small import's end. */
async function sweepLater(service: Service): Promise<void> {
  const old = new Date(Date.now() - 2 * 3_600_000)
  const ofImports = { 'imports.0': { $exists: true } }
  await service.collections.ledgers.updateMany(ofImports, { $set: { 'imports.$[].entered_at': old } })
  await sweepFiles(service, { ofAnyAge: true })
}

/**
 * Suspends engines, each at its point, until another one has taken over or has done everything; then resumes them.
 */
async function suspend(
  { t, service, engines }: Field,
  importId: number,
  how: {
    names: readonly (keyof typeof suspensionPoints | keyof typeof smallSuspensionPoints)[]
    wakeAt: 'taken over' | 'finalized'
    endsLease: boolean
  },
): Promise<void> {
  const suspended: [string, RunningEngine][] = []
  for (const name of how.names) {
    const engine = await engines.start({ ...suspensionPoints, ...smallSuspensionPoints }[name])
    await engines.untilSuspended(engine)
    if (how.endsLease) await engines.endLeaseOf(engine)
    suspended.push([name, engine])
  }
  await engines.start()
  for (const [, engine] of suspended) await engines.untilTakenOver(engine)
  if (how.wakeAt === 'finalized') await untilFinalized(service, importId, 60_000)
  await Promise.all(suspended.map(([, engine]) => engines.resume(engine)))
  await untilFinalized(service, importId, 120_000)
  for (const [name, engine] of suspended) {
    await until(
      'its new life',
      () => engines.documentOf(engine),
      (document) => document !== null,
    )
    t.ok(engine.isAlive(), `suspended ${name}, it lives again`)
  }
}

// ---- the long form ----

async function campaign(t: Test): Promise<void> {
  const fieldCount = Math.min(3, rounds)
  const recoveries: number[] = []
  await Promise.all(
    Array.from({ length: fieldCount }, async (_, number) => {
      const own = Array.from({ length: rounds }, (_, i) => i).filter((i) => i % fieldCount === number)
      // A third of the imports are small.
      const isSmall = number === 2
      const field = await openField(t, { rows: isSmall ? 600 : 8_000, imports: own.length, isSmall })
      for (const round of own) recoveries.push(await runRound(field, round))
    }),
  )
  recoveries.sort((a, b) => a - b)
  const seconds = (ms: number | undefined) => ((ms ?? 0) / 1000).toFixed(1)
  t.comment(
    `recovered after ${seconds(recoveries[Math.floor(recoveries.length / 2)])} s in the median, ${seconds(recoveries.at(-1))} s at most`,
  )
  t.comment(`${recoveries.filter((ms) => ms > 25_000).length} rounds took longer than 25 s`)
}

/**
 * An import recovers when the lease of 12 s has expired and another engine has polled, which it does every 2.4 to 3.6
 * s. The rest is work, of four rounds at once on a busy machine. So the bound is not 25 s. Work alone doesn't reach
 * it; a wait until the server drops a dead engine's transaction (60 s and up to 30 more) does.
 */
const longestRecoveryMs = 45_000

async function runRound(field: Field, round: number): Promise<number> {
  const { t, service, engines } = field
  const random = seededRandom(seed * 1_000 + round)
  const [kind, disturb] = kinds[round % kinds.length]!
  let importId = 0
  const begin = async (point?: string) => (importId = await field.begin(point))
  let what = field.isSmall ? `a small import, ${kind}` : kind
  let recoveryMs = 0
  engines.lastLossAt = Date.now()
  try {
    what = `${what}: ${await disturb({ field, begin, random, number: Math.floor(round / kinds.length) })}`
    await untilFinalized(service, importId, 180_000)
    const { finished_at } = (await service.collections.imports.findOne({ _id: importId }))!
    recoveryMs = Math.max(0, finished_at!.getTime() - engines.lastLossAt)
    t.comment(`round ${round}, ${what}: finished ${(recoveryMs / 1000).toFixed(1)} s later`)
    t.ok(recoveryMs < longestRecoveryMs, `round ${round}, ${what}: recovered after ${recoveryMs} ms`)
    if (recoveryMs >= longestRecoveryMs) t.comment(engines.log.slice(-6_000))
    await engines.untilDeadOnesAreGone(60_000)
    if (field.isSmall) await sweepLater(service)
    await check(field, importId, `round ${round}, ${what}`)
  } catch (error) {
    t.fail(`round ${round}, ${what}: ${String(error)}`)
    t.comment(engines.log.slice(-6_000))
  }
  await engines.kill(engines.alive)
  await service.collections.engines.deleteMany({})
  return recoveryMs
}

/** A dead engine from which no other has taken over, under a name that no process knows any more. */
async function dieOfAClaimUnderADeadName(t: Test): Promise<void> {
  const field = await openField(t, { rows: 3_400, imports: 1 })
  const { service, engines } = field
  const engine = await engines.start(suspensionPoints['before it claims a step'])
  const importId = await field.begin()
  await engines.untilSuspended(engine)
  // A paused import is left alone by the engine that takes over.
  await service.post(`/subscriber_imports/${importId}/pause`)
  const { _id: deadName } = (await engines.documentOf(engine))!
  await engines.endLeaseOf(engine)
  const other = await engines.start()
  await engines.untilTakenOver(engine)
  other.signal('SIGTERM')
  await other.ended
  await service.post(`/subscriber_imports/${importId}/unpause`)
  const resumed = engines.resume(engine)
  const { imports } = service.collections
  while ((await imports.countDocuments({ _id: importId, 'lease.holder': deadName })) === 0) {
    // The engine gives the step back within milliseconds, so this loop has no pause.
    if ((await imports.countDocuments({ _id: importId, state: 'importing' })) === 0) break
  }
  await engines.kill([engine])
  await resumed
  await engines.start()
  await untilFinalized(service, importId, 90_000)
  await check(field, importId, 'it went on')
}

interface Round {
  field: Field
  begin: (point?: string) => Promise<number>
  random: () => number
  /** Rounds of this kind before. */
  number: number
}

type Disturb = (round: Round) => Promise<string>

const kinds: [string, Disturb][] = [
  ['one engine, killed at a point and started again', killedAtPoint],
  ['one engine, killed at a point and started again', killedAtPoint],
  ['one engine, killed at some moment', killedAtSomeMoment(1)],
  ['two of three engines killed at a point', twoKilledAtPoint],
  ['killed again and again', killedAgainAndAgain],
  ['one engine, killed at a point and started again', killedAtPoint],
  ['killed in the take-over from another one', killedInTakeOver],
  ['one of three engines killed at some moment', killedAtSomeMoment(3)],
  ['one engine, killed at a point and started again', killedAtPoint],
  ['suspended past its lease', suspendedPastItsLease],
]

/** Four times in ten rounds; between them they go through all points of the field's imports. */
async function killedAtPoint({ field, begin }: Round): Promise<string> {
  const all = Object.entries(
    field.isSmall
      ? { ...smallPoints, ...moreSmallPoints, ...callbackPoints }
      : { ...points, ...morePoints, ...downloadPoints },
  )
  const [name, crashAt] = all[field.pointsUsed % all.length]!
  field.pointsUsed += 1
  const engine = await field.engines.start(crashAt)
  await begin(name)
  await untilDeadOrFinalized(field, [engine])
  // The documents show the last points before the signal has ended the process.
  for (let i = 0; i < 100 && engine.isAlive(); i += 1) await sleep(50)
  field.t.notOk(engine.isAlive(), `an engine died: ${name}`)
  await field.engines.start()
  return name
}

async function twoKilledAtPoint({ field, begin, random, number }: Round): Promise<string> {
  const all = Object.entries(
    field.isSmall ? { ...smallPoints, ...moreSmallPoints } : { ...points, ...morePoints },
  )
  const [name, crashAt] = all[(number * 3 + Math.floor(random() * 3)) % all.length]!
  const armed = await Promise.all([field.engines.start(crashAt), field.engines.start(crashAt)])
  await field.engines.start()
  await begin()
  await untilDeadOrFinalized(field, armed)
  if (random() < 0.5) await field.engines.start()
  return `${name} (${armed.filter((engine) => !engine.isAlive()).length} died at once)`
}

function killedAtSomeMoment(count: number): Disturb {
  return async ({ field, begin, random }) => {
    const started = await Promise.all(Array.from({ length: count }, () => field.engines.start()))
    await begin()
    const afterMs = random() * field.undisturbedMs
    await sleep(afterMs)
    await field.engines.kill(started.slice(0, 1))
    if (count === 1 || random() < 0.5) await field.engines.start()
    return `after ${Math.round(afterMs)} ms`
  }
}

/** Kills engines again, also while the next one waits for a lease or works on what the killed one left. */
async function killedAgainAndAgain({ field, begin, random }: Round): Promise<string> {
  const others = random() < 0.5 ? 0 : 2
  await Promise.all(Array.from({ length: others }, () => field.engines.start()))
  let engine = await field.engines.start()
  await begin()
  const pauses = [random() * field.undisturbedMs, random() * 17_000, random() * 17_000]
  for (const pause of pauses) {
    await sleep(pause)
    await field.engines.kill([engine])
    engine = await field.engines.start()
  }
  return `${pauses.map((ms) => Math.round(ms)).join(', ')} ms apart, ${others} others`
}

async function killedInTakeOver({ field, begin, random, number }: Round): Promise<string> {
  const all = Object.entries(takeOverPoints)
  const [name, crashAt] = all[number % all.length]!
  const first = await field.engines.start()
  await begin()
  await sleep(random() * field.undisturbedMs)
  await field.engines.kill([first])
  await untilDeadOrFinalized(field, [await field.engines.start(crashAt)])
  await field.engines.start()
  return name
}

async function suspendedPastItsLease({ field, begin, number }: Round): Promise<string> {
  const all = field.isSmall ? smallSuspensionPoints : suspensionPoints
  const names = Object.keys(all) as (keyof typeof suspensionPoints | keyof typeof smallSuspensionPoints)[]
  const name = names[number % names.length]!
  const wakeAt = Math.floor(number / names.length + number) % 2 === 0 ? 'taken over' : 'finalized'
  await suspend(field, await begin(), { names: [name], wakeAt, endsLease: false })
  return `${name}, woken when ${wakeAt}`
}

/** The first of the engines is dead, or there is nothing left to die of. */
async function untilDeadOrFinalized(field: Field, engines: RunningEngine[]): Promise<void> {
  await until(
    'a death',
    async () =>
      engines.some((engine) => !engine.isAlive()) ||
      (await field.service.collections.imports.countDocuments({ finalized: false })) === 0,
    (is) => is,
    60_000,
  )
}
