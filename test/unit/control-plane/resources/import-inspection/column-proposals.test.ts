import t from 'tap'
import { proposeColumns } from '../../../../../control-plane/resources/import-inspection/column-proposals.ts'
import type { CustomFieldDocument, fieldTypes } from '../../../../../shared/contract/schemas/custom-field.ts'
import type { MailingListDocument } from '../../../../../shared/contract/schemas/mailing-list.ts'

const list = { has_format: true, has_confirmed: true } as unknown as MailingListDocument

const field = (name: string, field_type: (typeof fieldTypes)[number] = 'text') =>
  ({
    name,
    field_type,
    name_key: name.toLowerCase(),
    ...{ required: false, options: [], default: null },
    ...{ minimum_length: null, maximum_length: null, minimum_value: null, maximum_value: null },
  }) as unknown as CustomFieldDocument

const fields = ['First name', 'Last name', 'Phone', 'Company', 'City', 'Zip', 'Country', 'Notes'].map(
  (name) => field(name),
)

/** The proposals for a header and records; a header of null is none. */
function propose(header: string[] | null, records: string[][], customFields = fields) {
  const width = Math.max(header?.length ?? 0, ...records.map(({ length }) => length))
  const columns = Array.from({ length: width }, (_, i) => ({
    header: header === null ? null : header[i]!,
    values: records.map((record) => record[i]!).filter((cell) => cell !== ''),
  }))
  const { proposals, warnings } = proposeColumns(columns, { list, fields: customFields })
  return { mapping: proposals.map(({ proposed }) => proposed), warnings }
}
const mapped = (header: string[] | null, records: string[][], customFields = fields) =>
  propose(header, records, customFields).mapping

const emailHeaders = {
  en: ['Email', 'E-mail', 'Email Address', 'EMAIL_ADDRESS', 'Primary e-mail (work)', 'contactEmail'],
  de: ['E-Mail', 'E-Mail-Adresse', 'Mailadresse', 'eMail-Adresse (privat)'],
  fr: ['Courriel', 'Adresse e-mail', 'Adresse électronique', 'Adresse de courriel'],
  es: ['Correo', 'Correo electrónico', 'Dirección de correo electrónico'],
  it: ['Posta elettronica', 'Indirizzo e-mail', 'Indirizzo di posta elettronica'],
  pt: ['Endereço de e-mail', 'Correio eletrónico', 'E-mail do cliente'],
  nl: ['E-mailadres', 'Mailadres', 'E-mail'],
  pl: ['Adres e-mail', 'Adres poczty elektronicznej', 'Poczta elektroniczna'],
  cs: ['E-mailová adresa', 'E-mail', 'Mail'],
  sv: ['E-post', 'E-postadress', 'Mejladress'],
  da: ['E-mailadresse', 'Mail', 'E-post'],
  no: ['E-post', 'E-postadresse', 'Epost'],
  fi: ['Sähköposti', 'Sähköpostiosoite', 'S-posti'],
  tr: ['E-posta', 'E-posta adresi'],
  ru: ['Почта', 'Электронная почта', 'Адрес электронной почты', 'Эл. почта', 'Имейл'],
  uk: ['Пошта', 'Електронна пошта', 'Адреса електронної пошти', 'Імейл'],
  ja: ['メール', 'メールアドレス', 'Ｅメール', '電子メール'],
  zh: ['邮箱', '电子邮件', '电子邮箱地址', '電子郵件', '電郵'],
  vi: ['Thư điện tử', 'Email'],
  ko: ['이메일', '이메일 주소', '전자우편', '메일'],
  others: [
    'E-pošta',
    'Adresă de email',
    'E-mail cím',
    'Ηλεκτρονικό ταχυδρομείο',
    'البريد الإلكتروني',
    'דוא"ל',
  ],
}

t.test('the header for email is understood in usual languages, beside more addresses too', (t) => {
  const records = [
    ['a@example.com', 'x@example.net'],
    ['b@example.com', ''],
    ['c@example.com', 'z@example.net'],
  ]
  const missed = Object.entries(emailHeaders).flatMap(([language, headers]) =>
    headers
      .filter((header) => mapped(['Vertreter', header], records)[1] !== 'email')
      .map((header) => `${language}: ${header}`),
  )
  t.same(missed, [])
  t.end()
})

t.test('headers with letters that have no accent to leave out are understood', (t) => {
  const named = ['Street', 'Birthday', 'Gender', 'Last name'].map((name) => field(name))
  t.same(
    mapped(['Straße', 'Fødselsdag', 'Płeć', 'Soyadı', 'Bekræftet'], [['a', 'b', 'c', 'd', 'yes']], named),
    ['Street', 'Birthday', 'Gender', 'Last name', 'confirmed'],
  )
  t.end()
})

