import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import type { FieldDefinition } from '../../../../shared/contract/schemas/custom-field.ts'
import { parseDateTime, readDateTime } from '../../../../shared/values/date-time.ts'
import { fieldReader } from '../../../../shared/values/field-value.ts'
import { remembering, TextBytes } from '../../../../shared/values/text-bytes.ts'
import { makeField } from '../../../helpers/make-plan.ts'

/** The text between bytes that don't belong to it. */
function within(text: string, around: string): TextBytes {
  const bytes = Buffer.from(`${around}${text}${around}`)
  const length = Buffer.byteLength(around)
  return new TextBytes(bytes, length, bytes.length - length)
}

const around = fc.constantFrom('', ' ', '\u00a0', '\u3000', '0', '\u00e9')

t.test('a text is trimmed as a string is', async (t) => {
  const everyUnit = Array.from({ length: 0xd800 }, (_, code) => String.fromCharCode(code))
  const differing = [...everyUnit, '\ufeff', '\ufffd', '\u{1f600}'].filter(
    (unit) => String(within(`${unit}x${unit}`, '').trim()) !== `${unit}x${unit}`.trim(),
  )
  t.same(differing, [])
  const unit = fc.constantFrom(
    ...[' ', '\t', '\n', '\u000b', '\u00a0', '\u1680', '\u2003', '\u2029', '\u3000', '\ufeff'],
    ...['\u0085', '\u200b', '\u00e0', '\u0800', 'a', '\u{1f600}'],
  )
  const text = fc.array(unit, { maxLength: 8 }).map((units) => units.join(''))
  fc.assert(
    fc.property(text, around, (text, around) => {
      assert.equal(String(within(text, around).trim()), text.trim())
      assert.equal(within(text, around).length, Buffer.byteLength(text))
    }),
    { numRuns: 2_000 },
  )
})

t.test('a text is read once while it is remembered, and always as the function says', async (t) => {
  let reads = 0
  const read = remembering((text) => {
    reads += 1
    return text === 'none' ? null : text.toUpperCase()
  })
  for (const text of ['a', 'none', 'a', 'none', '\u00e9', '\u00e9']) read(within(text, '-'))
  t.equal(reads, 3)
  const long = 'x'.repeat(25)
  t.equal(read(within(long, '')), long.toUpperCase(), 'too long to be remembered')
  const words = Array.from({ length: 5_000 }, (_, i) => `${(i * 7919) % 3_000}`)
  t.same(
    words.filter((word) => read(within(word, '1')) !== word),
    [],
    'more texts than slots',
  )
})

const cell = fc.oneof(
  fc.constantFrom(
    ...[
      '0',
      '-0',
      '+7',
      '007',
      '1.0',
      '123456789012345',
      '1234567890123456',
      '9007199254740993',
      '1e3',
      '\u0661',
    ],
    ...['yes', 'NEIN', 's\u00ed', 'Red', 'dark  blue', 'RED|green', 'Red,', '"Red"', 'NULL', '\\N'],
    ...[
      '0000-00-00',
      '00/00/0000',
      '2014-02-29',
      '2016-02-29',
      '0999-01-01',
      '31/12/2014',
      '12-31',
      '31.12.2014',
    ],
    ...['2014-12-31 23:59', '2014-12-31T23:59:59', '2014-12-31 24:00', '2014-12-31 1:30 pm', 'March 5, 2014'],
    ...['x'.repeat(12), '\u{1f600}'.repeat(4), '\u00e9'.repeat(3), 'a'],
  ),
  fc
    .tuple(fc.nat(99), fc.constantFrom('-', '/', '.'), fc.nat(40), fc.constantFrom('-', '/'), fc.nat(2_100))
    .map((parts) => parts.join('')),
  fc.stringMatching(/^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2})?)?$/),
  fc.stringMatching(/^[0-9:/ +-]{1,20}$/).filter((text) => text.trim() === text),
)

t.test('dates and values of all types are read by bytes as by strings', async () => {
  const options = ['Red', 'Green', 'Dark blue']
  const types: Partial<FieldDefinition>[] = [
    { field_type: 'text', minimum_length: 2, maximum_length: 12 },
    { field_type: 'text_multiline' },
    { field_type: 'number', minimum_value: -5, maximum_value: 900 },
    { field_type: 'number' },
    { field_type: 'date' },
    { field_type: 'day_of_year' },
    { field_type: 'boolean' },
    { field_type: 'select_single_dropdown', options },
    { field_type: 'select_multiple_checkboxes', options },
  ]
  for (const order of ['mdy', 'dmy'] as const) {
    const readers = types.map((type) => fieldReader(makeField({ id: 1, name: 'Field', ...type }), order))
    fc.assert(
      fc.property(cell, around, (text, around) => {
        assert.deepEqual(readDateTime(within(text, around), order), parseDateTime(text, order))
        for (const reader of readers) {
          const value = reader.fromBytes(within(text, around))
          assert.deepEqual(value instanceof TextBytes ? String(value) : value, reader.fromText(text))
        }
      }),
      { numRuns: 5_000 },
    )
  }
})
