import { setTimeout as sleep } from 'node:timers/promises'
import { driverRetryReason } from '../../../shared/runtime/driver-errors.ts'
import { errorMessage } from '../../../shared/contract/errors.ts'
import { readPrimaryClock } from '../../../shared/store/leases.ts'
import type { CommandGate } from '../../helpers/command-gate.ts'
import { actors, actorsIn, isSuccessor, mayLeaveFiles, secondsOf, uploads, type ActorName } from './actors.ts'
import { drain, removeLateFieldValues, sweepFiles, sweepUploads, type Other } from './engine-acts.ts'
import { activeIn, brokenPromises, faultsAtTheEnd, faultsNow, type Done } from './invariants.ts'
import { fixtureNames, type Fixture, type FixtureName } from './fixtures.ts'
import type { Side } from './side.ts'

/**
 * Runs two processes in an interleaving: the first is stopped before its n-th command, or loses the reply to it, or
 * the primary steps down before it.
 */
export interface Interleaving extends Omit<Pair, 'fixture'> {
  fixture: Fixture
  at: number
}

/** Interleavings that differ in the command only. */
interface Pair {
  fixture: FixtureName
  first: ActorName
  second: ActorName
  how: How
}

export type How = 'hold' | 'cut' | 'step down'

export interface Sides {
  gate: CommandGate
  /** Works through the gate. */
  first: Side
  second: Side
  /** Prepares, ends and checks. */
  checker: Side
  /** Makes the primary step down, and resolves when there is a new one; only for `step down`. */
  stepDown?: () => Promise<void>
}

/** The second one counts as waiting for the first after this time. */
const timeoutMs = 400
/** This act lasts longer, as it does all work of an import; its engine waits for none that it judged dead. */
const secondMs = ({ second }: Pair | Interleaving): number =>
  second === 'take over and finish' ? 10 * timeoutMs : timeoutMs
const maxMs = 30_000

export const titleOf = ({ fixture, first, second, how }: Pair, at: number): string =>
  `${fixture}: ${first} ${described[how]} command ${at}, then ${second}`

/** No actor sends more. */
const maxCommands = 200

/** The pairs of which the expression matches a title, without the database: how many commands there are isn't known. */
export function pairsMatching(expression: RegExp, hows: readonly How[]): Pair[] {
  const pairs = fixtureNames.flatMap((fixture) =>
    actorsIn[fixture].flatMap((first) =>
      hows.flatMap((how) =>
        secondsOf(fixture, first, how).map((second) => ({ fixture, first, second, how })),
      ),
    ),
  )
  return pairs.filter((pair) => {
    for (let at = 1; at <= maxCommands; at += 1) if (expression.test(titleOf(pair, at))) return true
    return false
  })
}

const described: Record<How, string> = {
  hold: 'stopped before',
  cut: 'without the reply to',
  'step down': 'without its primary before',
}

/** Counts the commands that an actor sends in a fixture when it is alone. */
export async function countCommands(sides: Sides, fixture: Fixture, name: ActorName): Promise<number> {
  await prepare(sides, fixture)
  void sides.gate.watch(null)
  await actors[name](sides.first, fixture, otherOf(sides.second))
  return sides.gate.commands.length
}

/** Null when the first had fewer commands this time, else what was wrong. */
export async function interleave(sides: Sides, interleaving: Interleaving): Promise<string[] | null> {
  const { gate, first, second, checker } = sides
  const { fixture, at, how } = interleaving
  await prepare(sides, fixture)
  const act = async (side: Side, actor: ActorName, other: Other): Promise<Done> => {
    const answer = await actors[actor](side, fixture, other).catch((error: unknown) => {
      // An engine that gets no reply breaks off, and polls again later.
      if (how !== 'hold' && driverRetryReason(error) !== null) return false
      throw error
    })
    return { actor, answer, activeThen: await activeIn(checker.database.collections, fixture) }
  }
  const reached = gate.watch(at, how === 'cut' ? 'cut' : 'hold').then(() => true)
  const one = act(first, interleaving.first, otherOf(second))
  one.catch(() => undefined)
  try {
    const isStopped = await Promise.race([
      reached,
      one.then(
        () => false,
        () => true,
      ),
    ])
    if (!isStopped) return null
    if (how === 'step down') await sides.stepDown!()
    const waits = Promise.withResolvers<null>()
    const ended = () => {
      waits.resolve(null)
      return one.then(
        () => undefined,
        () => undefined,
      )
    }
    const other = act(second, interleaving.second, { ...otherOf(first), ended })
    other.catch(() => undefined)
    await Promise.race([other, waits.promise, sleep(secondMs(interleaving))]).catch(() => undefined)
    gate.release()
    const late = sleep(maxMs, undefined, { ref: false }).then(() => {
      throw new Error(`they didn't end within ${maxMs / 1000} s`)
    })
    const done = (await Promise.race([Promise.all([one, other]), late])) as Done[]
    return [
      ...(await faultsNow(checker.database, fixture)),
      ...(await brokenPromises(checker.database, interleaving, done)),
      ...(await faultsOfEnd(sides, interleaving)),
    ]
  } catch (error) {
    return [errorMessage(error)]
  } finally {
    gate.release()
  }
}

const otherOf = ({ engineId, sessionIds, database }: Side): Other => ({
  ...{ engineId, sessionIds, database },
  ended: () => Promise.resolve(),
})

/** Resumes or cancels, in alternation, the imports that are still paused. */
async function faultsOfEnd(
  { checker }: Sides,
  { fixture, at, first, second, how }: Interleaving,
): Promise<string[]> {
  await drain(checker)
  if ((await checker.database.collections.imports.countDocuments({ state: 'paused' })) > 0) {
    const move = at % 2 === 0 ? 'unpause' : 'cancel'
    await checker.call('POST', `/subscriber_imports/${fixture.importId}/${move}`)
    await drain(checker)
  }
  await removeLateFieldValues(checker)
  if (isSuccessor(second) || (how !== 'hold' && mayLeaveFiles(fixture.name, first))) await sweepFiles(checker)
  if (how !== 'hold' && uploads.includes(first)) await sweepUploads(checker)
  return [
    ...(await faultsNow(checker.database, fixture)),
    ...(await faultsAtTheEnd(checker.database, fixture, [first, second])),
  ]
}

/** The fixture as it was made, with both engines entered. */
async function prepare({ first, second, checker }: Sides, fixture: Fixture): Promise<void> {
  await fixture.restore()
  const { election } = await readPrimaryClock(checker.database)
  const entry = { host: 'here', process_id: process.pid, dead: false, started_at: new Date() }
  await checker.database.collections.engines.insertMany(
    [first, second, checker].map(({ engineId, sessionIds }, number) => ({
      ...{ ...entry, _id: engineId, number, session_ids: sessionIds },
      ...{ sees_files: true, lease_until: new Date(Date.now() + 3_600_000), lease_election: election },
    })),
  )
}
