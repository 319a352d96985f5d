import assert from 'node:assert/strict'
import { isUtf8 } from 'node:buffer'
import fc from 'fast-check'
import t from 'tap'
import { parseJson } from '../../../../../control-plane/api/body/json-text.ts'
import { parseBody, type ParsedBody } from '../../../../../control-plane/api/body/parse-body.ts'
import { RequestError } from '../../../../../control-plane/api/request-error.ts'
import type { Json } from '../../../../helpers/service.ts'

const path = ['subscriber_import', 'file_source', 'content']

/** The value of a body; undefined for a refused one. */
type Read = { value: unknown } | undefined

/** The document as the control plane reads it, with the text put back. */
function readInPieces(pieces: Buffer[]): Read {
  let body: ParsedBody
  try {
    body = parseBody({ pieces, inlineText: { path, sampledBytes: Infinity } })
  } catch (error) {
    if (error instanceof RequestError) return undefined
    throw error
  }
  // A request without a body is none that JSON.parse could read.
  if (body.value === undefined) return undefined
  const source = path
    .slice(0, -1)
    .reduce<Json>((inner, key) => (Object.hasOwn(Object(inner), key) ? inner[key] : undefined), body.value)
  if (body.sample === null) {
    const isThere = Object.hasOwn(Object(source), 'content')
    assert(!isThere || typeof source.content !== 'string', 'no text at the path stays in the value')
    return { value: body.value }
  }
  source.content = Buffer.from(body.sample.bytes).toString()
  return { value: body.value }
}

/** Reads the body with JSON.parse. */
function readWhole(bytes: Buffer): Read {
  if (!isUtf8(bytes)) return undefined
  try {
    const value: unknown = JSON.parse(bytes.toString().replace(/^\ufeff/, ''))
    return allTexts(value).every((text) => text.isWellFormed()) ? { value } : undefined
  } catch {
    return undefined
  }
}

const contentIn = (read: Read): unknown => (read?.value as Json)?.subscriber_import?.file_source?.content

function allTexts(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, entry]) => [key, ...allTexts(entry)])
}

