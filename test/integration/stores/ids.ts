import { randomBytes } from 'node:crypto'
import t from 'tap'
import { openDatabase, peekNextId } from '../../../shared/runtime/database.ts'
import { testMongodbUri } from '../../helpers/service.ts'

const name = `test_${randomBytes(6).toString('hex')}`
const [first, second] = await Promise.all([1, 2].map(() => openDatabase({ uri: testMongodbUri(), name })))
t.teardown(async () => {
  await first!.db.dropDatabase()
  await Promise.all([first!.close(), second!.close()])
})

t.test('ids that many ask for at once, in two processes, are all different and leave no gap', async (t) => {
  const asked = Array.from({ length: 400 }, (_, i) => ({
    from: i % 3 === 0 ? second! : first!,
    amount: 1 + (i % 4),
  }))
  const ranges = await Promise.all(
    asked.map(async ({ from, amount }) => {
      const start = await from.ids.allocate('thing', amount)
      return Array.from({ length: amount }, (_, i) => start + i)
    }),
  )
  const ids = ranges.flat().sort((a, b) => a - b)
  t.strictSame(
    ids,
    ids.map((_, i) => i + 1),
  )
  t.equal(await peekNextId(second!.collections, 'thing'), ids.length + 1)
})

t.test('an id that is drawn after a read of the counter is higher than the one read', async (t) => {
  for (let i = 0; i < 50; i += 1) {
    const drawing = Array.from({ length: 5 }, () => first!.ids.allocate('thing'))
    const seen = await peekNextId(second!.collections, 'thing')
    t.ok((await first!.ids.allocate('thing')) >= seen)
    await Promise.all(drawing)
  }
})

t.test('a draw that fails rejects for all that wait for it, and the next one is made anew', async (t) => {
  const refused = { validator: { next: { $lt: 3 } } }
  await first!.db.createCollection('counters').catch(() => undefined)
  await first!.db.command({ collMod: 'counters', ...refused })
  const ask = () => Promise.allSettled([1, 2, 3].map(() => first!.ids.allocate('other', 5)))
  t.strictSame(
    (await ask()).map(({ status }) => status),
    ['rejected', 'rejected', 'rejected'],
  )
  await first!.db.command({ collMod: 'counters', validator: {} })
  const ids = (await ask()).map((result) => (result.status === 'fulfilled' ? result.value : null))
  t.strictSame(ids, [1, 6, 11])
})
