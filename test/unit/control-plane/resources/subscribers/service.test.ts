import t from 'tap'
import { FieldCache } from '../../../../../control-plane/resources/subscribers/service.ts'

const quarter = FieldCache.maxBytes / 4
const fieldsOf = (revision: number) => ({
  revision,
  bytes: quarter,
  fields: [],
  fieldNamed: () => undefined,
})
const cachedLists = (cache: FieldCache) => [1, 2, 3, 4, 5].filter((id) => cache.get(id) !== undefined)

t.test('the fields of a list count once, however often they are replaced', (t) => {
  const cache = new FieldCache()
  for (const id of [1, 2, 3]) cache.set(id, fieldsOf(0))
  for (let revision = 1; revision <= 10; revision += 1) cache.set(1, fieldsOf(revision))
  cache.set(4, fieldsOf(0))
  t.same(cachedLists(cache), [1, 2, 3, 4])
  t.equal(cache.get(1)?.revision, 10)
  t.end()
})

t.test('a full cache is emptied, and keeps what did not fit into it', (t) => {
  const cache = new FieldCache()
  for (const id of [1, 2, 3, 4, 5]) cache.set(id, fieldsOf(0))
  t.same(cachedLists(cache), [5])
  for (const id of [1, 2, 3]) cache.set(id, fieldsOf(0))
  t.same(cachedLists(cache), [1, 2, 3, 5])
  t.end()
})
