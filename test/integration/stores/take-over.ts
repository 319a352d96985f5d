import { spawn, type ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { pino } from 'pino'
import t from 'tap'
import { releaseLeasesOfUnknown, takeOverFromEngines } from '../../../engine/runner/take-over.ts'
import { ensureSchema } from '../../../shared/runtime/ensure-schema.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { ownOrigin } from '../../../shared/runtime/process-end.ts'
import type { Collections } from '../../../shared/contract/schemas/collections.ts'
import { claimChunk, countChunkStates } from '../../../shared/store/chunks.ts'
import { registerSessions, registerEngine } from '../../../engine/store/engines.ts'
import { databaseAndFolder } from '../../helpers/database-and-folder.ts'
import { until } from '../../helpers/service.ts'
import { leaseOf, storedChunk, storedImport } from '../../helpers/stored-import.ts'

const { database } = await databaseAndFolder(t)
const { collections } = database
await ensureSchema(database.db, createLogger({ process: 'test', level: 'silent' }))

const importId = 1
const addChunk = (number: number) => collections.chunks.insertOne(storedChunk(importId, number))
const addStep = (_id: number, engineId: string) =>
  collections.imports.insertOne(
    storedImport({
      _id,
      mailing_list_id: _id,
      ...leaseOf({ holder: engineId, token: randomUUID() }),
    }),
  )
const register = async () => {
  const _id = randomUUID()
  await registerEngine(database, { _id, host: 'test', process_id: 1, session_ids: [], sees_files: true })
  return _id
}
const claim = (engineId: string) =>
  claimChunk(collections, { _id: importId, fence: 0 }, { engineId, token: randomUUID() })

t.test(
  'leases under an unregistered name are released, and those of a registered engine are not',
  async (t) => {
    await addChunk(0)
    await addChunk(1)
    const [stays, leaves] = [await register(), await register()]
    await claim(stays)
    await claim(leaves)
    await addStep(2, stays)
    await addStep(3, leaves)
    await collections.engines.deleteOne({ _id: leaves })
    await releaseLeasesOfUnknown(collections)
    t.same(await countChunkStates(collections, importId), { ready: 1, running: 1, done: 0 })
    t.match(await collections.chunks.findOne({ state: 'running' }), { lease: { holder: stays } })
    t.match(await collections.imports.findOne({ _id: 2 }), {
      lease: { holder: stays, deaths: 0 },
    })
    t.match(await collections.imports.findOne({ _id: 3 }), { lease: { token: null, deaths: 1 } })
  },
)

t.test(
  'an engine that registers and claims while another searches for unknown names keeps its chunk',
  async (t) => {
    let newcomer = ''
    /** Suspended after its first read until a new engine has registered and claimed. */
    const suspended = (read: keyof Collections, method: string): Collections => ({
      ...collections,
      [read]: new Proxy(collections[read], {
        get(target, name) {
          const value = Reflect.get(target, name) as unknown
          if (typeof value !== 'function') return value
          const bound = (value as (...args: unknown[]) => unknown).bind(target)
          if (name !== method) return bound
          return async function* (...args: unknown[]) {
            yield* bound(...args) as AsyncIterable<unknown>
            if (newcomer !== '') return
            newcomer = await register()
            await claim(newcomer)
          }
        },
      }),
    })
    await releaseLeasesOfUnknown(suspended('chunks', 'find'))
    t.match(await collections.chunks.findOne({ 'lease.holder': newcomer }), { state: 'running' })
  },
)

t.test('an engine that lost its name has its new leases ended for two minutes', async (t) => {
  await collections.chunks.deleteMany({})
  await addChunk(0)
  const log = createLogger({ process: 'test', level: 'silent' })
  const poll = () => takeOverFromEngines(database, log).runOnce()
  const engineId = await register()
  await database.client.withSession(async (session) => {
    await registerSessions(collections, engineId, [session.id!.id as unknown as Uint8Array])
    await collections.engines.updateOne({ _id: engineId }, { $set: { dead: true } })
    await poll()
    // The engine doesn't know yet.
    await claim(engineId)
    await addStep(5, engineId)
    session.startTransaction()
    await collections.chunks.updateOne(
      { 'lease.holder': engineId },
      { $set: { next_record: 1 } },
      { session },
    )
    await poll()
    t.match(await collections.chunks.findOne({}), { state: 'ready', lease: { holder: null, deaths: 0 } })
    t.match(await collections.imports.findOne({ _id: 5 }), { lease: { token: null, deaths: 0 } })
    await t.rejects(session.commitTransaction(), { code: 251 }, 'the server knows no such transaction')
  })
  await collections.engines.updateOne(
    { _id: engineId },
    { $set: { cleared_at: new Date(Date.now() - 121_000) } },
  )
  await poll()
  t.equal(await collections.engines.findOne({ _id: engineId }), null)
})

t.test('a step is released by the name alone, also without any leased chunk', async (t) => {
  await addStep(4, randomUUID())
  await releaseLeasesOfUnknown(collections)
  t.match(await collections.imports.findOne({ _id: 4 }), { lease: { token: null } })
})

t.test('a take-over is logged with the process that died and the imports that it worked on', async (t) => {
  await collections.chunks.deleteMany({})
  await addChunk(0)
  const lines: Record<string, unknown>[] = []
  const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(JSON.parse(line)) })
  const engineId = randomUUID()
  const engine = { _id: engineId, host: 'far', process_id: 4711, session_ids: [], sees_files: true }
  await registerEngine(database, engine)
  await claim(engineId)
  await addStep(6, engineId)
  await collections.engines.updateOne({ _id: engineId }, { $set: { dead: true } })
  await takeOverFromEngines(database, log).runOnce()
  t.match(
    lines.find((line) => line['host'] === 'far'),
    { dead_engine: engineId.slice(0, 8), host: 'far', dead_pid: 4711, chunks: 1, steps: 1, imports: [1, 6] },
  )
})

