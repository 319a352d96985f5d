import t from 'tap'
import { proposeColumns } from '../../../../../control-plane/resources/import-inspection/column-proposals.ts'
import { detectHeader } from '../../../../../control-plane/resources/import-inspection/header.ts'
import { detectDialect, firstRecords } from '../../../../../shared/csv/dialect.ts'
import { fieldTypes, type CustomFieldDocument } from '../../../../../shared/contract/schemas/custom-field.ts'
import type { MailingListDocument } from '../../../../../shared/contract/schemas/mailing-list.ts'

const list = {
  _id: 1,
  organization_id: 1,
  name: 'News',
  has_format: true,
  has_confirmed: true,
  is_remote_list: false,
  primary_key_custom_field_id: null,
} as unknown as MailingListDocument

function field(name: string, type: (typeof fieldTypes)[number] = 'text', options: string[] = []) {
  return {
    _id: name.length * 1_000 + name.charCodeAt(0),
    mailing_list_id: 1,
    name,
    name_key: name.toLowerCase(),
    field_type: type,
    required: false,
    options,
    default: null,
    minimum_length: null,
    maximum_length: null,
    minimum_value: null,
    maximum_value: null,
    created_at: new Date(),
  } as CustomFieldDocument
}

const fields = [
  field('First name'),
  field('Last Name'),
  field('Plan', 'select_single_dropdown', ['Free', 'Gold']),
  field('Birthday', 'date'),
  field('Age', 'number'),
]

/** Inspects a file's text. */
function inspect(text: string) {
  const sample = { bytes: Buffer.from(text), isWhole: true }
  const dialect = detectDialect(sample, { separator: undefined, enclosure: undefined, escape: undefined })
  const { cells } = firstRecords(sample, dialect)
  const hasHeader = detectHeader(
    cells,
    fields.map(({ name }) => name),
  )
  const records = hasHeader ? cells.slice(1) : cells
  const columns = cells[0]!.map((cell, i) => ({
    header: hasHeader ? cell.trim() : null,
    values: records.map((record) => (record[i] ?? '').trim()).filter((value) => value !== ''),
  }))
  const { proposals, dateFormat } = proposeColumns(columns, { list, fields })
  return {
    ...dialect,
    hasHeader,
    dateFormat,
    mapping: proposals.map(({ proposed }) => proposed),
    confidences: proposals.map(({ confidence }) => confidence),
  }
}

const people = ['ann@example.com', 'bob@example.com', 'eve@example.com']
const table = (header: string[], separator: string, row: (email: string) => string[]) =>
  [header, ...people.map(row)].map((cells) => cells.join(separator)).join('\n')

t.test('the separator is detected with a given enclosure that encloses no cell', (t) => {
  for (const separator of [',', ';', '\t', '|'] as const) {
    const text = `email${separator}name\nann@example.com${separator}Ann\n`
    const sample = { bytes: Buffer.from(text), isWhole: true }
    t.same(detectDialect(sample, { separator: undefined, enclosure: "'", escape: null }), {
      separator,
      enclosure: "'",
      escape: null,
    })
  }
  t.end()
})

t.test('separators and enclosures are told by what they make of the file', (t) => {
  for (const separator of [',', ';', '\t', '|']) {
    const text = table(['Email', 'First name'], separator, (email) => [email, 'Ann'])
    t.match(inspect(text), { separator, enclosure: '"', hasHeader: true, mapping: ['email', 'First name'] })
  }
  const files: [text: string, expected: object][] = [
    [table(['"Email"', '"Last Name"'], ',', (email) => [`"${email}"`, '"Doe, J; Dr"']), { separator: ',' }],
    [
      table(["'Email'", "'Last Name'"], ';', (email) => [`'${email}'`, "'a;b'"]),
      { separator: ';', enclosure: "'" },
    ],
    [table(['Email', 'Street'], ';', (email) => [email, 'Main St 5, rear, left']), { separator: ';' }],
    [table(['Street', 'Email'], ';', (email) => ['Main St 5, rear', email]), { separator: ';' }],
    [table(['Email', 'Tags'], ',', (email) => [email, 'a|b|c']), { separator: ',' }],
    [people.join('\n'), { separator: ',', hasHeader: false, mapping: ['email'] }],
    ['email;First name', { separator: ';', hasHeader: true }],
    [table(['Email', 'Last Name'], ',', (email) => [email, "O'Hara"]), { enclosure: '"' }],
    [`sep\r${people.join('\r')}`, { separator: ',', hasHeader: true }],
  ]
  t.match(
    files.map(([text]) => [JSON.stringify(text.slice(0, 60)), inspect(text)]),
    files.map(([text, expected]) => [JSON.stringify(text.slice(0, 60)), expected]),
  )
  t.end()
})

