import t from 'tap'
import { FileWarnings } from '../../../../shared/csv/file-warnings.ts'
import { chooseBorders, IdentitySample } from '../../../../engine/stages/split/sampling.ts'
import { type ScannedRecord, dialectBytes, RecordScanner } from '../../../../shared/csv/record-scanner.ts'
import type { ContentFormat, ImportPlan } from '../../../../shared/contract/schemas/import.ts'
import { columnsOf, makeField, makePlan, utf8Format } from '../../../helpers/make-plan.ts'
import fc from 'fast-check'
import { limitsOf } from '../../../helpers/small-scanner.ts'
import { IdentityReader } from '../../../../shared/csv/identity-reader.ts'

const columns: ImportPlan['columns'] = columnsOf(2, 'email', null, 1, 'subscribe_time')
const fields = [makeField({ id: 1, name: 'First name' }), makeField({ id: 2, name: 'Town' })]
const latin: ContentFormat = { ...utf8Format, character_set: 'iso-8859-1' }

const warningsOf = (format = utf8Format) => new FileWarnings(makePlan({ columns, fields }), format)

t.test('a first record with most column names, or a synonym of email, looks like a header', async (t) => {
  const sentence = (shown: string) =>
    `the first record looks like a header (${shown}), and csv_has_headers is false: it is imported as a record`
  const said = (...cells: string[]) => {
    const warnings = warningsOf()
    warnings.firstRecord(cells)
    return warnings.sentences
  }
  t.same(said('TOWN', 'x', 'y', 'First_Name', 'subscribe-time'), [
    sentence('TOWN, x, y, First_Name, subscribe-time'),
  ])
  t.same(said('Town', 'x', 'y', 'first.name', 'z'), [], 'half of them')
  t.same(said('town', 'x', '', 'x', 'x'), [])
  t.same(said(), [])
  for (const word of ['E-mail', 'emails', 'MAIL', 'email address', 'Mail.Address'])
    t.same(said('x', word), [sentence(`x, ${word}`)])
  for (const word of ['address', 'e mails x', 'ann@b.example', '']) t.same(said('email', word), [])
  const long = 'x'.repeat(200)
  t.same(said('x', 'email', long), [sentence(`x, email, ${long}`.slice(0, 94 + 'x, email, '.length - 4))])
})

t.test('columns that are not imported are not among those', async (t) => {
  const warnings = new FileWarnings(
    makePlan({ columns: [columns[1]!, null, null, columns[0]!, columns[3]!], fields }),
    utf8Format,
  )
  warnings.firstRecord(['x', '', '', 'Town', 'First name'])
  t.match(warnings.sentences, [/looks like a header/])
})

t.test('a header with an email address is a record rather', async (t) => {
  const said = (...cells: string[]) => {
    const warnings = warningsOf()
    warnings.headerRecord(cells)
    return warnings.sentences
  }
  const sentence = (shown: string) =>
    `the header row holds an email address (${shown}), and csv_has_headers is true: if the file has no header, this subscriber is missing`
  t.same(said('x', 'y', ' ann@b.example ', 'bob@b.example'), [sentence('ann@b.example')])
  t.same(said('email', 'Town'), [])
  const long = `${'l'.repeat(120)}@b.example`
  t.same(said(long), [sentence('l'.repeat(100))])
})

