import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { asciiEmailIdentity } from '../../../shared/csv/identity-reader.ts'
import { emailKey } from '../../model/email-address.ts'

/** What the fast path reads of a cell, with other bytes around it; null for none. */
function fastPath(cell: string, around: string): string | null {
  const bytes = Buffer.from(`${around}${cell}${around}`)
  const target = Buffer.alloc(1_024)
  const length = asciiEmailIdentity(bytes, around.length, bytes.length - around.length, target)
  return length === -1 ? null : target.toString('utf8', 0, length)
}

/** It leaves domains of digits and dots alone to the slow path, which counts the numbers. */
const isNumeric = (cell: string): boolean => /@[\d.]*$/.test(cell.trim())

function check(cell: string): void {
  for (const around of ['', ' ', 'a', '@', '.', '-', ','])
    assert.equal(fastPath(cell, around), isNumeric(cell) ? null : emailKey(cell.trim()), JSON.stringify(cell))
}

t.test('the fast path reads every address in ASCII as the contract says', (t) => {
  const longLabel = 'd'.repeat(63)
  const longDomain = `${`${longLabel}.`.repeat(3)}${'d'.repeat(61)}.de`
  for (const cell of [
    ...[
      'Ann@B.co',
      ' \t\n\u000b\f\rann@b.co\r\f\u000b\n\t ',
      'ann@b.co\u000e',
      '\u0008ann@b.co',
      ' ',
      '',
      '@',
      'a@',
      '@b.co',
    ],
    ...[
      'a@1.2.3.4',
      'a@1.2.3',
      'a@1.2.3.x',
      'a@1x.2',
      'a@b',
      'a@b.',
      'a@.b',
      'a@b..c',
      'a@-b.c',
      'a@b-.c',
      'a@b.-c',
    ],
    ...['mailto:ann@b.co', 'MailTo:ann@b.co', 'mailto@b.co', 'mailto;ann@b.co', 'ann:b:c@b.co'],
    ...['mailtoo:ann@b.co', 'a.mailto:ann@b.co', 'answer:ann@b.co', 'mailto:', 'mailto:ann'],
    ...['a@b.c-', 'a@b-c.d', 'a@b_c.d', 'a@b@c.d', 'a b@c.d', 'a@b c.d', 'a@b+c.d', 'a@b.c,', 'a^b@c.d'],
    ...[`${'l'.repeat(256)}@a.b`, `${'l'.repeat(257)}@a.b`, `a@${longLabel}.de`, `a@${longLabel}d.de`],
    ...[`a@${longDomain}`, `a@${longDomain}x`, `${'L'.repeat(256)}@${longDomain}`, `a@b.${longLabel}d`],
  ])
    check(cell)
  for (let code = 0; code < 128; code += 1)
    for (const cell of [`a${String.fromCharCode(code)}b@c.de`, `a@b${String.fromCharCode(code)}c.de`])
      check(cell)
  t.pass()
  t.end()
})

t.test('and of random texts', (t) => {
  const cell = fc
    .array(fc.constantFrom('a', 'B', '1', '.', '-', '_', '@', '@', 'b.co', ' ', '+', 'x@y.'), {
      maxLength: 9,
    })
    .map((parts) => parts.join(''))
  fc.assert(fc.property(cell, check), { numRuns: 3_000 })
  t.pass()
  t.end()
})
