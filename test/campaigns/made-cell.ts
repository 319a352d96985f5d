import { emailFormats, subscriberStatuses } from '../../shared/contract/schemas/subscriber.ts'
import type { DateOrder } from '../model/dates.ts'
import { madeDate, madeDayOfYear } from './made-date.ts'
import { canonicalValue, type MadeField, type MadeList } from './made-list.ts'
import type { Random } from './random.ts'

/** Cells as people, and people's programs, write them: mostly sound, now and then at a limit, seldom wrong. */
export function madeCell(column: string | null, list: MadeList, order: DateOrder, random: Random): string {
  const { own = [] } = list
  if (column === (list.primaryKey ?? 'email') && own.length > 0 && random.chance(0.7))
    return aroundIt(cased(random.oneOf(own), random), random)
  if (random.chance(0.14) && column !== 'email' && column !== list.primaryKey)
    return random.oneOf(['', '', '', ' ', '\u00a0', '\u3000', '\ufeff', '\t', '\u2003 ', '\u200b'])
  const field = list.fields.find(({ name }) => name === column)
  if (column === null) return random.oneOf(['', 'x', 'ignored', '"', "o'x", 'é'])
  return aroundIt(
    field === undefined ? builtInCell(column, order, random) : fieldCell(field, list, order, random),
    random,
  )
}

function aroundIt(text: string, random: Random): string {
  if (random.chance(0.03)) return protectedText(text, random)
  if (!random.chance(0.12)) return text
  const blanks = [' ', '  ', '\u00a0', '\t', '\ufeff', '\u2028', '\u3000']
  return (
    (random.chance(0.6) ? random.oneOf(blanks) : '') + text + (random.chance(0.6) ? random.oneOf(blanks) : '')
  )
}

/** As a writer protects text from being read as a number or formula, now and then carelessly. */
function protectedText(text: string, random: Random): string {
  const inside = random.slip(0.1) ? text : text.replaceAll('"', '""')
  return random.slip(0.1)
    ? random.oneOf([`="${inside}`, `=${inside}"`, `= "${inside}"`, `="${inside}"x`, `'=${inside}'`])
    : random.oneOf([`="${inside}"`, ` ="${inside}" `, `=" ${inside}"`])
}

/** Few identities in several spellings, so that files, tables and repeated rows share them. */
const emails = [
  ['ann@example.com', 'Ann@Example.com', 'ANN@EXAMPLE.COM'],
  ['bob@example.com', 'bob@Example.COM'],
  ['carl@bücher.de', 'Carl@BÜCHER.de', 'carl@xn--bcher-kva.de', 'carl@bu\u0308cher.de'],
  ['dora@straße.example', 'dora@xn--strae-oqa.example', 'DORA@STRAßE.example'],
  ['eve+tag@x.co', 'Eve+Tag@X.co'],
  ["o'neil@x.co", "O'Neil@x.co"],
  ['fay@ＥＸＡＭＰＬＥ.com', 'fay@example.com'],
  ['gus@例え.テスト', 'gus@例え。テスト', 'gus@xn--r8jz45g.xn--zckzah'],
  ['hal-_.+=%/^?!#$&*`{}|~@a-b_c.co', 'HAL-_.+=%/^?!#$&*`{}|~@a-b_c.co'],
  ['ivy@1.2.3.256', 'ivy@1.2.3.256'],
  ['z@x.co'],
  ['a.@x.co'],
  ['.b@x.co'],
  ['~@x.co'],
  ['{@x.co'],
  ['10@x.co'],
  ['9@x.co'],
  [`${'l'.repeat(256)}@x.co`],
  [`m@${'d'.repeat(63)}.co`],
  ['kelvin@\u212aelvin.org', 'kelvin@kelvin.org'],
  ['ann@example.com', '\ufeffann@example.com', 'a\u00adnn@exam\u00adple.com', 'ann\u200b@example.com\u200e'],
  [
    'bob@example.com',
    '\u202abob@example.com\u202c',
    'b\u200dob@example.com',
    'bob@\u200cexample.com',
    'bob@example\u200d.com',
  ],
  ['carl@bücher.de', 'carl@bü\u00adcher.de', 'carl@bücher\u200c.de', 'carl\ufe0f@bücher.de'],
  ['jan@\u0915\u094d\u200d\u0937.example', 'jan@\u0915\u094d\u0937.example'],
  [
    'kim@\u0646\u0627\u0645\u0647\u200c\u0627\u06cc.example',
    'kim@\u0646\u0627\u0645\u0647\u0627\u06cc.example',
  ],
  ['{name}@x.co', '{Name}@X.co'],
  ['a|b@x.co', 'A|b@x.co'],
]