t.test('exactly one column becomes the email', (t) => {
  const addresses = (...cells: string[]) => cells.map((cell) => cell.split(' '))
  t.same(
    mapped(['Who', 'Owner'], addresses('a@b.co -', 'c@d.co e@f.co', '- g@h.co', '- i@j.co')),
    [null, 'email'],
    'without a header that says so, the one with most addresses',
  )
  t.same(
    mapped(['Who', 'Owner'], addresses('a@b.co c@d.co', 'e@f.co g@h.co')),
    ['email', null],
    'the first of two with equally many',
  )
  t.same(mapped(null, addresses('Ann a@b.co x@y.zz', 'Bob c@d.co -')), [null, 'email', null])
  t.same(
    mapped(['Email opt-in', 'Contact'], addresses('yes a@b.co', 'no c@d.co')),
    ['consent', 'email'],
    'a header that says so counts only where addresses are below it',
  )
  t.same(
    mapped(['Login', 'Email'], addresses('a@b.co -', 'c@d.co -', 'e@f.co g@h.co')),
    [null, 'email'],
    'one address is enough below a header that says so',
  )
  t.same(
    mapped(['Secondary email', 'Email'], addresses('a@b.co c@d.co', 'e@f.co -')),
    [null, 'email'],
    'the name itself comes before names that hold it',
  )
  t.same(mapped(['Name', 'E-Mail'], []), [null, 'email'], 'a header without records')
  t.same(
    mapped(['Name', 'E-Mail'], addresses('a@b ann(at)b.co')),
    [null, 'email'],
    'a header above no valid address',
  )
  t.same(mapped(['Name', 'Contact'], addresses('Ann a@b')), [null, 'email'], 'at least an @')
  t.same(mapped(['Name', 'City'], addresses('Ann Rome'), []), [null, null], 'nothing that looks like one')
  t.same(
    mapped(['E-mail address', 'Email'], addresses('a@b.co c@d.co'), [field('E-mail address')]),
    ['E-mail address', 'email'],
    'a custom field gets the other address',
  )
  t.same(mapped(['E-mail address'], addresses('a@b.co'), [field('E-mail address')]), ['email'])
  t.end()
})

const exports: Record<string, { header: string; record: string; mapping: (string | null)[] }> = {
  Mailchimp: {
    header:
      'Email Address,First Name,Last Name,Phone Number,MEMBER_RATING,OPTIN_TIME,OPTIN_IP,CONFIRM_TIME,NOTES',
    record: 'a@b.co,Ann,Doe,+49 1,2,2024-01-31 10:00:00,10.0.0.1,2024-01-31 10:05:00,vip',
    mapping: [
      ...['email', 'First name', 'Last name', 'Phone', null],
      ...['subscribe_time', 'subscribe_ip', 'confirm_time', 'Notes'],
    ],
  },
  HubSpot: {
    header:
      'Record ID,First Name,Last Name,Email,Phone Number,Contact owner,Create Date,Company name,Postal Code',
    record: '101,Ann,Doe,a@b.co,+49 1,boss@example.com,2024-01-31 10:00,Acme,10115',
    mapping: [null, 'First name', 'Last name', 'email', 'Phone', null, 'subscribe_time', 'Company', 'Zip'],
  },
  Shopify: {
    header:
      'First Name,Last Name,Email,Accepts Email Marketing,Default Address Company,Default Address City,Default Address Zip,Phone,Note',
    record: "Ann,Doe,a@b.co,yes,Acme,Berlin,'10115,+49 1,vip",
    mapping: ['First name', 'Last name', 'email', 'consent', 'Company', 'City', 'Zip', 'Phone', 'Notes'],
  },
  Salesforce: {
    header:
      'FirstName,LastName,AccountName,MailingCity,MailingPostalCode,MailingCountry,Email,HasOptedOutOfEmail,CreatedDate',
    record: 'Ann,Doe,Acme,Berlin,10115,Germany,a@b.co,0,2024-01-31T10:00:00Z',
    mapping: [
      ...['First name', 'Last name', 'Company', 'City', 'Zip', 'Country'],
      ...['email', null, 'subscribe_time'],
    ],
  },
  'Mailchimp, who left': {
    header: 'Email Address,MEMBER_RATING,OPTIN_TIME,UNSUB_TIME,UNSUB_CAMPAIGN_TITLE,UNSUB_REASON',
    record: 'a@b.co,2,2023-01-31 10:00:00,2024-01-31 10:00:00,June,NORMAL',
    mapping: ['email', null, 'subscribe_time', 'remove_time', null, null],
  },
  Klaviyo: {
    header: 'Email,First Name,Email Marketing Consent,Email Marketing Consent Timestamp,Email Suppressions',
    record: 'a@b.co,Ann,NEVER_SUBSCRIBED,,USER_SUPPRESSED',
    mapping: ['email', 'First name', 'status', null, null],
  },
  ActiveCampaign: {
    header: 'Email,First Name,Date Created,IP Address,Status,Tags',
    record: 'a@b.co,Ann,2024-01-31 10:00:00,192.0.2.1,Unsubscribed,vip',
    mapping: ['email', 'First name', 'subscribe_time', 'subscribe_ip', 'status', null],
  },
  MailerLite: {
    header: 'Subscriber,Status,Sent,Opens,Subscribed,Unsubscribed',
    record: 'a@b.co,Unsubscribed,5,1,2023-01-31 10:00:00,2024-01-31 10:00:00',
    mapping: ['email', 'status', null, null, 'subscribe_time', 'remove_time'],
  },
  Ghost: {
    header: 'id,email,name,note,subscribed_to_emails,complimentary_plan,created_at',
    record: '63c,a@b.co,Ann,vip,false,false,2024-01-31T10:00:00.000Z',
    mapping: [null, 'email', null, 'Notes', 'consent', null, 'subscribe_time'],
  },
  Substack: {
    header: 'email,active_subscription,expiry,plan,email_disabled,created_at',
    record: 'a@b.co,false,,other,true,2024-01-31T10:00:00.000Z',
    mapping: ['email', null, null, null, null, 'subscribe_time'],
  },
  'HubSpot, who left': {
    header: 'Email,Unsubscribed from all email,Marketing contact status',
    record: 'a@b.co,Yes,Marketing contact',
    mapping: ['email', null, null],
  },
  'Google Contacts': {
    header:
      'Given Name,Family Name,Organization 1 - Name,E-mail 1 - Type,E-mail 1 - Value,E-mail 2 - Value,Phone 1 - Value,Address 1 - City,Address 1 - Country,Notes',
    record: 'Ann,Doe,Acme,* Home,a@b.co,,+49 1,Berlin,Germany,vip',
    mapping: [
      ...['First name', 'Last name', 'Company', null, 'email', null],
      ...['Phone', 'City', 'Country', 'Notes'],
    ],
  },
}

