import t from 'tap'
import { applyMap, parseMap } from '../../../../control-plane/cli/column-map.ts'

const whole: [text: string, names: (string | null)[]][] = [
  ['email', ['email']],
  ['email, First name ,-,,ignore', ['email', 'First name', null, null, null]],
  ['email,"Last, first","a=b","say ""hi"""', ['email', 'Last, first', 'a=b', 'say "hi"']],
  ['email,"-","ignore"', ['email', '-', 'ignore']],
  ['email,2nd name,Größe,邮箱', ['email', '2nd name', 'Größe', '邮箱']],
  ['"1=email"', ['1=email']],
  ['email,6" pipe', ['email', '6" pipe']],
]

const changes: [text: string, changed: [number, string | null][]][] = [
  ['2=First name', [[2, 'First name']]],
  [
    ' 3 = - , 1=email,12="Last, first"',
    [
      [3, null],
      [1, 'email'],
      [12, 'Last, first'],
    ],
  ],
  ['2=ignore', [[2, null]]],
  ['2="ignore"', [[2, 'ignore']]],
]

const wrong = [
  ...['email,a=b', '1=email,First name', '0=email'],
  ...['1=email,1=-', '1=a=b', 'email,"open', '"a"b', '1=email,'],
]

t.test('a mapping names all columns, or numbers those that it changes', (t) => {
  for (const [text, names] of whole) t.same(parseMap(text), { whole: names }, text)
  for (const [text, changed] of changes) t.same(parseMap(text), { changes: new Map(changed) }, text)
  for (const text of wrong) t.throws(() => parseMap(text), { message: /^--map /, exitCode: 2 }, text)
  t.end()
})

t.test('changes apply to the guess, and take a name from the column that was guessed to have it', (t) => {
  const guess = ['email', 'First name', null]
  const apply = (text: string) => applyMap(parseMap(text), guess)
  t.same(apply('3=Plan'), ['email', 'First name', 'Plan'])
  t.same(apply('2=-'), ['email', null, null])
  t.same(apply('3=EMAIL'), [null, 'First name', 'EMAIL'])
  t.same(apply('1=First name,2=email'), ['First name', 'email', null])
  t.same(apply('email,-'), ['email', null], 'the whole mapping stands as it is')
  t.throws(() => apply('4=Plan'), { exitCode: 2, message: /column 4.* has 3 columns/ })
  t.end()
})
