import fc from 'fast-check'
import t from 'tap'
import type { FieldDefinition } from '../../../../shared/contract/schemas/custom-field.ts'
import { codePoints, fieldReader } from '../../../../shared/values/field-value.ts'
import { makeField } from '../../../helpers/make-plan.ts'
import { readFieldCell } from '../../../model/cells.ts'

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
    ['5.0', 5],
    ['12.00', 12],
    ['-0.0', 0],
    ['1000.00', 1000],
  ] as const)
    t.equal(number.fromText(text), value, text)
  t.ok(Object.is(number.fromText('-0'), 0))
  const cases = [
    ...['5.5', '5.', '5,0', '.0', '5.0.0', '1,234', '1e3'],
    ...['9007199254740992', '-6', '0x10', '1 000', '', '+', '１'],
  ]
  t.strictSame(
    cases.map((text) => [text, number.fromText(text)]),
    cases.map((text) => [text, null]),
  )
  t.equal(number.fromJson(5), 5)
  for (const value of [5.5, Number.NaN, true, [5], {}, 1e300])
    t.equal(number.fromJson(value), null, JSON.stringify(value))
})

t.test('booleans are words', async (t) => {
  const boolean = fieldReader(field({ field_type: 'boolean' }), 'mdy')
  for (const text of ['1', 'TRUE', 't', 'Yes', 'y', 'on']) t.equal(boolean.fromText(text), true, text)
  for (const text of ['0', 'False', 'F', 'no', 'N', 'OFF']) t.equal(boolean.fromText(text), false, text)
  for (const text of ['ja', 'Oui', 'SI', 's\u00ed', 'si\u0301', 'sim', 'da', '\u0434\u0410'])
    t.equal(boolean.fromText(text), true, text)
  for (const text of ['Nein', 'non', 'n\u00c3o', 'ne', '\u041d\u0435\u0442'])
    t.equal(boolean.fromText(text), false, text)
  for (const text of ['2', 'jein', 'x', '']) t.equal(boolean.fromText(text), null, text)
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

t.test('checkboxes are split at ; too, and a part may be enclosed', async (t) => {
  const read = (options: string[], text: string) =>
    fieldReader(field({ field_type: 'select_multiple_checkboxes', options }), 'mdy').fromText(text)
  const cases: [options: string[], text: string, value: string[] | null][] = [
    [['a', 'b', 'c'], 'c;a', ['a', 'c']],
    [['a', 'b', 'c'], 'a; b|c,', ['a', 'b', 'c']],
    [['a', 'b', 'a;b'], 'a;b', ['a;b']],
    [['a', 'b'], '"a";"B" | b', ['a', 'b']],
    [['a', 'b'], '" a ";\u00a0"b"\u00a0', ['a', 'b']],
    [['a', 'b'], '"a;b"', null],
    [['a', 'b', 'a;b', 'a|b'], '"a;b";"A|B"', ['a;b', 'a|b']],
    [['a', 'b', 'a, b'], '"a, b";b', ['b', 'a, b']],
    [['a'], '"";a;" ";;', ['a']],
    [['a'], '""', []],
    [['a'], '" "', []],
    [['a'], '"a";"x"', null],
    [['a'], '"a', null],
    [['a'], 'a"', null],
    [['a'], '"a"a', null],
    [['a'], '"a""', null],
    [['a'], '"', null],
    [['a'], '"""', null],
    [['a'], '""""', null],
    [['5" pipe', 'b'], '"5"" pipe";b', ['5" pipe', 'b']],
    [['5" pipe', 'b'], '5" pipe; b', ['5" pipe', 'b']],
    [['5" pipe', 'b'], '"5" pipe"', ['5" pipe']],
    [['"a"', 'a'], '"a"', ['"a"']],
    [['"a"', 'a'], '"""a"""', ['"a"']],
    [['a', 'a"; "b'], '"a"; "b"', ['a"; "b']],
    [['a', 'ab'], '"ab"', ['ab']],
  ]
  for (const [options, text, value] of cases) t.same(read(options, text), value, text)
})

t.test('checkboxes are read as the model reads them, with any separators in options', async (t) => {
  const enclosed = (name: string, piece: number) =>
    [name, ` ${name}`, `"${name.replaceAll('"', '""')}"`, `" ${name}" `][piece % 4]!
  const text = (maxLength: number) =>
    fc
      .array(fc.constantFrom('a', 'B', ',', '|', ';', '"', ' ', '\u00a0'), { maxLength })
      .map((list) => list.join(''))
  const options = fc
    .uniqueArray(text(6), { selector: (option) => option.trim().toLowerCase(), minLength: 1, maxLength: 8 })
    .map((list) => list.map((option) => option.trim()).filter((option) => option !== ''))
  fc.assert(
    fc.property(options, fc.array(fc.oneof(fc.nat(7), text(3)), { maxLength: 6 }), (names, pieces) => {
      // Mostly the options themselves, in which separators stand beside them.
      const cell = pieces
        .map((piece) => (typeof piece === 'string' ? piece : `${enclosed(names[piece] ?? '', piece)};`))
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
})

t.test('dates and days are read', async (t) => {
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

t.test('a few words say which values a field expects', async (t) => {
  const many = Array.from({ length: 11 }, (_, i) => `o${i}`)
  const ten = many.slice(0, 10)
  const shown = ten.map((option) => `"${option}"`).join(', ')
  const cases: [settings: Partial<FieldDefinition>, expectation: string][] = [
    [{}, 'a text of 0 to 65535 characters'],
    [{ field_type: 'text_multiline', minimum_length: 2, maximum_length: 3 }, 'a text of 2 to 3 characters'],
    [{ field_type: 'number' }, 'an integer'],
    [{ field_type: 'number', minimum_value: 1 }, 'an integer from 1 to 9007199254740991'],
    [{ field_type: 'number', maximum_value: 1 }, 'an integer from -9007199254740991 to 1'],
    [{ field_type: 'number', minimum_value: 0, maximum_value: 10 }, 'an integer from 0 to 10'],
    [{ field_type: 'boolean' }, 'yes or no'],
    [{ field_type: 'date' }, 'a date such as 2014-12-31 or 12/31/2014'],
    [{ field_type: 'day_of_year' }, 'a day of the year such as MM-DD, or a date'],
    [{ field_type: 'select_single_dropdown', options: ['a', 'b'] }, 'one of "a", "b"'],
    [{ field_type: 'select_single_radio', options: ten }, `one of ${shown}`],
    [
      { field_type: 'select_multiple_checkboxes', options: many },
      `one or more of ${shown}, ... (11 options)`,
    ],
  ]
  t.strictSame(
    cases.map(([settings]) => [settings, fieldReader(field(settings), 'mdy').expectation]),
    cases,
  )
  t.equal(
    fieldReader(field({ field_type: 'day_of_year' }), 'dmy').expectation,
    'a day of the year such as DD-MM, or a date',
  )
  t.equal(
    fieldReader(field({ field_type: 'date' }), 'dmy').expectation,
    'a date such as 2014-12-31 or 31/12/2014',
  )
})

t.test('in JSON a text is read as a cell is, and nothing else becomes a value', async (t) => {
  const options = ['a', 'b']
  const cases: [settings: Partial<FieldDefinition>, json: unknown, value: unknown][] = [
    [{}, ' x ', 'x'],
    [{ field_type: 'number' }, ' 7 ', 7],
    [{ field_type: 'number' }, '7x', null],
    [{ field_type: 'number', minimum_value: 5 }, 4, null],
    [{ field_type: 'number', minimum_value: 5 }, 5, 5],
    [{ field_type: 'number', maximum_value: 5 }, 5, 5],
    [{ field_type: 'number', maximum_value: 5 }, 6, null],
    [{ field_type: 'boolean' }, ' yes ', true],
    [{ field_type: 'boolean' }, false, false],
    [{ field_type: 'boolean' }, 'x', null],
    [{ field_type: 'date' }, ' 2014-01-02 ', '2014-01-02'],
    [{ field_type: 'date' }, '2014-13-02', null],
    [{ field_type: 'day_of_year' }, ' 12-24 ', '12-24'],
    [{ field_type: 'day_of_year' }, ' 24-12', '12-24'],
    [{ field_type: 'day_of_year' }, '1/2', '02-01'],
    [{ field_type: 'day_of_year' }, '1-2', '02-01'],
    [{ field_type: 'day_of_year' }, '01-02-2014', '02-01'],
    [{ field_type: 'day_of_year' }, '2014-01-02', '01-02'],
    [{ field_type: 'day_of_year' }, '32-13', null],
    [{ field_type: 'select_single_radio', options }, ' B ', 'b'],
    [{ field_type: 'select_single_radio', options }, 'c', null],
    [{ field_type: 'select_multiple_checkboxes', options }, ' b | A ', ['a', 'b']],
    [{ field_type: 'select_multiple_checkboxes', options }, [' B '], ['b']],
    [{ field_type: 'select_multiple_checkboxes', options }, [], []],
    [{ field_type: 'select_multiple_checkboxes', options }, ['c'], null],
  ]
  t.same(
    cases.map(([settings, json]) => [
      JSON.stringify([settings, json]),
      fieldReader(field(settings), 'dmy').fromJson(json),
    ]),
    cases.map(([settings, json, value]) => [JSON.stringify([settings, json]), value]),
  )
  const types: Partial<FieldDefinition>[] = [
    ...(['text', 'text_multiline', 'date', 'day_of_year'] as const).map((field_type) => ({ field_type })),
    { field_type: 'select_single_dropdown', options },
  ]
  for (const settings of types)
    for (const json of [5, true, ['a'], {}, undefined])
      t.equal(fieldReader(field(settings), 'dmy').fromJson(json), null)
  for (const json of [5, true, {}, [5], [['a']]])
    t.equal(
      fieldReader(field({ field_type: 'select_multiple_checkboxes', options }), 'dmy').fromJson(json),
      null,
    )
  for (const json of [5, 0, {}, ['yes']])
    t.equal(fieldReader(field({ field_type: 'boolean' }), 'dmy').fromJson(json), null)
})

t.test('half a character counts as one', async (t) => {
  const cases: [text: string, length: number][] = [
    ['', 0],
    ['ab', 2],
    ['\u{1f600}', 1],
    ['\u{10ffff}\u{10000}', 2],
    ['a\ud800b', 3],
    ['\ud800\ud800', 2],
    ['\udbff\udfff', 1],
    ['\udc00\ud800', 2],
    ['\udc00\udc00', 2],
    ['\ud800', 1],
    ['\ud7ff\udc00', 2],
    ['\ue000\udc00', 2],
    ['\ud800\ue000', 2],
  ]
  t.strictSame(
    cases.map(([text]) => [JSON.stringify(text), codePoints(text)]),
    cases.map(([text, length]) => [JSON.stringify(text), length]),
  )
  const two = fieldReader(field({ minimum_length: 2, maximum_length: 2 }), 'mdy')
  t.equal(two.fromText('\u{1f600}a'), '\u{1f600}a')
  t.equal(two.fromText('ab'), 'ab')
  t.equal(two.fromText('a'), null)
  t.equal(two.fromText('abc'), null)
})
