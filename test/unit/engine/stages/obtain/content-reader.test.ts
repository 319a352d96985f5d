import t from 'tap'
import { ContentReader } from '../../../../../engine/stages/obtain/content-reader.ts'
import { makeOptions, utf8Format } from '../../../../helpers/make-plan.ts'
import type { FileFormat } from '../../../../../shared/contract/schemas/import.ts'

const megabyte = 1024 * 1024

function readerFor(format: Partial<FileFormat>, type: 'json' | 'url' = 'url'): ContentReader {
  const options = makeOptions({ file_format: { ...utf8Format, csv_skip_lines: 0, ...format } })
  return new ContentReader({ source: { type, filename: 'x.csv', url: null }, options })
}

/** What is staged of a source that comes in pieces, which it overwrites afterwards. */
async function staged(reader: ContentReader, source: Buffer, size: number): Promise<Buffer> {
  const pieces = (async function* () {
    for (let at = 0; at < source.length; at += size) {
      const piece = Buffer.from(source.subarray(at, at + size))
      yield piece
      piece.fill('?')
    }
  })()
  const kept: Buffer[] = []
  for await (const bytes of reader.read(pieces)) kept.push(Buffer.from(bytes))
  return Buffer.concat(kept)
}

t.test('what need not be converted is staged as it is, of any size', async (t) => {
  for (const length of [0, 1, megabyte - 1, megabyte, megabyte + 1, 3 * megabyte]) {
    const source = Buffer.concat([Buffer.from('\ufeffsep=;\n'), Buffer.alloc(length, 'a;b\n')])
    for (const size of [64 * 1024, 5 * megabyte]) {
      const reader = readerFor({ csv_field_separator: 'auto' })
      t.ok((await staged(reader, source, size)).equals(source), `${length} bytes in pieces of ${size}`)
      t.same(reader.result?.beginning, {
        character_set: 'utf-8',
        csv_field_separator: ';',
        start: 9,
        skipped_lines: 1,
      })
    }
  }
})

t.test('UTF-16 becomes UTF-8 without its mark, and the bytes of the source are counted', async (t) => {
  const text = `sep=|\n${'a|😀é\n'.repeat(300_000)}`
  const source = Buffer.from(`\ufeff${text}`, 'utf16le')
  for (const size of [65_535, 5 * megabyte]) {
    const reader = readerFor({ character_set: 'auto', csv_field_separator: 'auto' })
    t.equal((await staged(reader, source, size)).toString(), text)
    t.same(reader.result?.beginning, {
      ...{ character_set: 'utf-16le', csv_field_separator: '|', start: 6, skipped_lines: 1 },
      source_bytes: source.length,
    })
  }
})

t.test('an incomplete character at the end of the source becomes a byte that UTF-8 never has', async (t) => {
  const source = Buffer.concat([Buffer.from('\ufeffa@x.co\nb@x.co', 'utf16le'), Buffer.of(0x41)])
  for (const size of [1, source.length]) {
    const reader = readerFor({ character_set: 'auto' })
    const expected = Buffer.concat([Buffer.from('a@x.co\nb@x.co'), Buffer.of(0xff)])
    t.same(await staged(reader, source, size), expected, `pieces of ${size}`)
  }
})

t.test('what is refused is refused before a byte is staged', async (t) => {
  const reader = readerFor({})
  const bytes = Buffer.concat([Buffer.of(0xff, 0xfe), Buffer.alloc(2 * megabyte, 'a')])
  await t.rejects(staged(reader, bytes, 64 * 1024), { code: 'content_refused' })
  t.match(reader.refusal, { code: 'content_refused' })
  t.equal(reader.result, null)
})

t.test('inline content is UTF-8, whatever was requested', async (t) => {
  for (const character_set of ['utf-16', 'shift_jis', 'windows-1252', 'auto'] as const) {
    const reader = readerFor({ character_set }, 'json')
    const source = Buffer.from('é,b\n')
    t.ok((await staged(reader, source, 2)).equals(source))
    t.equal(reader.result?.beginning.character_set, 'utf-8')
  }
})
