import { setTimeout as sleep } from 'node:timers/promises'
import { retryReasonOfDriver } from '../../../shared/database.ts'
import { messageOf } from '../../../shared/errors.ts'
import type { CommandGate } from '../../helpers/command-gate.ts'
import { actors, type ActorName } from './actors.ts'
import { drain } from './engine-acts.ts'
import { activeIn, brokenPromises, faultsAtTheEnd, faultsNow, type Done } from './invariants.ts'
import type { Scene } from './scenes.ts'
import type { Side } from './side.ts'

/** Two processes whose commands go through one another: the first is stopped before its n-th, or loses the reply to it. */
export interface Interleaving {
  scene: Scene
  first: ActorName
  second: ActorName
  at: number
  how: 'hold' | 'cut'
}

export interface Stage {
  gate: CommandGate
  /** Works through the gate. */
  first: Side
  second: Side
  /** Prepares, ends and checks. */
  stagehand: Side
}

/** How long the second may take until it counts as waiting for the first. */
const patienceMs = 400
const mostMs = 30_000

export const titleOf = ({ scene, first, second, at, how }: Interleaving): string =>
  `${scene.name}: ${first} ${how === 'hold' ? 'stopped before' : 'without the reply to'} command ${at}, then ${second}`

/** How many commands an actor sends in a scene when it is alone. */
export async function countCommands(stage: Stage, scene: Scene, name: ActorName): Promise<number> {
  await prepare(stage, scene)
  void stage.gate.watch(null)
  await actors[name](stage.first, scene)
  return stage.gate.commands.length
}

/** Null when the first had fewer commands this time, else what was wrong. */
export async function interleave(stage: Stage, interleaving: Interleaving): Promise<string[] | null> {
  const { gate, first, second, stagehand } = stage
  const { scene, at, how } = interleaving
  await prepare(stage, scene)
  const act = async (side: Side, actor: ActorName): Promise<Done> => {
    const answer = await actors[actor](side, scene).catch((error: unknown) => {
      // An engine without a reply breaks off, and looks again later.
      if (how === 'cut' && retryReasonOfDriver(error) !== null) return false
      throw error
    })
    return { actor, answer, activeThen: await activeIn(stagehand.database.collections, scene) }
  }
  const reached = gate.watch(at, how).then(() => true)
  const one = act(first, interleaving.first)
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
    const other = act(second, interleaving.second)
    other.catch(() => undefined)
    await Promise.race([other, sleep(patienceMs)]).catch(() => undefined)
    gate.release()
    const late = sleep(mostMs, undefined, { ref: false }).then(() => {
      throw new Error(`they didn't end within ${mostMs / 1000} s`)
    })
    const done = (await Promise.race([Promise.all([one, other]), late])) as Done[]
    return [
      ...(await faultsNow(stagehand.database, scene)),
      ...(await brokenPromises(stagehand.database, interleaving, done)),
      ...(await faultsOfEnd(stage, scene)),
    ]
  } catch (error) {
    return [messageOf(error)]
  } finally {
    gate.release()
  }
}

async function faultsOfEnd({ stagehand }: Stage, scene: Scene): Promise<string[]> {
  await drain(stagehand)
  if ((await stagehand.database.collections.imports.countDocuments({ state: 'paused' })) > 0) {
    await stagehand.call('POST', `/subscriber_imports/${scene.importId}/cancel`)
    await drain(stagehand)
  }
  return [
    ...(await faultsNow(stagehand.database, scene)),
    ...(await faultsAtTheEnd(stagehand.database, scene)),
  ]
}

/** The scene as it was made, with both engines entered. */
async function prepare({ first, second, stagehand }: Stage, scene: Scene): Promise<void> {
  await scene.restore()
  const entry = { host: 'here', process_id: process.pid, dead: false, started_at: new Date() }
  await stagehand.database.collections.engines.insertMany(
    [first, second, stagehand].map(({ engineId, sessionIds }, number) => ({
      ...{ ...entry, _id: engineId, number, session_ids: sessionIds },
      lease_until: new Date(Date.now() + 3_600_000),
    })),
  )
}
