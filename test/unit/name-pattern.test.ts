import t from 'tap'
import { isPattern, patternMatcher } from '../../ftp/name-pattern.ts'

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

t.test('a pattern of many stars takes no time to speak of', async (t) => {
  const isMatch = patternMatcher(`${'*a'.repeat(5_000)}*b`)
  t.notOk(isMatch('a'.repeat(20_000)))
})