const oddEmails = [
  ...['', 'no address', '@x.co', 'a@', 'a@b', 'a@b.', 'a@.b.co', 'a@b..co'],
  ...['a@-b.co', 'a@b-.co', 'a@1.2.3.4', 'a@b@c.co', 'a^b@x.co', 'ä@x.co'],
  ...['a b@x.co', '"a"@x.co', 'a@x.co\u0000', 'a@b c.co', 'a@b/c.co'],
  `${'l'.repeat(257)}@x.co`,
  `m@${'d'.repeat(64)}.co`,
  `m@${'dddd.'.repeat(51)}co`,
  'a@ü-.de',
  'a@-ü.de',
  'a@\u00ad.de',
  'a@xn--a.de',
  `m@${'ü'.repeat(60)}.co`,
  ...['a@x.co,b@x.co', 'a\n@x.co', 'a@１.２.３.４', 'mailto:ann@example.com', 'MailTo:bob@Example.COM'],
  ...['mailto:', 'Ann <ann@example.com>', '<bob@example.com>', 'mailto:Ann <ann@example.com>'],
  ...['SMTP:ann@example.com', 'smtp:bob@example.com', 'Ann;ann@example.com', 'ann@example.com;'],
  ...['EMAIL;TYPE=INTERNET:bob@example.com', 'MAILTO:ann@example.com\u200b', 'a\u00a0b@x.co'],
  ...['\u00ad@x.co', 'a@\u200b.co', 'a\u200b@', 'a@x\u00ad', 'a@b\u00ad..co', '\u2800a@x.co'],
]

function madeEmail(random: Random): string {
  if (random.slip(0.05)) return random.oneOf(oddEmails)
  if (random.chance(0.5)) return `user${random.between(1, 200)}@x.co`
  return random.oneOf(random.oneOf(emails))
}

const keyTexts = [
  ...['k1', 'K1', 'é', 'e\u0301', 'É', 'Σ', 'ς', 'σ', 'ΟΔΟΣ', 'οδοσ', 'İ', 'i\u0307', 'ß'],
  ...['ẞ', 'K', '\u212a', '10', '9', '𝒳', 'a b', 'a, b', '-', 'ﬁ', '\uffee', '😀', 'member 17'],
]
const keyNumbers = [
  ...['1', '01', '+1', '2', '10', '9', '-1', '-0', '0', '9007199254740991'],
  ...['-9007199254740991', '9007199254740992', '1.0', '+1.00', '-0.0'],
  ...['1.5', '1e3', '١', '100000000', '0000000000000000000000000007', '7'],
]

const keyCell = ({ field_type: type }: MadeField, random: Random): string =>
  random.chance(0.5)
    ? `${type === 'text' ? 'member ' : ''}${random.between(1, 200)}`
    : random.oneOf(type === 'text' ? keyTexts : keyNumbers)

const statusNames = [
  ...subscriberStatuses,
  ...subscriberStatuses,
  ...[
    ...['subscribed', 'confirmed', 'opted in', 'Opt-In'],
    ...['opted_out', 'opt  out', 'not subscribed', 'non-subscribed'],
  ],
  ...['NEVER_SUBSCRIBED', 'suppressed', 'cleaned', 'hard bounce', 'Hard Bounced', 'spam', 'spam-complaint'],
  ...['complained', 'inactive', 'disabled', 'archived'],
]

