import t from 'tap'

/** That the comparisons of tap are those of test/helpers/strict-comparisons.ts: with another tcompare they are loose. */

const differ: [what: string, found: unknown, wanted: unknown][] = [
  ['an array and its beginning', ['x', 'y'], ['x']],
  ['an array and none', { warnings: ['x'] }, { warnings: [] }],
  ['an array and an object', ['x'], { 0: 'x' }],
  ['an object and one without keys', { counts: { added: 1 } }, { counts: {} }],
  ['null and an object without keys', { counts: null }, { counts: {} }],
  ['a date and an object without keys', new Date(), {}],
  ['a number and its text', { count: 15 }, { count: '15' }],
  ['a text and its number', { count: '15' }, { count: 15 }],
  ['null and undefined', { name: null }, { name: undefined }],
  ['a missing key and null', {}, { name: null }],
  ['0 and false', 0, false],
  ['a date and its number', new Date(5), 5],
  ['a date and its text', new Date(5), new Date(5).toISOString()],
  ['a set and an empty one', new Set(['x']), new Set()],
  ['a map and an empty one', new Map([['x', 1]]), new Map()],
]

t.test('what differs is not the same and matches no pattern', async (t) => {
  for (const [what, found, wanted] of differ) {
    t.notMatch(found, wanted, what)
    t.notSame(found, wanted, what)
  }
})

t.test('a part of a text is no pattern', async (t) => {
  for (const compare of ['match', 'notMatch'] as const)
    t.throws(() => t[compare]({ state: 'inactive' }, { state: 'active' }), /regular expression/, compare)
  t.match({ state: 'inactive' }, { state: /active$/ })
  t.notMatch({ state: 'inactive' }, { state: 'finished' })
})

t.test('an object of a pattern names some keys, and a class or expression what a value is', async (t) => {
  t.match(
    { id: 5, name: 'News', at: new Date(), tags: ['x'], counts: {}, fields: { 1: null } },
    { id: Number, name: /^N/, at: Date, tags: ['x'], counts: {}, fields: Object },
  )
})