t.test('a header that says who gets mail is a warning where its column is not mapped', async (t) => {
  const said = (...cells: string[]) => {
    const warnings = warningsOf()
    warnings.headerRecord(cells)
    return warnings.sentences
  }
  t.same(said('Town', 'E-mail', ' Accepts Email Marketing ', 'First name', 'Subscribed at', 'Status'), [
    'column 3 "Accepts Email Marketing" speaks of consent or status and is not mapped, so subscribers who said no are imported like all others: map it to consent or status',
    'column 6 "Status" speaks of consent or status and is not mapped, so subscribers who said no are imported like all others: map it to consent or status',
  ])
  t.same(said('Town', 'E-mail', 'HasOptedOutOfEmail'), [
    'column 3 "HasOptedOutOfEmail" says who left or refuses mail and is not mapped, so they are imported like all others: map it to remove_time if it holds times, or else import them in a file of their own with subscriber_defaults.status unsubscribed',
  ])
  t.same(said('Consent', 'E-mail', '', 'Newsletter', 'Opt-in'), [], 'columns that are mapped, to anything')
  for (const told of ['status', 'consent'] as const) {
    const warnings = new FileWarnings(makePlan({ columns: columnsOf('email', told, null) }), utf8Format)
    warnings.headerRecord(['E-mail', told, 'Newsletter'])
    t.match(warnings.sentences, [
      /^column 3 "Newsletter" .* is not mapped, so subscribers who said no only there are imported/,
    ])
    t.notMatch(warnings.sentences.join(), /map it to/, 'it is refused beside the other')
  }

  const yes = [
    ...[
      'Status',
      'Subscriber Status',
      'Email Marketing Consent',
      'Accepts Marketing',
      'Opt-in',
      'Newsletter',
    ],
    ...['subscribed_to_emails', 'Marketing contact status', 'GDPR consent', 'Subscribed'],
    ...[
      'Einwilligung',
      'Newsletter-Einwilligung',
      'Abonniert',
      'Consentement',
      'Abonné',
      'Suscrito',
      'Consenso',
    ],
    ...['Inscrito', 'Toestemming', 'Zgoda marketingowa', 'Souhlas', 'Samtycke', 'Samtykke', 'Suostumus'],
    ...['Email Permission Status', 'Werbeerlaubnis', 'GDPR', 'DSGVO', 'RGPD', 'Receive emails'],
    ...['Согласие на рассылку', 'Подписан', 'Згода', '同意', '订阅', '購読', '수신동의'],
  ]
  for (const header of yes) t.match(said('x', 'y', header), [/speaks of consent/], header)
  const no = [
    ...[
      'Unsubscribed',
      'Unsubscribed from all email',
      'UNSUB_TIME',
      'CLEAN_TIME',
      'Email Opt Out',
      'opted-out',
    ],
    ...[
      'email_disabled',
      'Email Suppressions',
      'EMAIL_BLACKLISTED',
      'Do not email',
      'Abgemeldet am',
      'Отписан',
    ],
    ...['Désabonné', 'Uitgeschreven', '退订', '수신거부'],
  ]
  const negated = [
    ...['Kein Newsletter', 'No newsletter', 'Pas de newsletter', 'Refus newsletter', 'Sin consentimiento'],
    ...['No consent', 'Consent withdrawn', 'consent_revoked', 'Newsletter declined', 'Newsletter abgelehnt'],
    ...['Newsletter gesperrt', 'Not subscribed', 'notSubscribed', 'Nicht abonniert', 'Non inscrit'],
    ...['Exclude from newsletter', 'Baja', 'Fecha baja', 'Widerspruch', 'Werbesperre', 'E-Mail gesperrt'],
  ]
  for (const header of negated) t.match(said('x', 'y', header), [/refuses mail/], header)
  for (const header of no) t.match(said('x', 'y', header), [/refuses mail/], header)
  const neither = [
    ...[
      'First name',
      'Lead Status',
      'Marital status',
      'Order status',
      'Accepts SMS Marketing',
      'SMS consent',
    ],
    ...[
      'OPTIN_TIME',
      'OPTIN_IP',
      'Subscription date',
      'Email Marketing Consent Timestamp',
      'UNSUB_REASON',
      'Tags',
    ],
    ...[
      ...['UNSUB_CAMPAIGN_TITLE', 'Subscriber ID', 'active_subscription'],
      ...[
        'Newsletter No. id',
        'Nonprofit',
        'Exclusive member',
        'Subscription type',
        'Description',
        'Prescription',
        'Statistics',
        '',
      ],
    ],
  ]
  for (const header of neither) t.same(said('x', 'y', header), [], header)
  t.equal(said('x', 'y', ...Array.from({ length: 50 }, () => 'Newsletter')).length, 10)
})

const record = (line: number, lines: number, bytes: number[] = []): ScannedRecord => ({
  // The bytes next to a record don't belong to it.
  bytes: Buffer.from([0x80, ...bytes, 0x80]),
  ...{ start: 1, end: 1 + bytes.length, line, lines, flags: 0, longCell: null },
})

t.test('records of more than 20 lines are counted, the first is named', async (t) => {
  const warnings = warningsOf()
  warnings.notice(record(5, 20), 1)
  t.same(warnings.sentences, [])
  warnings.notice(record(30, 21), 1)
  t.same(warnings.sentences, [
    '1 record spans more than 20 lines, the first at line 30: is an enclosure missing?',
  ])
  warnings.notice(record(60, 30), 1)
  t.same(warnings.sentences, [
    '2 records span more than 20 lines, the first at line 30: is an enclosure missing?',
  ])
})

