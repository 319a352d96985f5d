import t from 'tap'
import { transcoder } from '../../shared/csv/transcoder.ts'
import {
  codesOtherInIconv,
  compareTexts,
  differencesFromIconv,
  differencesInCodes,
  missingIconv,
  type DecodedSet,
} from '../campaigns/character-sets.ts'
import { iconvNames, knownCodes, twoByteSets } from '../campaigns/known-codes.ts'
import { seedOfToday } from '../campaigns/random.ts'

/** The engine's decoders against others. At full size: docs/campaigns.md. */
const texts = Number(process.env['ROLLCALL_TEXTS'] ?? 300)
const seed = Number(process.env['ROLLCALL_SEED'] ?? seedOfToday)
const sets = Object.keys(iconvNames) as DecodedSet[]
const hasCodes = (set: DecodedSet) => !set.startsWith('utf-')
const skip = missingIconv()

t.setTimeout(60_000 + texts * sets.length)

for (const set of sets)
  t.test(`${texts} texts of ${set}, seed ${seed}`, { timeout: 60_000 + texts }, async (t) => {
    const { differences, validLines, invalidLines, validTexts } = compareTexts(set, texts, seed)
    t.comment(`${validLines} lines are valid, ${invalidLines} aren't`)
    t.same(differences.slice(0, 10), [], `${differences.length} differ from the model or text-encoding`)
    t.ok(validTexts.length >= texts / 10, 'a tenth of the texts is valid')
    await t.test('valid ones are as iconv reads them', { skip }, async (t) => {
      t.same(differencesFromIconv(set, validTexts), [])
    })
  })

for (const set of sets.filter(hasCodes))
  t.test(`codes of ${set}`, async (t) => {
    t.same(differencesInCodes(set), [], 'each is read as by the model')
    await t.test('and as iconv reads it, but for those that are known', { skip }, async (t) => {
      t.same(codesOtherInIconv(set).toSorted(), (knownCodes[set] ?? []).toSorted())
    })
  })

t.test('a line that is longer than a record may be leaves the lines beside it whole', async (t) => {
  for (const set of twoByteSets as ('shift_jis' | 'gbk' | 'big5' | 'euc-kr')[]) {
    const conversion = transcoder(set)
    const line = Buffer.from('\xb0\xa1', 'latin1')
    const bytes = Buffer.concat([
      line,
      Buffer.from('\n'),
      Buffer.alloc(2.5 * 1024 * 1024 + 1, line),
      Buffer.from('\n'),
      line,
    ])
    const pieces: Buffer[] = []
    for (let at = 0; at < bytes.length; at += 64 * 1024)
      pieces.push(conversion.write(bytes.subarray(at, at + 64 * 1024)))
    const lines = Buffer.concat([...pieces, conversion.end()])
      .toString('utf8')
      .split('\n')
    t.equal(lines.length, 3, set)
    t.equal(lines[0], new TextDecoder(set).decode(line), set)
    t.equal(lines[2], lines[0], set)
  }
})
