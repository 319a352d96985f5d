import t from 'tap'
import { normalizeText } from '../../../../shared/values/normalized-text.ts'

t.test('texts of people are normalized as JavaScript does it', async (t) => {
  const texts = [
    'Zoe\u0308',
    'a\u0327\u0301',
    '\u1100\u1161\u11a8',
    `e${'\u0301'.repeat(30)}`,
    'x\u0301\u0327'.repeat(1_000),
  ]
  for (const form of ['NFC', 'NFKD'] as const)
    t.same(
      texts.map((text) => normalizeText(text, form)),
      texts.map((text) => text.normalize(form)),
    )
  t.equal(
    normalizeText(`a${'\u0301'.repeat(100)}b`, 'NFC'),
    `\u00e1${'\u0301'.repeat(99)}b`,
    'nothing is lost',
  )
})

t.test('a run of more than 30 marks is normalized 30 by 30', async (t) => {
  // Cedilla goes before acute: within 30 marks they are sorted, not across them.
  const acutes = (count: number) => '\u0301'.repeat(count)
  const cases: [text: string, normalized: string][] = [
    [`a${acutes(29)}\u0327`, `a\u0327${acutes(29)}`.normalize('NFC')],
    [`x${acutes(30)}\u0327`, `x${acutes(30)}\u0327`],
    [`x${acutes(60)}\u0327`, `x${acutes(60)}\u0327`],
    [`x${acutes(59)}\u0327`, `x${acutes(30)}\u0327${acutes(29)}`],
    [`e${acutes(1)}x${acutes(31)}e\u0301 n\u0303`, `\u00e9x${acutes(31)}\u00e9 \u00f1`],
    [`x${acutes(31)}\u1100\u1161\u11a8`, `x${acutes(31)}\uac01`],
    [`${acutes(40)}e\u0301`, `${acutes(40)}\u00e9`],
    // A mark of two units, which is one of the 30.
    [`x${'\u{1d165}'.repeat(16)}\u0327`, `x${'\u{1d165}'.repeat(16)}\u0327`.normalize('NFC')],
  ]
  t.strictSame(
    cases.map(([text]) => [text, normalizeText(text, 'NFC')]),
    cases,
  )
})
