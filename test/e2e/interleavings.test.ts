import t, { type Test } from 'tap'
import { ensureSchema } from '../../shared/database.ts'
import { createLogger } from '../../shared/logger.ts'
import { actorsIn } from '../campaigns/interleavings/actors.ts'
import { keep, makeFixture, fixtureNames } from '../campaigns/interleavings/fixtures.ts'
import { openSide } from '../campaigns/interleavings/side.ts'
import {
  countCommands,
  interleave,
  titleOf,
  type How,
  type Interleaving,
  type Sides,
} from '../campaigns/interleavings/sweep.ts'
import { Random } from '../campaigns/random.ts'
import { CommandGate } from '../helpers/command-gate.ts'
import { databaseAndFolder } from '../helpers/database-and-folder.ts'
import { startReplicaSet } from '../helpers/replica-set.ts'
import { testMongodbUri } from '../helpers/service.ts'

/**
 * Each process does its commands one after the other, and between any two of them another process may do all of its own.
 * For pairs of things that control planes and engines do, and for every command of the first: it is stopped before that
 * command (or loses the reply to it), the second runs to its end or until it waits, the first goes on, and what must hold
 * is looked at then and when all work is done. ROLLCALL_CASES of them are drawn by ROLLCALL_SEED, by default 30 of three
 * fixtures; ROLLCALL_INTERLEAVINGS=all runs every one, and a regular expression in it those whose titles it matches.
 */
const wanted = process.env['ROLLCALL_INTERLEAVINGS'] ?? ''
const seed = Number(process.env['ROLLCALL_SEED'] ?? 1)
const isShort = wanted === '' && process.env['ROLLCALL_CASES'] === undefined
const cases = Number(process.env['ROLLCALL_CASES'] ?? 30)
const maxFixturesOfShortForm = 3
const stepDownsOfShortForm = 3

t.test('interleavings', { timeout: 36_000_000 }, async (t) => {
  const sides = await openSides(t, await databaseAndFolder(t), testMongodbUri())
  await sweep(t, sides, ['hold', 'cut'], cases)
})

/** On a server of its own: others would lose their primary too. Each takes some seconds. */
t.test('interleavings with the primary stepping down', { timeout: 36_000_000 }, async (t) => {
  const set = await startReplicaSet(t, 1)
  const sides = await openSides(t, await databaseAndFolder(t, set.uri), set.uri)
  const stepDown = async (): Promise<void> => {
    await set.command({ replSetStepDown: 1, secondaryCatchUpPeriodSecs: 0, force: true })
    await set.primary()
  }
  await sweep(t, { ...sides, stepDown }, ['step down'], isShort ? stepDownsOfShortForm : cases)
})

async function openSides(
  t: Test,
  { database, folder }: Awaited<ReturnType<typeof databaseAndFolder>>,
  uri: string,
): Promise<Sides> {
  await ensureSchema(database.db, createLogger({ process: 'test', level: 'silent' }))
  const server = new URL(uri)
  const gate = await CommandGate.open({ host: server.hostname, port: Number(server.port) })
  const gated = new URL(uri)
  gated.host = `127.0.0.1:${gate.port}`
  gated.search = '?directConnection=true'
  const name = database.db.databaseName
  const open = (uri: string, number: number) => openSide({ uri, name, folder, number })
  const checker = await open(uri, 2)
  const sides: Sides = { gate, first: await open(gated.href, 0), second: await open(uri, 1), checker }
  t.teardown(async () => {
    for (const side of [sides.first, sides.second, checker]) await side.close()
    await gate.close()
  })
  return sides
}

async function sweep(t: Test, sides: Sides, hows: readonly How[], amount: number): Promise<void> {
  const { checker } = sides
  const base = await keep(checker.database)
  const random = new Random(seed)
  const all: Interleaving[] = []
  const names = isShort ? random.shuffled(fixtureNames).slice(0, maxFixturesOfShortForm) : fixtureNames
  for (const fixtureName of names) {
    const fixture = await makeFixture(fixtureName, checker, base)
    for (const first of actorsIn[fixtureName]) {
      const commands = await countCommands(sides, fixture, first)
      for (const second of actorsIn[fixtureName])
        for (const how of hows)
          for (let at = 1; at <= commands; at += 1) all.push({ fixture, first, second, at, how })
    }
  }
  const chosen =
    wanted === ''
      ? random.shuffled(all).slice(0, amount)
      : all.filter((one) => wanted === 'all' || new RegExp(wanted).test(titleOf(one)))
  const found: string[] = []
  for (const interleaving of chosen) {
    const faults = await interleave(sides, interleaving)
    if (faults === null || faults.length === 0) continue
    found.push(`${titleOf(interleaving)}: ${faults.join('; ')}`)
    t.comment(found.at(-1))
  }
  t.same(found, [], `${chosen.length} of ${all.length} interleavings, seed ${seed}`)
  t.ok(chosen.length > 0)
}