function cut(bytes: Buffer, cuts: number[]): Buffer[] {
  const places = [...new Set(cuts.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b)
  return [...places, bytes.length].map((end, i) => bytes.subarray(places[i - 1] ?? 0, end))
}

/** JSON texts in spellings that JSON.stringify doesn't choose: blanks, escapes, keys given twice. */
const blank = fc.constantFrom('', '', '', ' ', '\n', '\t\r ')
const spelledUnit = (unit: string, how: number): string => {
  const code = unit.charCodeAt(0)
  const escaped = `\\u${code.toString(16).padStart(4, '0')}`
  if (how === 1) return escaped
  if (how === 2) return escaped.toUpperCase().replace('U', 'u')
  const plain = JSON.stringify(unit).slice(1, -1)
  return how === 3 && unit === '/' ? '\\/' : plain
}
const spelled = (text: fc.Arbitrary<string>) =>
  fc.tuple(text, fc.array(fc.nat(3), { maxLength: 6 })).map(([value, hows]) => {
    // Halves of a pair are escaped both, or neither.
    const units = hows.length === 0 ? Array.from(value) : value.split('')
    return `"${units
      .map((unit, i) =>
        unit.length > 1 ? unit : spelledUnit(unit, hasHalf(value) ? 1 : (hows[i % hows.length] ?? 0)),
      )
      .join('')}"`
  })
const hasHalf = (text: string) => /[\ud800-\udfff]/.test(text)
const anyUnits = (...units: string[]) =>
  fc.array(fc.constantFrom(...units), { maxLength: 10 }).map((some) => some.join(''))
const anyText = spelled(
  fc.oneof(
    { weight: 10, arbitrary: fc.string({ unit: 'binary', maxLength: 12 }) },
    { weight: 10, arbitrary: anyUnits('a', '"', '\\', '\n', '\0', 'ä', '€', '😀', '/', '\ufeff') },
    { weight: 1, arbitrary: anyUnits('a', '\ud83d', '\ude00', '😀') },
  ),
)
const anyKey = fc.oneof(
  { weight: 6, arbitrary: spelled(fc.constantFrom(...path)) },
  { weight: 1, arbitrary: anyText },
  { weight: 1, arbitrary: spelled(fc.constantFrom('__proto__', 'Content', 'content ', '')) },
)
const { document } = fc.letrec((tie) => ({
  document: fc.oneof(
    { maxDepth: 5, depthIdentifier: 'levels' },
    { weight: 2, arbitrary: anyText },
    { weight: 1, arbitrary: fc.constantFrom('null', 'true', '-0.5e3', '1', '1e400') },
    {
      weight: 6,
      arbitrary: fc
        .array(fc.tuple(anyKey, blank, tie('document') as fc.Arbitrary<string>), {
          maxLength: 4,
          depthIdentifier: 'levels',
        })
        .map(
          (entries) =>
            `{${entries.map(([key, space, value]) => `${space}${key}${space}:${value}${space}`).join(',')}}`,
        ),
    },
    {
      weight: 1,
      arbitrary: fc
        .array(tie('document') as fc.Arbitrary<string>, { maxLength: 3, depthIdentifier: 'levels' })
        .map((values) => `[${values.join(',')}]`),
    },
  ),
}))
/** Any document, or a body with a content among other keys. */
const body = fc.oneof(
  document,
  fc
    .tuple(blank, fc.array(fc.tuple(anyText, document), { maxLength: 2 }), anyText, document)
    .map(
      ([space, before, content, after]) =>
        `${space}{"subscriber_import":${space}{"file_source":{${before.map(([key, value]) => `${key}:${value},`).join('')}"con\\u0074ent"${space}:${space}${content},"x":${after}}}}${space}`,
    ),
)

t.test('a body read in pieces is what JSON.parse makes of it whole', async (t) => {
  let contents = 0
  await fc.assert(
    fc.asyncProperty(body, fc.array(fc.nat(), { maxLength: 8 }), async (text, cuts) => {
      const bytes = Buffer.from(text)
      const whole = readWhole(bytes)
      if (typeof contentIn(whole) === 'string') contents++
      assert.deepEqual(readInPieces(cut(bytes, cuts)), whole)
    }),
    { numRuns: 2_000 },
  )
  t.ok(contents > 500, `${contents} of them have a content`)
})

t.test('a damaged body is refused by both, or by neither', async (t) => {
  let refused = 0
  const damage = fc.tuple(
    fc.nat(),
    fc.nat(2),
    fc.oneof(fc.constantFrom(...Buffer.from('"\\{}[],:u09ad \x00\x1f')), fc.nat(255)),
  )
  await fc.assert(
    fc.asyncProperty(
      body,
      fc.array(damage, { minLength: 1, maxLength: 2 }),
      fc.array(fc.nat(), { maxLength: 4 }),
      async (text, damages, cuts) => {
        const bytes = [...Buffer.from(text)]
        for (const [place, removed, byte] of damages)
          bytes.splice(place % (bytes.length + 1), removed, ...(removed === 2 ? [] : [byte]))
        const damaged = Buffer.from(bytes)
        const whole = readWhole(damaged)
        if (whole === undefined) refused++
        assert.deepEqual(readInPieces(cut(damaged, cuts)), whole)
      },
    ),
    { numRuns: 3_000 },
  )
  // Some 2,660 are refused, with a standard deviation of 17: both outcomes are tried often, whatever the seed.
  t.ok(refused > 500 && refused < 2_900, `${refused} of them are refused`)
})

const wrapped = (source: string) => `{"subscriber_import":{"file_source":${source}}}`
const contentOf = async (text: string | Buffer, size = 1) => {
  const bytes = Buffer.from(text)
  const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
    bytes.subarray(i * size, (i + 1) * size),
  )
  return contentIn(readInPieces(pieces))
}

t.test('every escape and every length of character, byte by byte', async (t) => {
  const content = 'a,"b"\\ /\b\f\n\r\t\0é€😀\u2028\ufeff'
  t.equal(await contentOf(wrapped(JSON.stringify({ content }))), content)
  const escaped = content
    .split('')
    .map((unit) => spelledUnit(unit, 1))
    .join('')
  t.equal(await contentOf(wrapped(`{"content":"${escaped}"}`)), content)
  t.equal(await contentOf(wrapped('{"content":"\\/"}')), '/')
})