t.test('bytes of windows-1252 are named where the file is said to be ISO-8859-1', async (t) => {
  for (const byte of [0x80, 0x93, 0x9f]) {
    const warnings = warningsOf(latin)
    warnings.notice(record(7, 1, [0x41, byte]), 1)
    warnings.notice(record(8, 1, [byte]), 1)
    t.same(warnings.sentences, [
      'the record at line 7 has bytes 0x80-0x9F, which are control characters in ISO-8859-1: is the file windows-1252?',
    ])
    const utf8 = warningsOf()
    utf8.notice(record(7, 1, [byte]), 1)
    t.same(utf8.sentences, [])
  }
  const warnings = warningsOf(latin)
  warnings.notice(record(7, 1, [0x7f, 0xa0, 0xff, 0x41]), 1)
  warnings.notice(record(8, 1), 1)
  t.same(warnings.sentences, [])
})

t.test('the same goes for ISO-8859-2 and ISO-8859-15, whose Windows sets are others', async (t) => {
  const sets = [
    ['iso-8859-2', 'ISO-8859-2', 'windows-1250'],
    ['iso-8859-15', 'ISO-8859-15', 'windows-1252'],
  ] as const
  for (const [character_set, name, meant] of sets) {
    const warnings = warningsOf({ ...utf8Format, character_set })
    warnings.notice(record(2, 1, [0x8a]), 1)
    t.same(warnings.sentences, [
      `the record at line 2 has bytes 0x80-0x9F, which are control characters in ${name}: is the file ${meant}?`,
    ])
  }
})

t.test('the first record that is invalid in a detected character set is named', async (t) => {
  const detected = warningsOf({ ...utf8Format, isDetected: true })
  detected.notice(record(2, 1, [0xc3, 0xa9]), 1)
  t.same(detected.sentences, [])
  detected.notice(record(9, 1, [0xe9]), 7)
  detected.notice(record(10, 1, [0xe9]), 8)
  t.same(detected.sentences, [
    'from record 7 on there are records that are invalid UTF-8, the character set that was detected, and fail: if the file has another one, import it with that as character_set',
  ])
  const requested = warningsOf()
  requested.notice(record(9, 1, [0xe9]), 7)
  t.same(requested.sentences, [], 'their reasons say so')
})

const texts = (buffers: Buffer[]) => buffers.map((buffer) => buffer.toString('latin1'))
const identities = (...names: string[]) => names.map((name) => Buffer.from(name))

t.test('borders cut identities into parts of the same size', async (t) => {
  const ten = identities('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j')
  t.same(texts(chooseBorders(ten, 2)), ['f'])
  t.same(texts(chooseBorders(ten, 5)), ['c', 'e', 'g', 'i'])
  t.same(chooseBorders(ten, 1), [])
  t.same(chooseBorders(ten, 0), [])
  t.same(chooseBorders([], 5), [])
})

t.test('one identity that fills a part has borders on both sides', async (t) => {
  const heavy = identities('a', 'b', 'm', 'm', 'm', 'm', 'm', 'm', 'y', 'z')
  const borders = chooseBorders(heavy, 5)
  t.same(texts(borders), ['m', 'm\0', 'y'])
  t.same(texts(chooseBorders(identities('m', 'm', 'm', 'm'), 4)), ['m', 'm\0'])
})

t.test('a sample has all of few identities, and an even share of many', async (t) => {
  const few = new IdentitySample()
  for (const name of ['c', 'a', 'b']) few.offer(Buffer.from(`<${name}>`), 1, 2)
  t.same(texts(few.identities()), ['a', 'b', 'c'])

  const draw = () => {
    const sample = new IdentitySample()
    for (let i = 0; i < 40_960; i += 1) sample.offer(Buffer.from(`<${String(i).padStart(5, '0')}>`), 1, 6)
    return texts(sample.identities())
  }
  const drawn = draw()
  t.equal(drawn.length, 4_096)
  t.equal(new Set(drawn).size, 4_096, 'none twice')
  t.same(drawn, drawn.toSorted())
  t.same(drawn, draw(), 'the same for the same')
  for (let tenth = 0; tenth < 10; tenth += 1) {
    const count = drawn.filter((name) => Math.floor(Number(name) / 4_096) === tenth).length
    t.ok(count > 300 && count < 520, `${count} of the ${tenth}th tenth`)
  }
})

/**
 * "A lost or stray enclosure costs its own line, not its neighbours" (decisions 2.4): one enclosure of a good file is
 * damaged, at each place in turn. No other line's address may vanish without the warning that keeps everybody from being
 * deactivated.
 */
const emailColumns: ImportPlan['columns'] = columnsOf('email', null, null)

interface Person {
  email: string
  name: string
  size: string
}

