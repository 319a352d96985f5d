import t from 'tap'
import { matchFiles, isPattern, maxPatternLength, patternMatcher } from '../../../ftp/name-pattern.ts'

t.test('names match patterns as in a shell', async (t) => {
  const matching: [string, string][] = [
    ['*', 'x'],
    ['*.csv', 'a.csv'],
    ['*.csv', 'a.csv.csv'],
    ['a*b*c', 'aXbbYc'],
    ['???', 'ä😀z'],
    ['[a-c]?.csv', 'b1.csv'],
    ['[!a-c]*', 'dx'],
    ['[^a-c]*', 'dx'],
    ['[]]x', ']x'],
    ['[!]]x', 'ax'],
    ['[a-]', '-'],
    ['[', '['],
    ['a[b*', 'a[bcd'],
    ['a**', 'a'],
  ]
  for (const [pattern, name] of matching) t.ok(patternMatcher(pattern)(name), `${pattern} is ${name}`)
  const others: [string, string][] = [
    ['*.csv', 'a.CSV'],
    ['*.csv', 'csv'],
    ['?', ''],
    ['?', 'ab'],
    ['a*ab*b', 'aab'],
    ['[a-c]', 'd'],
    ['[!a-c]', 'b'],
    ['[c-a]', 'b'],
    ['a.c', 'abc'],
  ]
  for (const [pattern, name] of others) t.notOk(patternMatcher(pattern)(name), `${pattern} is not ${name}`)
  t.ok(['*', 'a?', '[a'].every(isPattern))
  t.notOk(isPattern('plain-name (1).csv'))
})

t.test('a pattern of many stars is matched in negligible time', async (t) => {
  const isMatch = patternMatcher(`${'*a'.repeat(5_000)}*b`)
  t.notOk(isMatch('a'.repeat(20_000)))
})

t.test('other sessions are served while many names are compared with a hostile pattern', async (t) => {
  const files = Array.from({ length: 3_000 }, () => ({ name: 'a'.repeat(200) }))
  let served = 0
  let isOver = false
  const countServed = (): void => {
    served += 1
    if (!isOver) setImmediate(countServed)
  }
  countServed()
  const pattern = `*${'a'.repeat(maxPatternLength / 2)}[${'b'.repeat(maxPatternLength / 2 - 3)}]`
  t.equal(pattern.length, maxPatternLength)
  t.same(await matchFiles(files, pattern, new AbortController().signal), [])
  isOver = true
  t.ok(served > 5, `${served} served`)

  const ended = new AbortController()
  setImmediate(() => {
    ended.abort()
  })
  await t.rejects(
    matchFiles(files, pattern, ended.signal),
    { name: 'AbortError' },
    'it ends with its session',
  )
})
