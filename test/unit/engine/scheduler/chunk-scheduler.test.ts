import t from 'tap'
import { ChunkScheduler } from '../../../../engine/scheduler/chunk-scheduler.ts'
import type { WorkingImport } from '../../../../engine/store/import-queues.ts'
import { freeLease } from '../../../../shared/contract/schemas/lease.ts'

const entry = (id: number, organization: number): WorkingImport => ({
  _id: id,
  begins_at: new Date(id),
  organization_id: organization,
  state: 'importing',
  lease: freeLease,
  fence: 0,
})

t.test('a small import of another organization is next, however much the first one has queued', async (t) => {
  const scheduler = new ChunkScheduler()
  scheduler.setImports([entry(1, 10)])
  for (let i = 0; i < 50; i += 1) {
    t.equal(scheduler.next()?._id, 1)
    scheduler.charge(10, 13_000)
  }
  scheduler.setImports([entry(1, 10), entry(2, 20)])
  scheduler.charge(10, 13_000)
  t.equal(scheduler.next()?._id, 2, 'the newcomer')
  scheduler.charge(20, 500)
  t.equal(scheduler.next()?._id, 2, 'starts where the others are, not at nothing')
  scheduler.charge(20, 13_000)
  t.equal(scheduler.next()?._id, 1)
})

t.test('a hundred imports of one organization weigh no more than one of another', async (t) => {
  const scheduler = new ChunkScheduler()
  scheduler.setImports([...Array.from({ length: 100 }, (_, i) => entry(i + 1, 10)), entry(500, 20)])
  const served = { 10: 0, 20: 0 }
  for (let i = 0; i < 200; i += 1) {
    const next = scheduler.next()!
    served[next.organization_id as 10 | 20] += 1
    scheduler.charge(next.organization_id, 1_000)
  }
  t.same(served, { 10: 100, 20: 100 })
})

t.test('of one organization the import that began first is next; without chunks it is passed', async (t) => {
  const scheduler = new ChunkScheduler()
  scheduler.setImports([entry(3, 10), entry(4, 10)])
  t.equal(scheduler.next()?._id, 3)
  scheduler.markDrained(3)
  t.equal(scheduler.next()?._id, 4)
  scheduler.markDrained(4)
  t.equal(scheduler.next(), null)
  scheduler.setImports([entry(3, 10), entry(4, 10)])
  t.equal(scheduler.next()?._id, 3, 'looked at again')
})