/** The addresses that are read, and whether the import warns of swallowed records. */
function read(text: string, format: ContentFormat): { addresses: Set<string>; isWarned: boolean } {
  const plan = makePlan({ columns: emailColumns })
  const identities = new IdentityReader(plan, format)
  const warnings = new FileWarnings(plan, format)
  const addresses = new Set<string>()
  let number = 0
  const scanner = new RecordScanner({
    dialect: dialectBytes(format),
    wantedColumn: 0,
    limits: limitsOf(text),
    onRecord(record) {
      warnings.notice(record, (number += 1))
      const length = identities.read(record)
      if (length !== -1) addresses.add(identities.identityBytes.toString('utf8', 0, length))
    },
  })
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length;) {
    const copied = bytes.copy(scanner.space(), 0, at)
    scanner.advance(copied)
    at += copied
  }
  scanner.end()
  return { addresses, isWarned: warnings.sentences.some((sentence) => /swallowed others/.test(sentence)) }
}

/** A file as careful writers make it, its lines, and the places of its enclosures. */
function written(people: Person[], enclosure: string, style: 'all' | 'needed', escape: string | null) {
  const cell = (text: string): string => {
    const isNeeded = /[,\n]/.test(text) || text.startsWith(enclosure)
    if (style === 'needed' && !isNeeded) return text
    const inside = escape === null ? text : text.replaceAll(escape, escape + escape)
    return enclosure + inside.replaceAll(enclosure, (escape ?? enclosure) + enclosure) + enclosure
  }
  const lines = people.map(({ email, name, size }) => [email, name, size].map(cell).join(','))
  const text = `${lines.join('\n')}\n`
  const places = Array.from(text).flatMap((character, at) => (character === enclosure ? [at] : []))
  return { lines, text, places }
}

const damages: Record<string, (text: string, at: number, enclosure: string) => string> = {
  deleted: (text, at) => text.slice(0, at) + text.slice(at + 1),
  doubled: (text, at, enclosure) => text.slice(0, at) + enclosure + text.slice(at),
  'with a backslash before it': (text, at) => `${text.slice(0, at)}\\${text.slice(at)}`,
}
const insertion = (text: string, at: number, enclosure: string) =>
  text.slice(0, at) + enclosure + text.slice(at)

// Long by hand: ROLLCALL_FUZZ_RUNS=20000
const runs = Number(process.env['ROLLCALL_FUZZ_RUNS'] ?? 300)

const word = fc.constantFrom(
  'Bob',
  'Lee, Ann',
  'Lee, Jr',
  '5"',
  "6'",
  '12" pipe',
  "O'Neil",
  '',
  'a\nb',
  'C:\\',
)
const file = fc.record({
  words: fc.array(fc.tuple(word, word), { minLength: 2, maxLength: 6 }),
  enclosure: fc.constantFrom('"' as const, "'" as const),
  style: fc.constantFrom('all' as const, 'needed' as const),
  escape: fc.constantFrom(null, '\\' as const),
})

t.test('a damaged enclosure costs no other line its address without a warning', async (t) => {
  let damaged = 0
  let warned = 0
  fc.assert(
    fc.property(file, ({ words, enclosure, style, escape }) => {
      const people = words.map(([name, size], i) => ({ email: `person${i}@example.com`, name, size }))
      const format = { ...utf8Format, csv_field_enclosure: enclosure, csv_field_escape: escape }
      const { lines, text, places } = written(people, enclosure, style, escape)
      const emails = people.map(({ email }) => email)
      const checkEach = (how: string, at: number, changed: string) => {
        const ends = lines.map((_, i) => lines.slice(0, i + 1).join('\n').length)
        const own = ends.findIndex((end) => at <= end)
        const { addresses, isWarned } = read(changed, format)
        const lost = emails.filter((email, i) => i !== own && !addresses.has(email))
        damaged += 1
        if (isWarned) warned += 1
        if (lost.length > 0 && !isWarned)
          throw new Error(
            `${JSON.stringify(changed)}: the enclosure at ${at}, ${how}, costs ${lost.join(', ')}`,
          )
      }
      for (const at of places)
        for (const [how, damage] of Object.entries(damages)) checkEach(how, at, damage(text, at, enclosure))
      for (let at = 0; at < text.length; at += 1) checkEach('inserted', at, insertion(text, at, enclosure))
    }),
    { numRuns: runs },
  )
  t.comment(`${damaged} damaged files, ${warned} with the warning`)
  t.ok(warned > 0)
})

t.test('a good file has all its addresses and no warning', async (t) => {
  fc.assert(
    fc.property(file, ({ words, enclosure, style, escape }) => {
      const people = words.map(([name, size], i) => ({ email: `person${i}@example.com`, name, size }))
      const format = { ...utf8Format, csv_field_enclosure: enclosure, csv_field_escape: escape }
      const { addresses, isWarned } = read(written(people, enclosure, style, escape).text, format)
      return !isWarned && people.every(({ email }) => addresses.has(email))
    }),
    { numRuns: runs },
  )
  t.pass()
})
