import fc from 'fast-check'
import t from 'tap'
import { globMatcher } from '../../../../../control-plane/resources/autoresponders/glob.ts'

t.test('`*` stands for any characters, nothing else for anything, and case for nothing', async (t) => {
  const matching: [string, string][] = [
    ['*', ''],
    ['*', 'x'],
    ['', ''],
    ['welcome', 'Welcome'],
    ['W*e', 'welcome'],
    ['*el*co*', 'Welcome'],
    ['w*w', 'ww'],
    ['a**b', 'ab'],
    ['ä*', 'Äpfel'],
    ['[a].+?', '[A].+?'],
  ]
  t.same(
    matching.filter(([pattern, name]) => !globMatcher(pattern)(name)),
    [],
  )
  const others: [string, string][] = [
    ['', 'x'],
    ['elcome', 'welcome'],
    ['welcom', 'welcome'],
    ['w*w', 'w'],
    ['a*ab*b', 'aab'],
    ['?', 'x'],
    ['.', 'x'],
    ['*a*b*', 'ba'],
  ]
  t.same(
    others.filter(([pattern, name]) => globMatcher(pattern)(name)),
    [],
  )
})

/** The same rule character by character: slow, and nothing to go wrong in. */
function slowMatch(pattern: string, name: string): boolean {
  let ends = new Set([0])
  for (const wanted of pattern) {
    const next = new Set<number>()
    for (const end of ends)
      if (wanted === '*') for (let i = end; i <= name.length; i += 1) next.add(i)
      else if (name[end] === wanted) next.add(end + 1)
    ends = next
  }
  return ends.has(name.length)
}

t.test('it is right about any pattern and name', async (t) => {
  const text = (letters: string[], maxLength: number) =>
    fc.array(fc.constantFrom(...letters), { maxLength }).map((characters) => characters.join(''))
  fc.assert(
    fc.property(text(['a', 'b', '*'], 8), text(['a', 'b'], 10), (pattern, name) => {
      return globMatcher(pattern)(name) === slowMatch(pattern, name)
    }),
    { numRuns: 10_000 },
  )
  t.pass()
})

t.test('every pattern is matched in negligible time', async (t) => {
  const name = 'a'.repeat(10_000)
  const patterns = [
    `${'a*'.repeat(5_000)}b`,
    `${'*a'.repeat(4_999)}*b*`,
    '*'.repeat(10_000),
    `*${'a'.repeat(5_000)}b*`,
    `*${'a'.repeat(2_500)}b${'a'.repeat(2_500)}*`,
    `*${`${'a'.repeat(98)}b*`.repeat(100)}`,
  ]
  const startedAt = performance.now()
  for (const pattern of patterns) globMatcher(pattern)(name)
  // All of them take some 15 ms; with backtracking the first one alone would never end.
  t.ok(performance.now() - startedAt < 5_000)
})
