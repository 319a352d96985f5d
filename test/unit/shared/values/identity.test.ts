import fc from 'fast-check'
import t from 'tap'
import { asciiEmailIdentity } from '../../../../shared/csv/identity-reader.ts'
import { TextBytes } from '../../../../shared/values/text-bytes.ts'
import { emailExpectation, emailIdentity, parseEmail } from '../../../../shared/values/email.ts'
import { comparisonForm, subscriberKey, subscribersOfList } from '../../../../shared/values/identity.ts'
import { canonicalIp, ipExpectation, clientNetwork } from '../../../../shared/values/ip.ts'

/** 256 characters. */
const longDomain = `${`${'d'.repeat(63)}.`.repeat(3)}${'d'.repeat(61)}.de`
/** The number of characters dropped from a domain that brings an address to 2,048. */
const invisible = '\u00ad'.repeat(2_048 - 'a@bu.example'.length)

t.test('addresses that are valid, with the form in which they are compared', async (t) => {
  const cases: [string, string][] = [
    ['Ann@Example.COM', 'ann@example.com'],
    ["-._+=%/?!#$&'*^`{}|~@a.b", "-._+=%/?!#$&'*^`{}|~@a.b"],
    ['.a..b.@x_y.co', '.a..b.@x_y.co'],
    [`${'l'.repeat(256)}@a.b`, `${'l'.repeat(256)}@a.b`],
    [`a@${'d'.repeat(63)}.de`, `a@${'d'.repeat(63)}.de`],
    ['a@1.2.3.256', 'a@1.2.3.256'],
    ['a@1.2.3', 'a@1.2.3'],
    ['a@1.2.3.4.5', 'a@1.2.3.4.5'],
    [`a@${longDomain}`, `a@${longDomain}`],
    [`a@b${invisible}\u00fc.example`, 'a@xn--b-eha.example'],
    ['a@Bücher.example', 'a@xn--bcher-kva.example'],
    ['a@xn--bcher-kva.EXAMPLE', 'a@xn--bcher-kva.example'],
    ['a@例え。テスト', 'a@xn--r8jz45g.xn--zckzah'],
  ]
  t.strictSame(
    cases.map(([text]) => [text.slice(0, 40), emailIdentity(text)]),
    cases.map(([text, form]) => [text.slice(0, 40), form]),
  )
})

t.test('addresses that are none', async (t) => {
  const wrong = [
    ...['', '@', 'a', 'a@', '@a.b', 'a@b', 'a@b.', 'a@.b', 'a@b..c', 'a@-b.c', 'a@b-.c'],
    ...['a@b.c-', 'a b@c.d', 'a@b c.d', 'a@b@c.d', 'a:b@c.d', 'a;b@c.d', 'mailto:a@b.co'],
    ...['a"b@c.d', 'a(b)@c.d', 'ü@b.c', 'a@1.2.3.4', 'a@10.20.30.40', 'a@1.2.3.255'],
    `a@${longDomain}x`,
    `a@b${invisible}\u00ad\u00fc.example`,
    ...['abc.de', 'a@%61\u00fc.de', 'a@\u00fc.d%65', 'a@\u00fc%2ede.com'],
    ...['a@\u00fc.de:80', 'a@001.2.3.4', 'a@b!c.d', 'a@b.c:80', 'a@[1.2.3.4]'],
    `${'l'.repeat(257)}@a.b`,
    `a@${'d'.repeat(64)}.de`,
    `a@${'ab.'.repeat(86)}cd`,
    'a@b.c\n',
    ' a@b.c',
    'a@１.２.３.４',
    'a@b%2ec.d',
    'a@ü..de',
    'a\0@b.c',
  ]
  t.strictSame(
    wrong.map((text) => [JSON.stringify(text.slice(0, 40)), emailIdentity(text)]),
    wrong.map((text) => [JSON.stringify(text.slice(0, 40)), null]),
  )
})

t.test('an address is stored as typed, without invisible characters, its domain in Unicode', async (t) => {
  const cases: [typed: string, stored: string | null][] = [
    ['Ann.X@Example.COM', 'Ann.X@Example.COM'],
    ['bob@example.com\u200b', 'bob@example.com'],
    ['ann@exam\u00adple.com', 'ann@example.com'],
    ['carl@example.com\u2060', 'carl@example.com'],
    ['dora@example\ufe0f.com', 'dora@example.com'],
    ['\u200beva@example.com', 'eva@example.com'],
    ['\u202aF\u200ered@example.com\u202c', 'Fred@example.com'],
    ['gil@example.com \u200b', 'gil@example.com'],
    ['h\u200cal@example.\u200dcom\u200d', 'hal@example.com'],
    ['ida@\u{e0041}example.com', 'ida@example.com'],
    ['a@B\u00dcCHER.example', 'a@b\u00fccher.example'],
    ['a@bu\u0308cher.example', 'a@b\u00fccher.example'],
    ['a@\uff25\uff38\uff21\uff2d\uff30\uff2c\uff25.com', 'a@example.com'],
    ['a@xn--bcher-kva.example', 'a@xn--bcher-kva.example'],
    // A joiner in a Persian label belongs there; in a Latin one it makes the domain invalid.
    ['a@\u0646\u0627\u0645\u0647\u200c\u0627\u06cc.com', 'a@\u0646\u0627\u0645\u0647\u200c\u0627\u06cc.com'],
    ['a@exam\u200cple.com', null],
    ['a\u200b@\u200b', null],
  ]
  t.strictSame(
    cases.map(([typed]) => [typed, parseEmail(typed)?.address ?? null]),
    cases,
  )
  for (const [, stored] of cases)
    if (stored !== null) t.equal(parseEmail(stored)?.address, stored, 'stored forms stay as they are')
})

