import fc from 'fast-check'
import t from 'tap'
import type { FieldDefinition } from '../../../shared/schemas/custom-field.ts'
import { fieldReader } from '../../../shared/values/field-value.ts'
import { makeField } from '../../helpers/make-plan.ts'
import { readFieldCell } from '../../model/cells.ts'

const field = (settings: Partial<FieldDefinition>): FieldDefinition =>
  makeField({ id: 1, name: 'F', ...settings })

t.test('numbers are integers, by value', async (t) => {
  const number = fieldReader(
    field({ field_type: 'number', minimum_value: -5, maximum_value: 9007199254740991 }),
    'mdy',
  )
  for (const [text, value] of [
    ['007', 7],
    ['+3', 3],
    ['-5', -5],
    ['-0', 0],
    ['9007199254740991', 9007199254740991],
  ] as const)
    t.equal(number.fromText(text), value, text)
  t.ok(Object.is(number.fromText('-0'), 0))
  for (const text of ['5.0', '1e3', '9007199254740992', '-6', '0x10', '1 000', '', '+', '１'])
    t.equal(number.fromText(text), null, text)
  t.equal(number.fromJson(5), 5)
  for (const value of [5.5, Number.NaN, true, [5], {}, 1e300])
    t.equal(number.fromJson(value), null, JSON.stringify(value))
})

t.test('booleans are words', async (t) => {
  const boolean = fieldReader(field({ field_type: 'boolean' }), 'mdy')
  for (const text of ['1', 'TRUE', 't', 'Yes', 'y', 'on']) t.equal(boolean.fromText(text), true, text)
  for (const text of ['0', 'False', 'F', 'no', 'N', 'OFF']) t.equal(boolean.fromText(text), false, text)
  for (const text of ['2', 'ja', 'x', '']) t.equal(boolean.fromText(text), null, text)
  t.equal(boolean.fromJson(true), true)
  t.equal(boolean.fromJson(1), null)
})

t.test('lengths are counted in code points', async (t) => {
  const text = fieldReader(field({ minimum_length: 2, maximum_length: 3 }), 'mdy')
  t.equal(text.fromText('😀😀😀'), '😀😀😀')
  t.equal(text.fromText('😀'), null)
  t.equal(text.fromText('abcd'), null)
  const unbounded = fieldReader(field({}), 'mdy')
  t.equal(unbounded.fromText('x'.repeat(65_536)), null)
  t.ok(unbounded.fromText('😀'.repeat(65_535)))
  t.equal(unbounded.fromText('line 1\nline 2'), 'line 1\nline 2')
  t.equal(unbounded.fromJson(5), null)
})

t.test('an option is found in any case and kept as it is named', async (t) => {
  const select = fieldReader(
    field({ field_type: 'select_single_radio', options: ['Grün', 'Red, dark'] }),
    'mdy',
  )
  t.equal(select.fromText('GRÜN'), 'Grün')
  t.equal(select.fromText('red, DARK'), 'Red, dark')
  t.equal(select.fromText('red'), null)
})

t.test('checkboxes are split outside of option names, longest first, in list order', async (t) => {
  const boxes = fieldReader(
    field({ field_type: 'select_multiple_checkboxes', options: ['a', 'a, b', 'c|d', 'E'] }),
    'mdy',
  )
  t.same(boxes.fromText('e| a'), ['a', 'E'])
  t.same(boxes.fromText('a, b'), ['a, b'], 'the longer option wins')
  t.same(boxes.fromText('a,b'), null, 'b alone is no option')
  t.same(boxes.fromText('C|D,,| a ,A'), ['a', 'c|d'])
  t.same(boxes.fromText('|'), [])
  t.equal(boxes.fromText('a|x'), null)
  t.equal(boxes.fromText('ab'), null)
  t.same(boxes.fromJson(['E', 'A']), ['a', 'E'])
  t.equal(boxes.fromJson(['E', 5]), null)
})

t.test(
  'checkboxes are read as the independent model reads them, whatever separators options hold',
  async (t) => {
    const text = (maxLength: number) =>
      fc.array(fc.constantFrom('a', 'B', ',', '|', ' ', '\u00a0'), { maxLength }).map((list) => list.join(''))
    const options = fc
      .uniqueArray(text(6), { selector: (option) => option.trim().toLowerCase(), minLength: 1, maxLength: 8 })
      .map((list) => list.map((option) => option.trim()).filter((option) => option !== ''))
    fc.assert(
      fc.property(options, fc.array(fc.oneof(fc.nat(7), text(3)), { maxLength: 6 }), (names, pieces) => {
        // Mostly the options themselves, in which separators stand beside them.
        const cell = pieces
          .map((piece) => (typeof piece === 'string' ? piece : `${names[piece] ?? ''},`))
          .join('')
        const boxes = field({ field_type: 'select_multiple_checkboxes', options: names })
        return (
          JSON.stringify(fieldReader(boxes, 'mdy').fromText(cell)) ===
          JSON.stringify(readFieldCell(cell, boxes, 'mdy'))
        )
      }),
      { numRuns: 3_000 },
    )
    t.pass('each cell')
  },
)

t.test('dates and days', async (t) => {
  t.equal(fieldReader(field({ field_type: 'date' }), 'dmy').fromText('3/4/2014'), '2014-04-03')
  t.equal(
    fieldReader(field({ field_type: 'date' }), 'mdy').fromText('2014-04-03T23:00:00-05:00'),
    '2014-04-03',
  )
  const day = fieldReader(field({ field_type: 'day_of_year' }), 'dmy')
  t.equal(day.fromText('03-04'), '04-03')
  t.equal(day.fromJson('03-04'), '03-04', 'in JSON MM-DD is what we write ourselves')
  t.equal(day.fromJson('25-12'), '12-25')
})
