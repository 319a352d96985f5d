import t from 'tap'
import { ensureSchema } from '../../shared/database.ts'
import { createLogger } from '../../shared/logger.ts'
import { actorsIn } from '../campaigns/interleavings/actors.ts'
import { keep, makeFixture, fixtureNames } from '../campaigns/interleavings/fixtures.ts'
import { openSide } from '../campaigns/interleavings/side.ts'
import {
  countCommands,
  interleave,
  titleOf,
  type Interleaving,
  type Sides,
} from '../campaigns/interleavings/sweep.ts'
import { Random } from '../campaigns/random.ts'
import { CommandGate } from '../helpers/command-gate.ts'
import { databaseAndFolder } from '../helpers/database-and-folder.ts'
import { testMongodbUri } from '../helpers/service.ts'

/**
 * Each process does its commands one after the other, and between any two of them another process may do all of its own.
 * For pairs of things that control planes and engines do, and for every command of the first: it is stopped before that
 * command (or loses the reply to it), the second runs to its end or until it waits, the first goes on, and what must hold
 * is looked at then and when all work is done. ROLLCALL_CASES of them are drawn by ROLLCALL_SEED, by default 30 of three
 * fixtures; ROLLCALL_INTERLEAVINGS=all runs every one, and a word in it those whose titles have it.
 */
const wanted = process.env['ROLLCALL_INTERLEAVINGS'] ?? ''
const seed = Number(process.env['ROLLCALL_SEED'] ?? 1)
const isShort = wanted === '' && process.env['ROLLCALL_CASES'] === undefined
const cases = Number(process.env['ROLLCALL_CASES'] ?? 30)
const maxFixturesOfShortForm = 3

t.test('interleavings', { timeout: 36_000_000 }, async (t) => {
  const { database, folder } = await databaseAndFolder(t)
  await ensureSchema(database.db, createLogger({ process: 'test', level: 'silent' }))
  const server = new URL(testMongodbUri())
  const gate = await CommandGate.open({ host: server.hostname, port: Number(server.port) })
  const direct = testMongodbUri()
  const gated = new URL(direct)
  gated.host = `127.0.0.1:${gate.port}`
  gated.search = '?directConnection=true'
  const name = database.db.databaseName
  const open = (uri: string, number: number) => openSide({ uri, name, folder, number })
  const checker = await open(direct, 2)
  const sides: Sides = { gate, first: await open(gated.href, 0), second: await open(direct, 1), checker }
  t.teardown(async () => {
    for (const side of [sides.first, sides.second, checker]) await side.close()
    await gate.close()
  })

  const base = await keep(database)
  const random = new Random(seed)
  const all: Interleaving[] = []
  const names = isShort ? random.shuffled(fixtureNames).slice(0, maxFixturesOfShortForm) : fixtureNames
  for (const fixtureName of names) {
    const fixture = await makeFixture(fixtureName, checker, base)
    for (const first of actorsIn[fixtureName]) {
      const commands = await countCommands(sides, fixture, first)
      for (const second of actorsIn[fixtureName])
        for (const how of ['hold', 'cut'] as const)
          for (let at = 1; at <= commands; at += 1) all.push({ fixture, first, second, at, how })
    }
  }
  const chosen =
    wanted === ''
      ? random.shuffled(all).slice(0, cases)
      : all.filter((one) => wanted === 'all' || titleOf(one).includes(wanted))
  const found: string[] = []
  for (const interleaving of chosen) {
    const faults = await interleave(sides, interleaving)
    if (faults === null || faults.length === 0) continue
    found.push(`${titleOf(interleaving)}: ${faults.join('; ')}`)
    t.comment(found.at(-1))
  }
  t.same(found, [], `${chosen.length} of ${all.length} interleavings, seed ${seed}`)
  t.ok(chosen.length > 0)
})
