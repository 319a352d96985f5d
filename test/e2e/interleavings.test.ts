import { crc32 } from 'node:zlib'
import t, { type Test } from 'tap'
import { ensureSchema } from '../../shared/runtime/ensure-schema.ts'
import { createLogger } from '../../shared/runtime/logger.ts'
import { keep, makeFixture, fixtureNames, stagingOf, type Kept } from '../campaigns/interleavings/fixtures.ts'
import { openSide } from '../campaigns/interleavings/side.ts'
import {
  countCommands,
  interleave,
  pairsMatching,
  titleOf,
  type How,
  type Interleaving,
  type Sides,
} from '../campaigns/interleavings/sweep.ts'
import { Random, seedOfToday } from '../campaigns/random.ts'
import { CommandGate } from '../helpers/command-gate.ts'
import { databaseAndFolder } from '../helpers/database-and-folder.ts'
import { startReplicaSet } from '../helpers/replica-set.ts'
import { testMongodbUri } from '../helpers/service.ts'

/**
 * A process sends its commands one after the other, and between any two of them another process may send all of its
 * own. This runs pairs of things that control planes, engines and FTP servers do, and tries every command of the
 * first. The first is stopped before that command, or loses the reply to it. The second runs to its end or until it
 * waits, and the first resumes. The invariants are checked then, and when all work is done. A killed process writes
 * nothing, so the first one is stopped, its lease expires, and another engine either finishes its work or keeps the
 * claim: a missing token shows only beside a stale engine, and other guards hide it once the work is done. Eleven of
 * twelve faults planted by hand were seen so; not seen was `deactivated_to` missing in the filter of a deactivation.
 *
 * ROLLCALL_SEED draws ROLLCALL_CASES interleavings, by default 30 of three fixtures. ROLLCALL_INTERLEAVINGS=all runs
 * every one; a regular expression in it selects those whose titles it matches, or ROLLCALL_CASES of them. The seed is
 * 1, or with `CI=true` that of the day; it stands in the titles, so that a run can be repeated. ROLLCALL_PART=2/3 runs
 * the second third of them: a machine runs several processes at once, as each one waits most of the time.
 */
const wanted = process.env['ROLLCALL_INTERLEAVINGS'] ?? ''
const expression = new RegExp(wanted === 'all' ? '' : wanted)
const seed = Number(process.env['ROLLCALL_SEED'] ?? (process.env['CI'] === 'true' ? seedOfToday : 1))
const isDrawn = wanted === '' || process.env['ROLLCALL_CASES'] !== undefined
const isShort = wanted === '' && process.env['ROLLCALL_CASES'] === undefined
const cases = Number(process.env['ROLLCALL_CASES'] ?? 30)
const [part = 1, parts = 1] = (process.env['ROLLCALL_PART'] ?? '1/1').split('/').map(Number)
const maxFixturesOfShortForm = 3
const stepDownsOfShortForm = 3

const onOneServer: readonly How[] = ['hold', 'cut']
const withStepDowns: readonly How[] = ['step down']
/** Skips the test when the chosen expression matches none of these kinds. */
const skipUnless = (hows: readonly How[]): string | false =>
  pairsMatching(expression, hows).length > 0 ? false : `none of them is called ${wanted}`
t.ok(skipUnless([...onOneServer, ...withStepDowns]) === false, `some interleavings are called ${wanted}`)

t.test(
  `invariants survive interleavings, seed ${seed}`,
  { skip: skipUnless(onOneServer), timeout: 36_000_000 },
  async (t) => {
    await sweep(t, (staging) => openSides(t, testMongodbUri(), staging), onOneServer, cases)
  },
)

/** This needs a server of its own, as the primary steps down for all its clients. */
const stepDownOptions = { skip: skipUnless(withStepDowns), timeout: 36_000_000 }
t.test(
  `invariants survive interleavings with the primary stepping down, seed ${seed}`,
  stepDownOptions,
  async (t) => {
    const set = await startReplicaSet(t, 1)
    const stepDown = async (): Promise<void> => {
      const stepsDown = await set.primary()
      await set.command({ replSetStepDown: 60, secondaryCatchUpPeriodSecs: 0, force: true }, stepsDown)
      // The only member may be elected at once, not in 60 s.
      await set.command({ replSetFreeze: 0 }, stepsDown)
      await set.primary()
    }
    const open = async (staging: Staging) => ({ ...(await openSides(t, set.uri, staging)), stepDown })
    await sweep(t, open, withStepDowns, isShort ? stepDownsOfShortForm : cases)
  },
)

/** By title, because two processes may count another number of commands for one actor. */
const isInPart = (title: string): boolean => crc32(title) % parts === part - 1

type Staging = ReturnType<typeof stagingOf>

async function openSides(t: Test, uri: string, staging: Staging): Promise<Sides> {
  const { database, folder } = await databaseAndFolder(t, uri)
  await ensureSchema(database.db, createLogger({ process: 'test', level: 'silent' }))
  const gate = await CommandGate.open(uri)
  const name = database.db.databaseName
  const open = (uri: string, number: number) => openSide({ uri, name, folder, number, staging })
  const checker = await open(uri, 2)
  const sides: Sides = { gate, first: await open(gate.uri, 0), second: await open(uri, 1), checker }
  t.teardown(async () => {
    for (const side of [sides.first, sides.second, checker]) await side.close()
    await gate.close()
  })
  return sides
}

async function sweep(
  t: Test,
  open: (staging: Staging) => Promise<Sides>,
  hows: readonly How[],
  amount: number,
): Promise<void> {
  /** The sides of a staging are opened when a fixture needs them. */
  const opened = new Map<Staging, { sides: Sides; base: Kept }>()
  const random = new Random(seed)
  const all: (Interleaving & { sides: Sides })[] = []
  const names = isShort ? random.shuffled(fixtureNames).slice(0, maxFixturesOfShortForm) : fixtureNames
  const pairs = pairsMatching(expression, hows)
  for (const name of names) {
    const ofFixture = pairs.filter((pair) => pair.fixture === name)
    if (ofFixture.length === 0) continue
    const staging = stagingOf(name)
    if (!opened.has(staging)) {
      const sides = await open(staging)
      opened.set(staging, { sides, base: await keep(sides.checker) })
    }
    const { sides, base } = opened.get(staging)!
    const fixture = await makeFixture(name, sides.checker, base)
    for (const first of new Set(ofFixture.map((pair) => pair.first))) {
      const commands = await countCommands(sides, fixture, first)
      for (const pair of ofFixture.filter((one) => one.first === first))
        for (let at = 1; at <= commands; at += 1)
          if (expression.test(titleOf(pair, at)) && isInPart(titleOf(pair, at)))
            all.push({ ...pair, fixture, at, sides })
    }
  }
  const chosen = isDrawn ? random.shuffled(all).slice(0, amount) : all
  const found: string[] = []
  let performed = 0
  for (const interleaving of chosen) {
    const faults = await interleave(interleaving.sides, interleaving)
    if (faults !== null) performed += 1
    if (faults === null || faults.length === 0) continue
    const { fixture, at } = interleaving
    found.push(`${titleOf({ ...interleaving, fixture: fixture.name }, at)}: ${faults.join('; ')}`)
    t.comment(found.at(-1))
  }
  t.same(found, [], `${chosen.length} of ${all.length} interleavings`)
  t.ok(performed > 0 && performed >= chosen.length / 2, `${performed} of them had the command to stop before`)
}
