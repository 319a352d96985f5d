import fc from 'fast-check'
import t from 'tap'
import {
  fileNameInUrl,
  storedUrl,
  urlProblem,
} from '../../../../../../control-plane/resources/subscriber-imports/create/client-url.ts'
import { withoutSecrets } from '../../../../../../shared/runtime/masked-url.ts'
import { maskPassword } from '../../../../../../shared/runtime/logger.ts'

const schemes = ['http:', 'https:', 'ftp:', 'ftps:']
const settings = { URL_IMPORT_ALLOW: [] }

/** The stored and the shown form of a text; null where it is refused. */
function shownOf(text: string): { url: URL; stored: string; shown: string } | null {
  const url = URL.parse(text)
  if (urlProblem(url, schemes, settings) !== null) return null
  const stored = storedUrl(url!, text)
  return { url: url!, stored, shown: maskPassword(stored) }
}

t.test('a password is masked however its URL is spelled', async (t) => {
  for (const text of [
    'https://user:secret@example.com/a.csv',
    'https:user:secret@example.com/a.csv',
    'https:/user:secret@example.com/a.csv',
    'https:///user:secret@example.com/a.csv',
    'https:\\\\user:secret@example.com/a.csv',
    '  https://user:secret@example.com/a.csv\n',
    'ht\ttps://user:sec\nret@example.com/a.csv',
    'HTTPS://user:secret@EXAMPLE.com/a.csv',
    'https://:secret@example.com/a.csv',
    'https://user:secret:more@example.com/a.csv',
    'https://user:secret@more@example.com/a.csv',
    'https://us%3Aer:secret@example.com/a.csv',
    'ftp://user:secret@example.com/a.csv',
    'ftps://user:secret@example.com/a.csv',
  ]) {
    const taken = shownOf(text)
    t.ok(taken, text)
    t.notMatch(taken!.shown, /secret|sec\nret|more/, text)
    t.match(taken!.shown, /\*\*\*@example\.com/, text)
  }
  // In a reply or setting of another program, which needn't have encoded it.
  t.equal(maskPassword('ftp://user:se@cret@example.com/a'), 'ftp://user:***@example.com/a')
  t.equal(shownOf(' https://example.com/a.csv?x=a:b@c ')!.shown, 'https://example.com/a.csv?x=a:b@c')
})

t.test('any text that a parser accepts as a URL is shown without its password, or refused', async (t) => {
  const piece = fc.oneof(
    fc.constantFrom('http', 'https', 'ftp', 'ftps', ':', '/', '//', '\\', '@', '?', '#', '%', '%41', '%0'),
    fc.constantFrom('user', 'secret', 'example.com', '[::1]', '[2606:4700::1]', '0x7f.1', ':80', '.', '..'),
    fc.constantFrom(' ', '\t', '\n', '\r', '\0', 'ä', '😀', '\ud800', '。', 'xn--a', '*', '|'),
    fc.string({ unit: 'binary', maxLength: 4 }),
  )
  const text = fc
    .tuple(
      fc.constantFrom('', 'http://', 'https:', 'ftp:/', 'ftps://u:p@'),
      fc.array(piece, { maxLength: 12 }),
    )
    .map(([scheme, pieces]) => scheme + pieces.join(''))
  let taken = 0
  fc.assert(
    fc.property(text, (sentUrl) => {
      const made = shownOf(sentUrl)
      if (made === null) return
      taken += 1
      const { url, stored, shown } = made
      fileNameInUrl(url)
      const [again, masked] = [URL.parse(stored)!, URL.parse(shown)!]
      if (again.href !== url.href) throw new Error(`stored as ${stored}`)
      if (url.password !== '' && masked.password !== '***') throw new Error(`shown as ${shown}`)
      const without = withoutSecrets(stored)
      const kept = URL.parse(without)
      if (kept?.host !== url.host || kept.pathname !== url.pathname) throw new Error(`kept as ${without}`)
      if (url.password !== '' && kept.password !== '***') throw new Error(`kept as ${without}`)
      const values = kept.search
        .slice(1)
        .split('&')
        .map((pair) => pair.slice(pair.indexOf('=') + 1))
      if (values.some((value) => value.length >= 8)) throw new Error(`kept as ${without}`)
      if (withoutSecrets(without) !== without) throw new Error(`kept as ${without}, then changed`)
    }),
    { numRuns: 4_000, seed: 1 },
  )
  t.ok(taken > 200, `${taken} of them are taken`)
})
