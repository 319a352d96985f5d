import t from 'tap'
import type { Kind, WorkControl } from '../../../../engine/runner/kinds.ts'
import { Quarantine } from '../../../../engine/runner/quarantine.ts'
import { Runner } from '../../../../engine/runner/runner.ts'
import type { DoubtfulClaims } from '../../../../engine/runner/doubtful-claims.ts'
import { createLogger } from '../../../../shared/runtime/logger.ts'

/** The loop that claims and runs work of any kind, with pieces of work that the test ends. */

const log = createLogger({ process: 'test', level: 'silent' })
const settled = () => new Promise((resolve) => setImmediate(resolve))

interface Queue {
  id: number
  organization_id: number
  pieces: number
}

const queue = (id: number, organization_id: number, pieces = 100): Queue => ({ id, organization_id, pieces })

function startRunner(more: Partial<Kind<Queue, Queue>> = {}) {
  const begun: { id: number; control: WorkControl; end: () => Promise<void> }[] = []
  const polls: string[] = []
  const kind: Kind<Queue, Queue> = {
    name: 'a piece',
    slots: { atOnce: 2 },
    keyOf: ({ id }) => id,
    keyName: 'queue',
    mayBegin: () => true,
    claim: async (from) => {
      if (from.pieces === 0) return null
      from.pieces -= 1
      return from
    },
    run: async ({ id }, control) => {
      await new Promise<void>((resolve) => {
        const end = async () => {
          resolve()
          await settled()
        }
        control.signal.addEventListener('abort', () => void end())
        begun.push({ id, control, end })
      })
    },
    ...more,
  }
  const runner = new Runner(kind, { onDrained: () => polls.push('woken'), log })
  return { runner, begun, polls, ids: () => begun.map(({ id }) => id) }
}

t.test('slots are filled by turns, and again whenever a piece ends', async (t) => {
  const { runner, begun, polls, ids } = startRunner()
  runner.offer([queue(1, 10), queue(2, 20)])
  await runner.fill()
  t.same(ids(), [1, 2], 'one of each organization')
  await begun[0]!.end()
  await begun[2]!.end()
  t.same(ids(), [1, 2, 1, 1], 'the one with nothing running comes first')
  t.same(polls, [], 'no poll is needed while there is more')
  await runner.stop()
  t.same(runner.running, [])
})

t.test('the last piece of a queue wakes the poll, and a poll that finds nothing does not', async (t) => {
  const { runner, begun, polls, ids } = startRunner()
  runner.offer([queue(1, 10, 2)])
  await runner.fill()
  runner.offer([queue(1, 10, 0)])
  await runner.fill()
  t.same(ids(), [1, 1])
  t.same(polls, [], 'both slots are taken, so the queue may have more')
  await begun[0]!.end()
  t.same(polls, [], 'another piece of it runs')
  await begun[1]!.end()
  t.same(polls, ['woken'])
  runner.offer([queue(1, 10, 0)])
  await runner.fill()
  t.same(polls, ['woken'])
})

t.test('a queue of one piece at a time is not claimed beside it', async (t) => {
  const { runner, begun, polls, ids } = startRunner({ isSingle: true })
  runner.offer([queue(1, 10)])
  await runner.fill()
  runner.offer([queue(1, 10)])
  await runner.fill()
  t.same(ids(), [1])
  await begun[0]!.end()
  t.same([ids(), polls], [[1], ['woken']], 'the poll says what follows')
})

t.test('a claim that fails is doubtful, and leaves the others their turn', async (t) => {
  const doubtful: string[] = []
  const { runner, ids } = startRunner({
    claim: async (from) => {
      if (from.id === 1) throw new Error('away')
      return from
    },
    leased: {
      doubts: { add: (token: string) => doubtful.push(token) } as unknown as DoubtfulClaims,
      quarantine: new Quarantine(
        async () => undefined,
        () => undefined,
      ),
      deaths: () => 0,
    },
  })
  runner.offer([queue(1, 10), queue(2, 20)])
  await runner.fill()
  t.same(ids(), [2, 2])
  t.equal(doubtful.length, 1)
})

t.test('work that failed in its release is doubtful too, and frees its slot', async (t) => {
  const doubtful: string[] = []
  const { runner } = startRunner({
    isSingle: true,
    run: () => Promise.reject(new Error('away')),
    leased: {
      doubts: { add: (token: string) => doubtful.push(token) } as unknown as DoubtfulClaims,
      quarantine: new Quarantine(
        async () => undefined,
        () => undefined,
      ),
      deaths: () => 0,
    },
  })
  runner.offer([queue(1, 10), queue(2, 20), queue(3, 30)])
  await runner.fill()
  await settled()
  t.equal(doubtful.length, 3)
  t.same(runner.running, [])
})

t.test('work on which engines died runs when all else has ended, and nothing begins beside it', async (t) => {
  let ended = false
  const quarantine = new Quarantine(
    () => setup.runner.abortAll(),
    () => (ended = true),
  )
  const suspect = 2
  const setup = startRunner({
    slots: { atOnce: 3 },
    mayBegin: () => !quarantine.isOccupied,
    leased: {
      doubts: {} as DoubtfulClaims,
      quarantine,
      deaths: ({ id }) => (id === suspect ? 2 : 0),
    },
  })
  const { runner } = setup
  runner.offer([queue(1, 10, 1), queue(suspect, 20, 1), queue(3, 30)])
  await runner.fill()
  await settled()
  t.same(setup.ids(), [1, suspect])
  t.ok(setup.begun[0]!.control.signal.aborted)
  t.same(
    runner.running.map((work) => work.queue.id),
    [suspect],
  )
  await runner.fill()
  t.same(setup.ids(), [1, suspect], 'alone')
  t.notOk(ended)
  await setup.begun[1]!.end()
  await settled()
  t.ok(ended)
  t.same(setup.ids(), [1, suspect, 3, 3, 3])
  await runner.stop()
})

t.test('a stop aborts what runs, and a piece whose claim was in progress as it begins', async (t) => {
  let answer: (() => void) | undefined
  const { runner, begun } = startRunner({
    claim: async (from) => {
      if (from.id === 2) await new Promise<void>((resolve) => (answer = resolve))
      return from
    },
  })
  runner.offer([queue(1, 10), queue(2, 20)])
  const filling = runner.fill()
  await settled()
  const stopped = runner.stop({ isDead: true })
  await settled()
  answer!()
  await Promise.all([filling, stopped])
  t.same(
    begun.map(({ id, control }) => [id, control.signal.aborted, control.isDead()]),
    [
      [1, true, true],
      [2, true, true],
    ],
  )
  t.same(runner.running, [])
})