t.test('typical exports of other services are understood', (t) => {
  const found = Object.entries(exports).map(([service, { header, record }]) => [
    service,
    mapped(header.split(','), [record.split(',')]),
  ])
  t.same(
    found,
    Object.entries(exports).map(([service, { mapping }]) => [service, mapping]),
  )
  t.end()
})

t.test('a column of who gets mail is proposed by its cells as status or consent, never twice', (t) => {
  const below = (header: string, ...cells: string[]) =>
    mapped(
      ['Email', header],
      cells.map((cell) => ['a@b.co', cell]),
    )[1]
  for (const header of ['Status', 'Newsletter', 'Opt-in', 'Einwilligung', 'Abonné', 'Согласие'])
    t.same(
      [below(header, 'yes', 'no'), below(header, 'subscribed', 'cleaned'), below(header, 'gold', 'silver')],
      ['consent', 'status', null],
      header,
    )
  t.equal(below('Subscribed', 'yes', 'no'), 'consent')
  t.equal(below('Subscribed', '2024-01-31', '2023-01-31'), 'subscribe_time')
  t.equal(below('Email Opt Out', 'true', 'false'), null, 'yes means no there')
  t.same(mapped(['Email', 'Status', 'Newsletter'], [['a@b.co', 'active', 'yes']]), ['email', 'status', null])
  t.same(
    mapped(['Email', 'Newsletter'], [['a@b.co', 'yes']], [field('Consent', 'boolean')]),
    ['email', null],
    'where a custom field has the name, the built-in column has none',
  )
  t.end()
})

t.test('a custom field is found by its name: without case, with _ and - as blanks', (t) => {
  const own = [field('Favourite colour'), field('favouritecolour'), field('shoe-size', 'number')]
  for (const header of ['favourite_colour', ' FAVOURITE  colour ', 'Favourite-Colour'])
    t.same(mapped(['Email', header], [['a@b.co', 'red']], own), ['email', 'Favourite colour'], header)
  t.same(mapped(['Email', 'FavouriteColour'], [['a@b.co', 'red']], own), ['email', 'favouritecolour'])
  const good = propose(['Email', 'Shoe size'], [['a@b.co', '42']], own)
  t.same(good, { mapping: ['email', 'shoe-size'], warnings: [] })
  const unfit = propose(
    ['Email', 'Shoe_Size'],
    [
      ['a@b.co', 'M'],
      ['c@d.co', 'XL'],
    ],
    own,
  )
  t.same(unfit.mapping, ['email', null])
  t.same(unfit.warnings, [
    'column 2 has the name of the custom field "shoe-size", and is not proposed for it: 2 of its first 2 values are not an integer; give a column_mapping to import it anyway',
  ])
  t.end()
})