t.test('texts that JSON.parse refuses are refused', async (t) => {
  const cases = ['\\x', '\\u12g4', '\\u', '\\u123', 'a\nb', 'a\0b', '\\', 'a"b', '\\U0041']
  t.strictSame(
    await Promise.all(
      cases.map(async (text) => [
        JSON.stringify(text),
        readInPieces([Buffer.from(wrapped(`{"content":"${text}"}`))]),
      ]),
    ),
    cases.map((text) => [JSON.stringify(text), undefined]),
  )
  for (const bytes of [
    ...['\xc3', '\xc3(', '\xe2\x82', '\xf0\x9f\x98', '\xed\xa0\x80', '\xc0\x80', '\xff', '\xc3\\u00a9'],
  ])
    t.equal(
      await contentOf(Buffer.from(wrapped(`{"content":"${bytes}"}`), 'latin1')),
      undefined,
      'bytes that are no UTF-8',
    )
  for (const half of [
    '\\ud83d',
    '\\ude00',
    '\\ud83dx',
    '\\ud83d\\n',
    '\\ud83d\\ud83d\\ude00',
    '\\ude00\\ud83d',
  ])
    t.equal(await contentOf(wrapped(`{"content":"${half}"}`)), undefined, half)
  t.equal(await contentOf(wrapped('{"content":"unended')), undefined)
})

t.test('of keys given twice the last one counts', async (t) => {
  t.equal(await contentOf(wrapped('{"content":"a","content":"b"}')), 'b')
  t.equal(await contentOf(wrapped('{"content":"a","content":5}')), 5)
  t.equal(await contentOf(wrapped('{"content":5,"con\\u0074ent":"b"}')), 'b')
  t.equal(await contentOf(wrapped('{"content":"a"},"file_source":{}')), undefined)
  t.equal(await contentOf(wrapped('{"content":"\\ud800","content":"whole"}')), 'whole')
})

t.test('only the text at the path may have more than a megabyte', async (t) => {
  const long = JSON.stringify('x'.repeat(1024 * 1024))
  const isTaken = async (text: string) => readInPieces([Buffer.from(text)]) !== undefined
  t.ok(await isTaken(wrapped(`{"type":"url","content":${long}}`)))
  const cases = [
    `{"content":${long}}`,
    `{"subscriber_import":{"content":${long}}}`,
    `{"x":{"subscriber_import":{"file_source":{"content":${long}}}}}`,
    wrapped(`{"x":{"content":${long}}}`),
    wrapped(`[{"content":${long}}]`),
    wrapped(`{"content":[${long}]}`),
    wrapped(`{"x":"content","y":${long}}`),
    `[${wrapped(`{"content":${long}}`)}]`,
  ]
  for (const text of cases) t.notOk(await isTaken(text), text.slice(0, 60))
})

t.test('only the beginning of a sampled text is kept', async (t) => {
  const sampleOf = async (content: string) => {
    const pieces = [Buffer.from(wrapped(JSON.stringify({ content })))]
    const { value, content: all, sample } = parseBody({ pieces, inlineText: { path, sampledBytes: 4 } })
    t.equal(all, null)
    t.notMatch(JSON.stringify(value), content)
    return { ...sample, bytes: Buffer.from(sample!.bytes).toString() }
  }
  t.strictSame(await sampleOf('abcd'), { bytes: 'abcd', isWhole: true, isBlank: false })
  t.strictSame(await sampleOf('abcde'), { bytes: 'abcd', isWhole: false, isBlank: false })
  t.strictSame(await sampleOf(' \n\u00a0 '), { bytes: ' \n\u00a0', isWhole: false, isBlank: true })
  t.strictSame(await sampleOf('     x'), { bytes: '    ', isWhole: false, isBlank: false })
})

t.test('a document may have 64 levels', async (t) => {
  const nested = (levels: number) => Buffer.from('['.repeat(levels) + '"[[["' + ']'.repeat(levels))
  t.ok(parseJson(nested(64)))
  t.throws(() => parseJson(nested(65)), { code: 'invalid_request', message: /more than 64 levels/ })
  t.throws(() => parseJson(nested(500_000)), { code: 'invalid_request' })
})
