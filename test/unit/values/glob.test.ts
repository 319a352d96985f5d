import t from 'tap'
import { globMatcher } from '../../../shared/values/glob.ts'

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
  for (const [pattern, name] of matching) t.ok(globMatcher(pattern)(name), `${pattern} is ${name}`)
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
  for (const [pattern, name] of others) t.notOk(globMatcher(pattern)(name), `${pattern} is not ${name}`)
})

t.test('a pattern of many stars takes no time to speak of', async (t) => {
  const isMatch = globMatcher(`${'*a'.repeat(5_000)}*b`)
  t.notOk(isMatch('a'.repeat(20_000)))
})