function builtInCell(column: string, order: DateOrder, random: Random): string {
  switch (column) {
    case 'email':
      return madeEmail(random)
    case 'status':
      return !random.slip(0.05)
        ? cased(random.chance(0.2) ? 'active' : random.oneOf(statusNames), random)
        : random.oneOf(['actve', 'ſcomp', 'active,', 'optin', 'unconfirmed', 'bounce', 'opt-ed in'])
    case 'consent':
      return random.chance(0.7)
        ? booleanCell(random)
        : cased(random.oneOf(['subscribed', 'not subscribed', 'Not-Subscribed', 'active', 'opt in']), random)
    case 'email_format':
      return !random.slip(0.05) ? cased(random.oneOf(emailFormats), random) : random.oneOf(['plain', 'html '])
    case 'subscribe_ip':
    case 'remove_ip':
      return !random.slip(0.08) ? random.oneOf(ips) : random.oneOf(oddIps)
    case 'confirmed':
      return booleanCell(random)
    default:
      return madeDate(random, order, true)
  }
}

const ips = [
  ...['1.2.3.4', '255.255.255.255', '0.0.0.0', '::', '::1', '2001:DB8::1'],
  ...['2001:db8:0:0:1:0:0:1', '::ffff:1.2.3.4', '1:2:3:4:5:6:7:8', 'fe80::1', '1:0:0:2:0:0:0:3'],
  ...['1::2:3:4:5:6:7', '64:ff9b::192.0.2.33', '2001:db8:0:1:1:1:1:1', '1:2:3:4:5:6:1.2.3.4'],
]
const oddIps = [
  ...['1.2.3', '1.2.3.4.5', '01.2.3.4', '256.1.1.1', '1.2.3.4/24', '[::1]', ':::'],
  ...['1::2::3', 'fe80::1%eth0', '12345::', '1:2:3:4:5:6:7', '1:2:3:4:5:6:7:8:9'],
  ...['::1.2.3.04', '0x1.2.3.4', '1', '::g', '1:2:3:4:5:6:7::8', '1.2.3.4:80', ':1', '1:'],
]

function cased(text: string, random: Random): string {
  return random.chance(0.7)
    ? text
    : random.chance(0.5)
      ? text.toUpperCase()
      : text.charAt(0).toUpperCase() + text.slice(1)
}

function booleanCell(random: Random): string {
  if (random.slip(0.05))
    return random.oneOf([
      ...['2', 'jaa', 'tru', '-1', 'yes no', '00', 'constructor'],
      ...['j', 'sí ', 's', 'nao', 'д', 'нет.', 'oui!'],
    ])
  return cased(
    random.oneOf([
      ...['1', '0', 'true', 'false', 't', 'f', 'yes', 'no', 'y', 'n', 'on', 'off'],
      ...[
        ...['ja', 'nein', 'oui', 'non', 'si', 'sí', 'si\u0301'],
        ...['sim', 'não', 'na\u0303o', 'da', 'ne', 'да', 'нет'],
      ],
    ]),
    random,
  )
}

function fieldCell(field: MadeField, list: MadeList, order: DateOrder, random: Random): string {
  if (field.name === list.primaryKey) return random.chance(0.03) ? '' : keyCell(field, random)
  switch (field.field_type) {
    case 'text':
    case 'text_multiline':
      return textCell(field, random)
    case 'number':
      return numberCell(field, random)
    case 'date':
      return madeDate(random, order, false)
    case 'day_of_year':
      return random.chance(0.5) ? madeDayOfYear(random, order) : madeDate(random, order, false)
    case 'select_single_dropdown':
    case 'select_single_radio':
      return !random.slip(0.06)
        ? cased(random.oneOf(field.options), random)
        : random.oneOf(['none of them', 'Fre', 'STRASSE', 'οδοσ', 'i̇zmir', 'ete\u0301', '\u212a'])
    case 'select_multiple_checkboxes':
      return checkboxesCell(field, random)
    case 'boolean':
      return booleanCell(random)
  }
}