t.test('an email column is found under any name', (t) => {
  const headers = [
    'EMAIL',
    'E-Mail',
    'email address',
    'Email_Address',
    ' e-mail ',
    'Correo electrónico',
    'Courriel',
  ]
  const others = [
    'E-Mail-Adresse',
    'E-postadress',
    'Adres e-mail',
    'メールアドレス',
    '邮箱',
    'Primary e-mail (work)',
  ]
  for (const header of [...headers, ...others]) {
    const { mapping, confidences } = inspect(table(['Nr.', header], ';', (email) => ['17', email]))
    t.same(mapping, [null, 'email'], header)
    t.ok(confidences[1]! > 0.6 && confidences[1]! <= 1, header)
  }
  t.same(inspect(table(['a', 'b'], ',', (email) => ['x', email])).mapping, [null, 'email'], 'by its values')
  t.same(
    inspect(table(['Email status', 'Email'], ',', (email) => ['ok', email])).mapping,
    [null, 'email'],
    'not one that only speaks of emails',
  )
  t.end()
})

t.test('fields are found in any case, by what else they are called, and by what is in them', (t) => {
  const row = (email: string) => [email, 'Ann', 'Doe', 'gold', '31.12.1999', '31', 'active', '10.0.0.1']
  const header = ['Mail', 'VORNAME', 'last_name', 'plan', 'Geburtstag', 'AGE', 'Status', 'IP address']
  const found = inspect(table(header, ';', row))
  t.same(found.mapping, [
    ...['email', 'First name', 'Last Name', 'Plan', 'Birthday', 'Age', 'status', 'subscribe_ip'],
  ])
  t.ok(found.confidences[1]! < found.confidences[2]!, 'a synonym is less sure than the name itself')

  const wrong = inspect(table(['Email', 'Age', 'Plan'], ',', (email) => [email, 'old', 'Platinum']))
  t.same(wrong.mapping, ['email', null, null], 'a name is not enough where the values are none')
  const twice = inspect(table(['Email', 'First name', 'fname'], ',', (email) => [email, 'Ann', 'Ann']))
  t.same(twice.mapping, ['email', 'First name', null], 'nothing is proposed twice')
  t.end()
})

t.test('the order of dates is told by those that can only be read in one', (t) => {
  const born = (...dates: string[]) =>
    inspect(['Email,Birthday', ...dates.map((date, i) => `a${i}@example.com,${date}`)].join('\n')).dateFormat
  t.equal(born('01/02/1990', '31/12/1999'), 'dmy')
  t.equal(born('01/02/1990', '12/31/1999'), 'mdy')
  t.equal(born('01/02/1990', '03/04/1999'), null)
  t.equal(born('1990-02-01'), null)
  t.end()
})

t.test('a first line that is data is no header', (t) => {
  t.equal(inspect('ann@example.com,Ann\nbob@example.com,Bob').hasHeader, false)
  t.equal(inspect('ann(at)example.com,Ann\nbob@example.com,Bob').hasHeader, true)
  t.equal(inspect('ann@example,Ann\nbob@example.com,Bob\neve@example.com,Eve').hasHeader, false)
  t.equal(inspect('Adresse,Wer\nbob@example.com,Bob').hasHeader, true)
  t.equal(inspect('1,2\n3,4').hasHeader, false)
  t.end()
})