t.test(
  'an engine that ended on this machine is taken over from before its lease ends, and no other one is',
  { skip: ownOrigin === null && 'this system does not say which of its processes have ended' },
  async (t) => {
    await collections.chunks.deleteMany({})
    const own = ownOrigin!
    const children: ChildProcess[] = []
    t.teardown(() => children.forEach((child) => child.kill('SIGKILL')))
    const start = (command: string) => {
      const child = spawn('/bin/sh', ['-c', command], { stdio: ['pipe', 'pipe', 'ignore'] })
      children.push(child)
      return child
    }
    const stateOf = async (pid: number) =>
      (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1]!.split(' ')
    const untilIn = (pid: number, state: string) =>
      until(
        `state ${state} of ${pid}`,
        () => stateOf(pid),
        ([found]) => found === state,
        10_000,
        10,
      )
    const originOf = async (pid: number) => ({ ...own, start_ticks: Number((await stateOf(pid))[19]) })

    const [killed, running, suspended] = [
      start('exec sleep 60'),
      start('exec sleep 60'),
      start('exec sleep 60'),
    ]
    // The parent becomes a program that never waits for its child, which stays as a zombie. A shell would wait for it, so
    // the child ends later, with standard input.
    const parent = start('exec 3<&0; cat <&3 & echo $!; exec sleep 60 3<&- >&2')
    const [line] = (await once(parent.stdout, 'data')) as [Buffer]
    const zombie = Number(line)
    await until(
      'the program',
      () => readFile(`/proc/${parent.pid}/comm`, 'utf8'),
      (name) => name === 'sleep\n',
    )
    parent.stdin.end()
    await untilIn(zombie, 'Z')
    const origins = Object.fromEntries(
      await Promise.all(
        [killed.pid!, running.pid!, suspended.pid!, zombie].map(async (pid) => [pid, await originOf(pid)]),
      ),
    ) as Record<number, typeof own>
    killed.kill('SIGKILL')
    suspended.kill('SIGSTOP')
    await once(killed, 'exit')
    await untilIn(suspended.pid!, 'T')

    const [gone, lives] = [killed.pid!, running.pid!]
    const foreign = { ...origins[gone]!, id_space: own.id_space.replace('pid:[', 'pid:[1') }
    const cases: [what: string, pid: number, origin: typeof own | undefined, isTakenOver: boolean][] = [
      ['killed', gone, origins[gone], true],
      ['killed, a zombie', zombie, origins[zombie], true],
      [
        'killed, and its id is in use again',
        lives,
        { ...own, start_ticks: origins[lives]!.start_ticks - 1 },
        true,
      ],
      ['killed in another namespace, or on another host', gone, foreign, false],
      ['killed, of a system that does not say so', gone, undefined, false],
      ['running', lives, origins[lives], false],
      ['suspended', suspended.pid!, origins[suspended.pid!], false],
    ]
    for (const [number, [what, process_id, origin]] of cases.entries()) {
      const engine = { _id: what, host: 'here', process_id, session_ids: [], sees_files: true }
      await registerEngine(database, { ...engine, ...(origin === undefined ? {} : { origin }) })
      await addChunk(number)
      await claim(what)
    }
    const log = createLogger({ process: 'test', level: 'silent' })
    await takeOverFromEngines(database, log).runOnce()
    for (const [what, , , isTakenOver] of cases) {
      t.match(await collections.engines.findOne({ _id: what }), { dead: isTakenOver }, what)
      const held = await collections.chunks.countDocuments({ 'lease.holder': what })
      t.equal(held, isTakenOver ? 0 : 1, `${what}: its chunk`)
    }
    t.equal(await collections.chunks.countDocuments({ state: 'ready', 'lease.deaths': 1 }), 3)
  },
)