t.test('an address has no default-ignorable character where it is stored', async (t) => {
  const left: string[] = []
  for (let code = 0x80; code <= 0x10ffff; code += 1) {
    if (code >= 0xd800 && code <= 0xdfff) continue
    const character = String.fromCodePoint(code)
    if (!/\p{Default_Ignorable_Code_Point}/u.test(character)) continue
    for (const text of [
      `ann@example.com${character}`,
      `${character}ann@example.com`,
      `a${character}nn@example.com`,
    ])
      if (parseEmail(text)?.address !== 'ann@example.com') left.push(`${code.toString(16)} ${text}`)
  }
  t.strictSame(left, [])
})

t.test('the reader of bytes and the reader of texts never disagree', async (t) => {
  const character = fc.constantFrom(...'aZ09-_.@+ü ^"\t\n\r\0\u00a0'.split(''))
  const address = fc.array(character, { maxLength: 14 }).map((list) => list.join(''))
  const key = Buffer.alloc(2048)
  let decided = 0
  let runs = 0
  fc.assert(
    fc.property(
      fc.oneof(
        address,
        fc.emailAddress(),
        address.map((text) => `a@${text}.com`),
      ),
      (text) => {
        const bytes = Buffer.from(text)
        const length = asciiEmailIdentity(new TextBytes(bytes).trim(), key)
        runs += 1
        if (length !== -1) decided += 1
        // -1 leaves the decision to emailIdentity; anything else has to be its answer.
        return length === -1 || key.toString('utf8', 0, length) === emailIdentity(text.trim())
      },
    ),
    { numRuns: 20_000 },
  )
  t.ok(decided > runs / 10 && decided < runs, `of ${runs} texts the bytes decide ${decided}`)
})

t.test('texts are compared without case, composed', async (t) => {
  t.equal(comparisonForm('E\u0301cole'), comparisonForm('\u00c9COLE'))
  t.equal(comparisonForm('ΣΑΣ'), 'σας')
  t.equal(comparisonForm('\u0415\u0308'), '\u0451')
  t.equal(emailExpectation, 'an email address')
  t.equal(ipExpectation, 'an IPv4 or IPv6 address')
})

t.test('IP addresses are kept in canonical form', async (t) => {
  t.equal(canonicalIp('192.0.2.1'), '192.0.2.1')
  t.equal(canonicalIp('2001:0DB8:0:0:0:0:0:1'), '2001:db8::1')
  t.equal(canonicalIp('::ffff:c000:201'), '::ffff:192.0.2.1')
  const cases = ['1.2.3', '1.2.3.4.5', '01.2.3.4', '256.1.1.1', 'fe80::1%eth0', '::1::', '1.2.3.4/8', '']
  t.strictSame(
    cases.map((text) => [text, canonicalIp(text)]),
    cases.map((text) => [text, null]),
  )
})

t.test('one client is one IPv4 address or one IPv6 network', (t) => {
  const cases = [
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:DB8:1:2::', '2001:db8:1:2::/64'],
    ['2001:db8:1:3::1', '2001:db8:1:3::/64'],
    ['fe80::1%eth0', 'fe80::/64'],
    ['::1', '::/64'],
    ['', ''],
    ['unix', 'unix'],
  ] as const
  t.strictSame(
    cases.map(([address]) => [address, clientNetwork(address)]),
    cases,
  )
  t.end()
})

t.test('the keys of a list lie between its bounds, those of other lists beside them', (t) => {
  const { $gte: from, $lt: to } = subscribersOfList(12)
  const isWithin = (key: string) => from <= key && key < to
  t.equal(subscriberKey(12, 'ann@b.example'), '12:ann@b.example')
  for (const identity of ['', ' ', '0', '\u{10ffff}']) t.ok(isWithin(subscriberKey(12, identity)))
  for (const other of [1, 2, 11, 13, 120])
    t.notOk(isWithin(subscriberKey(other, 'ann@b.example')), `${other}`)
  t.end()
})