const texts = [
  ...['Ann', "O'Neil", '12" pipe', '"quoted"', 'a, b', 'a;b', 'two\nlines', 'two\r\nlines'],
  ...['cr\rhere', '=1+1', '日本語', '😀😀😀', 'e\u0301e\u0301e\u0301', 'x', 'ab', 'abc'],
  ...['tab\there', '""', "''", 'ends with "', '\u2028x', 'null', '{$x}', 'ÿ', '\u0080x'],
]

function textCell(field: MadeField, random: Random): string {
  if (field.maximum_length !== null && random.chance(0.5))
    return random
      .oneOf(['x', '😀', 'é'])
      .repeat(
        random.between(
          Math.max(1, field.maximum_length - 2),
          field.maximum_length + (random.slip(0.15) ? 1 : 0),
        ),
      )
  if (field.maximum_length === null && random.chance(0.003))
    return random.oneOf(['x', '😀', 'ü']).repeat(random.oneOf([65_535, 65_536]))
  return toLength(random.oneOf(texts), field, random)
}

/** Cuts or pads the text to the field's bounds, except for slips. */
function toLength(text: string, field: MadeField, random: Random): string {
  if (random.slip(0.1)) return text
  const characters = Array.from(text.padEnd(field.minimum_length ?? 0, 'z'))
  return characters.slice(0, field.maximum_length ?? undefined).join('')
}

function numberCell(field: MadeField, random: Random): string {
  if (random.slip(0.06))
    return random.oneOf([
      ...['5.5', '5.', '.0', '5,0', '5.0.0', '9007199254740992.0', '1e3'],
      ...['9007199254740992', '- 1', '1,000', '٣', '0x10', '−5', '+', '1_0', 'NaN'],
    ])
  if (random.chance(0.2))
    return random.oneOf([
      ...['007', '+7', '-0', '0', '9007199254740991', '-9007199254740991', '5.0'],
      ...['12.00', '-3.000', '+7.0', '-0.0', '9007199254740991.0'],
      ...['000000000000000000000000000001', '2147483648', '-2147483649', '4294967296'],
    ])
  return String(
    random.between(
      (field.minimum_value ?? -10) - (random.slip(0.08) ? 1 : 0),
      (field.maximum_value ?? 10) + (random.slip(0.08) ? 1 : 0),
    ),
  )
}

function checkboxesCell(field: MadeField, random: Random): string {
  if (random.slip(0.1))
    return random.oneOf([
      ...['|', ',', ' , | ', 'none', 'A,B,C', 'A, B, C', 'a,b|c', '1,0,1', '1,0', '1, 0', 'Ja'],
      ...['Ja|Nein|yes', 'A , B', 'A,  B', 'A;B;A', '"A"; "none"', '"A;B"', '""', ' " " ;', '"A', 'A"'],
      ...['"A"B', '"A"";"B"', '"A, B";"B"', '"say ""x"""', '"say "x""', '"5"""', '"5""', '"""B"""'],
    ])
  const parts = Array.from({ length: random.between(1, 4) }, () => cased(random.oneOf(field.options), random))
  const blanked = (part: string) => (random.chance(0.15) ? ` ${part} ` : part)
  return parts
    .map((part) => (random.chance(0.2) ? `"${blanked(part.replaceAll('"', '""'))}"` : part))
    .map(blanked)
    .join(random.oneOf(['|', ',', ', ', ' | ', '||', ',|', ';', '; ', ';"";']))
}

/** A value for a stored subscriber, now and then none. */
export const storedValue = (field: MadeField, random: Random) =>
  random.chance(0.2) ? null : canonicalValue(field, random)

/** Identities of stored subscribers, as cells. */
export function storedKeys(list: MadeList, random: Random): { email: string; key: string | null }[] {
  const keyField = list.fields.find(({ name }) => name === list.primaryKey)
  const count = random.between(0, 45)
  return Array.from({ length: count }, () => ({
    email: random.chance(0.5) ? `user${random.between(1, 200)}@x.co` : random.oneOf(random.oneOf(emails)),
    key: keyField === undefined ? null : keyCell(keyField, random),
  }))
}
