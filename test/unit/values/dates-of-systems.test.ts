import t from 'tap'
import { isNoDate, parseDateTime, toInstant, type DateOrder } from '../../../shared/values/date-time.ts'
import { isNoDate as isNoDateInModel, readMoment } from '../../model/dates.ts'

/**
 * What systems write for 5 November 2026, 14:15:00 UTC (15:15 in Berlin) or that day, with their defaults, and what it
 * comes to where the organization's zone is UTC. `fails`: the contract doesn't read it, because it has a year of two
 * digits, a zone's name or numbers alone, or its own form. `none`: a mark for no date. What Postgres, SQLite, Python,
 * Perl, PHP, Java, Go, Node.js and coreutils write was written by them; the others are as documentation and reports of
 * users have them, and weren't run.
 */
const at = '2026-11-05T14:15:00.000Z'
const day = '2026-11-05T00:00:00.000Z'
const berlin = '2026-11-05T15:15:00.000Z'
const fails = 'fails'
const none = 'none'

const written: [system: string, text: string, expected: string, order?: DateOrder][] = [
  // timestamptz and timestamp, also in COPY; trailing zeros of the fraction are dropped.
  ['Postgres', '2026-11-05 14:15:00+00', at],
  ['Postgres', '2026-11-05 15:15:00.12+01', at],
  ['Postgres', '2026-11-05 10:45:00-03:30', at],
  ['Postgres', '2026-11-05 20:00:00+05:45', at],
  ['Postgres', '2026-11-05 14:15:00', at],
  ['Postgres', '2026-11-05', day],
  ['Postgres, COPY', '\\N', none],
  ['Postgres', 'infinity', fails],
  ['Postgres, before Christ', '0044-03-15 12:00:00+00 BC', fails],
  ['Postgres, five digits of the year', '12026-11-05', fails],
  ['Postgres, before 1883', '1850-11-05 14:15:00+00:53:28', fails],
  ['Postgres, DateStyle SQL', '11/05/2026 14:15:00 UTC', fails],
  ['Postgres, DateStyle SQL', '11/05/2026 14:15:00', at],
  ['Postgres, DateStyle SQL', '11/05/2026 15:15:00 CET', fails],
  ['Postgres, DateStyle SQL, DMY', '05/11/2026 14:15:00', at, 'dmy'],
  ['Postgres, DateStyle German', '05.11.2026 14:15:00', at],
  ['Postgres, DateStyle German', '05.11.2026 14:15:00 UTC', fails],
  ['Postgres, DateStyle Postgres', '11-05-2026', day],
  ['Postgres, DateStyle Postgres', 'Thu Nov 05 14:15:00 2026', fails],
  ['Postgres, DateStyle Postgres', 'Thu Nov 05 14:15:00 2026 UTC', fails],
  ['Postgres, JSON', '2026-11-05T14:15:00+00:00', at],
  ['MySQL', '2026-11-05 14:15:00', at],
  ['MySQL', '2026-11-05 14:15:00.000000', at],
  ['MySQL', '0000-00-00', none],
  ['MySQL', '0000-00-00 00:00:00', none],
  ['MySQL', 'NULL', none],
  ['MySQL, SELECT INTO OUTFILE', '\\N', none],
  ['MySQL, an incomplete date', '2026-11-00', fails],
  ['Oracle, NLS_DATE_FORMAT', '05-NOV-26', fails],
  ['Oracle, NLS_TIMESTAMP_FORMAT', '05-NOV-26 02.15.00.000000 PM', fails],
  ['Oracle, four digits of the year', '05-NOV-2026', day],
  ['Oracle, NLS_DATE_FORMAT in Germany', '05.11.26', fails],
  ['Oracle, NLS_TIMESTAMP_FORMAT in Germany', '05.11.26 14:15:00,000000', fails],
  ['Oracle, DD.MM.YYYY HH24:MI:SS', '05.11.2026 14:15:00', at],
  ['SQL Server, datetime', '2026-11-05 14:15:00.000', at],
  ['SQL Server, datetime2', '2026-11-05 14:15:00.0000000', at],
  ['SQL Server, datetimeoffset', '2026-11-05 15:15:00.0000000 +01:00', at],
  ['SQL Server, CAST to varchar', 'Nov  5 2026  2:15PM', at],
  ['SQL Server, date', '2026-11-05', day],
  ['SQL Server', 'NULL', none],
  ['SQLite', '2026-11-05 14:15:00', at],
  ['SQLite, seconds since 1970', '1793888100', fails],
  ['SQLite, a Julian day', '2461350.09375', fails],
  ['Snowflake', '2026-11-05 14:15:00.000 +0000', at],
  ['Trino and Athena', '2026-11-05 14:15:00.000 UTC', at],
  ['Cassandra', '2026-11-05 14:15:00.000000+0000', at],
  ['BigQuery, TIMESTAMP', '2026-11-05 14:15:00 UTC', at],
  ['BigQuery, TIMESTAMP', '2026-11-05 14:15:00.123456 UTC', at],
  ['BigQuery, TIMESTAMP in JSON', '2026-11-05T14:15:00Z', at],
  ['BigQuery, DATETIME', '2026-11-05T14:15:00', at],
  ['Rails, to_s', '2026-11-05 14:15:00 UTC', at],
  ['Rails, to_s with a zone', '2026-11-05 15:15:00 +0100', at],
  ['Rails, to_json', '2026-11-05T14:15:00.000Z', at],
  ['Rails, to_fs(:long)', 'November 05, 2026 14:15', at],
  ['Rails, to_fs(:rfc822)', 'Thu, 05 Nov 2026 14:15:00 +0000', at],
  ['Rails, to_fs(:short)', '05 Nov 14:15', fails],
  ['Rails, inspect', 'Thu, 05 Nov 2026 14:15:00.000000000 UTC +00:00', fails],
  ['Python, ctime', 'Thu Nov  5 14:15:00 2026', fails],
  ['Python, email.utils', 'Thu, 05 Nov 2026 14:15:00 +0000', at],
  ['Python, str in Berlin', '2026-11-05 15:15:00+01:00', at],
  ['PHP, ATOM', '2026-11-05T14:15:00+00:00', at],
  ['PHP, COOKIE', 'Thursday, 05-Nov-2026 14:15:00 GMT+0000', at],
  ['PHP, RFC850', 'Thursday, 05-Nov-26 14:15:00 GMT+0000', fails],
  ['PHP, RFC3339_EXTENDED', '2026-11-05T14:15:00.000+00:00', at],
  ['Go, String', '2026-11-05 14:15:00 +0000 UTC', fails],
  ['Go, UnixDate', 'Thu Nov  5 14:15:00 UTC 2026', fails],
  ['Go, RFC1123', 'Thu, 05 Nov 2026 14:15:00 UTC', at],
  ['coreutils, date --rfc-3339=ns', '2026-11-05 14:15:00.000000000+00:00', at],
  ['git log', 'Thu Nov 5 14:15:00 2026 +0000', fails],
  ['git log, ISO', '2026-11-05 14:15:00 +0000', at],
  ['.NET en-US', '11/5/2026 2:15:00 PM', at],
  ['.NET en-US, DateTimeOffset', '11/5/2026 2:15:00 PM +00:00', fails],
  ['.NET, round trip', '2026-11-05T14:15:00.0000000Z', at],
  ['.NET, universal', '2026-11-05 14:15:00Z', at],
  ['Django, str', '2026-11-05 14:15:00+00:00', at],
  ['Django, isoformat', '2026-11-05T14:15:00.000123+00:00', at],
  ['Django, template', 'Nov. 5, 2026, 2:15 p.m.', fails],
  ['Django, May in a template', 'May 5, 2026', '2026-05-05T00:00:00.000Z'],
  ['JavaScript, toISOString', '2026-11-05T14:15:00.000Z', at],
  ['JavaScript, toString', 'Thu Nov 05 2026 15:15:00 GMT+0100 (Central European Standard Time)', at],
  ['JavaScript, toUTCString', 'Thu, 05 Nov 2026 14:15:00 GMT', at],
  ['JavaScript, toDateString', 'Thu Nov 05 2026', day],
  ['JavaScript, toLocaleString en-US', '11/5/2026, 2:15:00\u202fPM', at],
  ['JavaScript, toLocaleString en-US before 2022', '11/5/2026, 2:15:00 PM', at],
  ['JavaScript, toLocaleString en-GB', '05/11/2026, 14:15:00', at, 'dmy'],
  ['JavaScript, toLocaleString de-DE', '5.11.2026, 14:15:00', at],
  ['JavaScript, toLocaleString en-AU', '05/11/2026, 2:15:00 pm', at, 'dmy'],
  ['JavaScript, toLocaleString en-CA', '2026-11-05, 2:15:00 p.m.', fails],
  ['JavaScript, toLocaleString fr-FR', '05/11/2026 14:15:00', at, 'dmy'],
  ['JavaScript, toLocaleString nl-NL', '5-11-2026, 14:15:00', at, 'dmy'],
  ['JavaScript, toLocaleString sv-SE', '2026-11-05 14:15:00', at],
  ['JavaScript, toLocaleString ja-JP', '2026/11/5 14:15:00', at],
  ['JavaScript, toLocaleString cs-CZ', '5. 11. 2026 14:15:00', fails],
  ['JavaScript, toLocaleString da-DK', '5.11.2026, 14.15.00', fails],
  ['JavaScript, dateStyle long', 'November 5, 2026 at 2:15\u202fPM', at],
  ['JavaScript, dateStyle long in Node 26', 'November 5, 2026 at 2:15 PM', at],
  ['JavaScript, dateStyle full in Node 26', 'Thursday, November 5, 2026 at 2:15 PM', at],
  ['JavaScript, dateStyle full', 'Thursday, November 5, 2026 at 2:15\u202fPM', at],
  ['JavaScript, milliseconds since 1970', '1793888100000', fails],
  ['JavaScript', 'Invalid Date', fails],
  ['Java, Instant', '2026-11-05T14:15:00Z', at],
  ['Java, LocalDateTime', '2026-11-05T14:15', at],
  ['Java, OffsetDateTime', '2026-11-05T15:15+01:00', at],
  ['Java, OffsetDateTime in UTC', '2026-11-05T14:15Z', at],
  ['Java, ZonedDateTime', '2026-11-05T15:15+01:00[Europe/Berlin]', fails],
  ['Java, sql.Timestamp', '2026-11-05 14:15:00.0', at],
  ['Java, util.Date', 'Thu Nov 05 14:15:00 UTC 2026', fails],
  ['Java, toGMTString', '5 Nov 2026 14:15:00 GMT', at],
  ['Java, DateFormat en-US, short', '11/5/26, 2:15 PM', fails],
  ['Java, DateFormat en-GB', '5 Nov 2026, 14:15:00', at],
  ['Java, DateFormat de-DE', '05.11.2026, 14:15:00', at],
  ['Java, DateFormat fr-FR', '5 nov. 2026, 14:15:00', fails],
  ['Java, DateFormat in JDK 20', 'Nov 5, 2026, 2:15:00\u202fPM', at],
  ['Java, RFC_1123_DATE_TIME', 'Thu, 5 Nov 2026 14:15:00 GMT', at],
  ['Excel en-US', '11/5/2026', day],
  ['Excel en-US', '11/5/2026 14:15', at],
  ['Excel en-GB', '05/11/2026 14:15', at, 'dmy'],
  ['Excel de-DE', '05.11.2026 14:15', at],
  ['Excel fr-FR', '05/11/2026 14:15', at, 'dmy'],
  ['Excel es-ES', '05/11/2026 14:15', at, 'dmy'],
  ['Excel nl-NL', '5-11-2026 14:15', at, 'dmy'],
  ['Excel pl-PL', '05.11.2026 14:15', at],
  ['Excel sv-SE', '2026-11-05 14:15', at],
  ['Excel ja-JP', '2026/11/5 14:15', at],
  ['Excel pt-BR', '05/11/2026 14:15', at, 'dmy'],
  ['Excel ru-RU', '05.11.2026 14:15', at],
  ['Excel hu-HU', '2026. 11. 05. 14:15', fails],
  ['Excel, d-mmm-yy', '5-Nov-26', fails],
  ['Excel, a serial number', '46331', fails],
  ['Outlook en-US', '11/5/2026', day],
  ['Outlook', '0/0/00', none],
  ['Outlook de-DE', '05.11.2026', day],
  ['a mail header', 'Thu, 05 Nov 2026 15:15:00 +0100 (CET)', at],
  ['a mail header of before 1982', 'Thu, 05 Nov 26 14:15:00 GMT', fails],
  ['WordPress', 'November 5, 2026 2:15 pm', at],
  ['Wix', 'Nov 5, 2026, 2:15 PM', at],
  ['Google Forms', '2026/11/05 3:15:00 PM GMT+1', at],
  ['Google Sheets', '11/5/2026 14:15:00', at],
  ['a zone that is no zone of the contract', '2026-11-05 15:15:00 CET', fails],
  ['a local time', '2026-11-05 15:15:00', berlin],
]

t.test('what common systems write by default is read, or fails', async (t) => {
  const read = (text: string, order: DateOrder = 'mdy'): string => {
    if (isNoDate(text)) return none
    const value = parseDateTime(text, order)
    return value === null ? fails : toInstant(value, 'UTC')!.toISOString()
  }
  t.strictSame(
    written.map(([system, text, , order]) => [system, text, read(text, order)]),
    written.map(([system, text, expected]) => [system, text, expected]),
  )
  const byModel = (text: string, order: DateOrder = 'mdy'): string =>
    isNoDateInModel(text) ? none : (readMoment(text, order, 'UTC')?.toISOString() ?? fails)
  t.strictSame(
    written.map(([system, text, , order]) => [system, text, byModel(text, order)]),
    written.map(([system, text, expected]) => [system, text, expected]),
    'and so says the model',
  )
})

t.test('the platform itself writes what the table says', async (t) => {
  const date = new Date(at)
  const texts = new Set(written.map(([, text]) => text))
  for (const text of [
    date.toISOString(),
    date.toUTCString(),
    date.toLocaleString('en-US', { timeZone: 'UTC' }),
    date.toLocaleString('en-GB', { timeZone: 'UTC' }),
    date.toLocaleString('de-DE', { timeZone: 'UTC' }),
    date.toLocaleString('sv-SE', { timeZone: 'UTC' }),
    date.toLocaleString('ja-JP', { timeZone: 'UTC' }),
    date.toLocaleString('en-US', { timeZone: 'UTC', dateStyle: 'long', timeStyle: 'short' }),
    date.toLocaleString('en-US', { timeZone: 'UTC', dateStyle: 'full', timeStyle: 'short' }),
  ])
    t.ok(texts.has(text), text)
})
