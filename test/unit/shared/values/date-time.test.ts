import t from 'tap'
import {
  isMonthFirstDate,
  isNoDate,
  parseApiTime,
  parseDateTime,
  parseDayOfYear,
  toDate,
  toInstantMs,
  type DateOrder,
} from '../../../../shared/values/date-time.ts'
import { formatInstant } from '../../../../shared/values/time-zone.ts'
import { readMoment, isNoDate as isNoDateInModel } from '../../../model/dates.ts'

const read = (text: string, order: DateOrder = 'mdy', zone = 'UTC') => {
  const value = parseDateTime(text, order)
  const ms = value === null ? null : toInstantMs(value, zone)
  return ms === null ? null : new Date(ms).toISOString().replace('.000Z', 'Z')
}

t.test('every documented pattern is read', async (t) => {
  const cases: [string, string][] = [
    ['2014-01-02T03:04:05+01:00', '2014-01-02T02:04:05Z'],
    ['2014-01-02T03:04:05-0930', '2014-01-02T12:34:05Z'],
    ['2014-01-02T03:04:05 Z', '2014-01-02T03:04:05Z'],
    ['2014-01-02T03:04:05.123456+14:00', '2014-01-01T13:04:05Z'],
    ['2014-01-02 03:04', '2014-01-02T03:04:00Z'],
    ['2014/1/2  3:04:05', '2014-01-02T03:04:05Z'],
    ['2014-01-02', '2014-01-02T00:00:00Z'],
    ['March 5, 2014 14:30', '2014-03-05T14:30:00Z'],
    ['march 5 2014', '2014-03-05T00:00:00Z'],
    ['MAR 5,2014', '2014-03-05T00:00:00Z'],
    ['5 March 2014', '2014-03-05T00:00:00Z'],
    ['05 mar 2014 1:02:03', '2014-03-05T01:02:03Z'],
    ['1-2-2014', '2014-01-02T00:00:00Z'],
    ['01/02/2014', '2014-01-02T00:00:00Z'],
    ['01-02-2014 3:04:05pm', '2014-01-02T15:04:05Z'],
    ['01/02/2014 12:04am', '2014-01-02T00:04:00Z'],
    ['01/02/2014 12:04 PM', '2014-01-02T12:04:00Z'],
    ['01/02/2014 23:04:05', '2014-01-02T23:04:05Z'],
    ['29 February 2016', '2016-02-29T00:00:00Z'],
    ['9999-12-31', '9999-12-31T00:00:00Z'],
    ['1000-01-01', '1000-01-01T00:00:00Z'],
  ]
  t.strictSame(
    cases.map(([text]) => [text, read(text)]),
    cases,
  )
})

t.test('what common systems write behind and before a date is read', async (t) => {
  const cases: [string, string][] = [
    ['2026-11-27 10:15:00+00', '2026-11-27T10:15:00Z'],
    ['2026-11-27 10:15:00.123456+02', '2026-11-27T08:15:00Z'],
    ['2026-11-27 10:15:00-08', '2026-11-27T18:15:00Z'],
    ['2026-11-27 10:15 UTC', '2026-11-27T10:15:00Z'],
    ['2026-11-27T10:15GMT', '2026-11-27T10:15:00Z'],
    ['2026-11-27 06:44:00 PM', '2026-11-27T18:44:00Z'],
    ['2026-11-27, 8:30am', '2026-11-27T08:30:00Z'],
    ['2026/11/27 10:15:00 AM GMT+1', '2026-11-27T09:15:00Z'],
    ['2026-11-27 at 8:30', '2026-11-27T08:30:00Z'],
    ['27.11.2026', '2026-11-27T00:00:00Z'],
    ['7.1.2026 9:05:06', '2026-01-07T09:05:06Z'],
    ['01.02.2026', '2026-02-01T00:00:00Z'],
    ['27.11.2026, 10:15 PM', '2026-11-27T22:15:00Z'],
    ['27-Nov-2026', '2026-11-27T00:00:00Z'],
    ['27-NOVEMBER-2026 10:15', '2026-11-27T10:15:00Z'],
    ['November 27, 2026 10:15 am', '2026-11-27T10:15:00Z'],
    ['Nov 27, 2026, 10:15 PM', '2026-11-27T22:15:00Z'],
    ['Friday, November 27, 2026 at 10:15\u202fPM', '2026-11-27T22:15:00Z'],
    ['Fri, 27 Nov 2026 10:15:00 +0100 (CET)', '2026-11-27T09:15:00Z'],
    ['fri 27-nov-2026 10:15:00 GMT', '2026-11-27T10:15:00Z'],
    ['Fri Nov 27 2026 10:15:00 GMT-0330 (Newfoundland Standard Time)', '2026-11-27T13:45:00Z'],
    ['5 March 2014 (a guess)', '2014-03-05T00:00:00Z'],
    ['Monday 5 March 2014', '2014-03-05T00:00:00Z'],
    ['11/27/2026, 10:15:00\u202fAM', '2026-11-27T10:15:00Z'],
    ['11/27/2026\u00a010:15', '2026-11-27T10:15:00Z'],
    ['11/27/2026 at 10:15 pm', '2026-11-27T22:15:00Z'],
  ]
  t.strictSame(
    cases.map(([text]) => [text, read(text)]),
    cases,
  )
  t.equal(read('01.02.2026', 'dmy'), '2026-02-01T00:00:00Z')
  t.equal(read('12.31.2026', 'dmy'), null, 'with dots the day is always first')
  const wrong = [
    ...['2026-11-27 10:15 +1', '2026-11-27 10:15 UTC+1', '2026-11-27 10:15 GMT+15', '2026-11-27 10:15 utc'],
    ...['2026-11-27 10:15 CET', '2026-11-27 UTC', '2026-11-27 10:15 GMT+1:00', '2026-11-27 13:15 PM'],
    ...['2026-11-27 10:15:00.5 AM', '2026-11-27 T10:15', '2026-11-27,, 10:15', '2026-11-27 at10:15'],
    ...[
      '2026-11-27at 10:15',
      'Fri 2026-11-27',
      'Fri, 11/27/2026',
      '11/27/2026 10:15 UTC',
      '11/27/2026 10:15 +01:00',
    ],
    ...[
      '27.11.2026 10:15Z',
      '27.11-2026',
      '27.11.26',
      '27. 11. 2026',
      '27.11.2026.',
      '27-Nov 2026',
      '27 Nov-2026',
    ],
    ...['27-Nov-26', '27-Nov-2026T10:15', 'Fr, 27 Nov 2026', 'Frid 27 Nov 2026', '27 Nov 2026 (a (b))'],
    ...[
      '(x) 27 Nov 2026',
      '2026-11-27 (x)',
      '27 Nov 2026 10:15:00.5',
      '5 March 2014 noon',
      '10:15 27 Nov 2026',
    ],
  ]
  t.strictSame(
    wrong.map((text) => [text, parseDateTime(text, 'mdy')]),
    wrong.map((text) => [text, null]),
  )
})

t.test('marks for no date are told from dates', async (t) => {
  for (const date of ['0000-00-00', '00/00/0000', '0/0/0000', '0/0/00'])
    for (const time of ['', ' 00:00', ' 0:00:00', ' 00:00:00.000000', 'T00:00:00', '\u00a000:00'])
      t.ok(isNoDate(date + time), date + time)
  for (const text of ['\\N', 'NULL']) t.ok(isNoDate(text), text)
  const others = [
    ...['', '0', '0000', 'null', 'N', '\\n', '0000-00-01'],
    ...['0000-00-00 00:01', '00-00-0000', '0/0/0', '00/00/00'],
  ]
  for (const text of [...others, '0000/00/00', '0000-00-00 24:00', '0000-00-00Z', 'x0/0/00', '2014-01-02'])
    t.notOk(isNoDate(text), text)
})

t.test('under dmy the day comes first, in the numeric family alone', async (t) => {
  t.equal(read('01/02/2014', 'dmy'), '2014-02-01T00:00:00Z')
  t.equal(read('31-12-2014', 'dmy'), '2014-12-31T00:00:00Z')
  t.equal(read('2014-01-02', 'dmy'), '2014-01-02T00:00:00Z')
  t.equal(read('March 5, 2014', 'dmy'), '2014-03-05T00:00:00Z')
})

t.test('under dmy a second part above 12 is a day, as no month is', async (t) => {
  t.equal(read('12-31-2014', 'dmy'), '2014-12-31T00:00:00Z')
  t.equal(read('2/13/2014 1:05 pm', 'dmy'), '2014-02-13T13:05:00Z')
  t.equal(parseDayOfYear('12/24/1980', 'dmy'), '12-24')
  for (const text of ['13/13/2014', '02-30-2014', '0/13/2014', '12/32/2014'])
    t.equal(parseDateTime(text, 'dmy'), null, text)
  t.equal(parseDateTime('31/12/2014', 'mdy'), null, 'the other way round nothing is guessed')
})

t.test('nothing is guessed', async (t) => {
  const wrong = [
    ...['30 February 2014', '2014-02-29', '31/12/2014', '12/31-2014', '2014-01/02'],
    ...['24:00', '2014-01-02 24:00', '2014-01-02 10:60', '2014-01-02 10:00:60'],
    ...['01/02/2014 0:05am', '01/02/2014 13:05pm', '2014-01-02Z', '2014-01-02+01:00'],
    ...['2014-01-02T10:00+14:01', '2014-01-02T10:00+01:60', '01/02/14', '0999-01-01'],
    ...['2014-1-002', 'Sept 5, 2014', 'Mar. 5, 2014', '5. March 2014', 'March 5'],
    ...['2014', '20140102', '1/2/2014 3pm', '2014-01-02T', '2014-01-02t10:00', ''],
    'x'.repeat(1000),
    '1 / 2 / 2014',
    '２０１４-01-02',
  ]
  t.strictSame(
    wrong.map((text) => [text.slice(0, 40), parseDateTime(text, 'mdy')]),
    wrong.map((text) => [text.slice(0, 40), null]),
  )
})

t.test('without an offset a time is of the zone that is given; a date is what is written', async (t) => {
  t.equal(read('2014-07-01 12:00', 'mdy', 'America/New_York'), '2014-07-01T16:00:00Z')
  t.equal(read('2014-07-01T12:00:00+00:00', 'mdy', 'America/New_York'), '2014-07-01T12:00:00Z')
  t.equal(toDate(parseDateTime('2014-07-01T23:59:00-11:00', 'mdy')!), '2014-07-01')
})

t.test('a day of the year has no year, or one that is dropped', async (t) => {
  t.equal(parseDayOfYear('2-29', 'mdy'), '02-29')
  t.equal(parseDayOfYear('29/02', 'dmy'), '02-29')
  t.equal(parseDayOfYear('1980-12-24', 'mdy'), '12-24')
  t.equal(parseDayOfYear('24/12/1980 10:00', 'dmy'), '12-24')
  for (const text of ['13-01', '02-30', '2-29-2015', '0-1', '1'])
    t.equal(parseDayOfYear(text, 'mdy'), null, text)
})

t.test("a request's time is ISO 8601 with T, in the organization's zone without an offset", async (t) => {
  t.equal(parseApiTime('2026-01-31T08:00', 'Europe/Berlin')?.toISOString(), '2026-01-31T07:00:00.000Z')
  t.equal(parseApiTime('2026-01-31T08:00:00Z', 'Europe/Berlin')?.toISOString(), '2026-01-31T08:00:00.000Z')
  for (const text of [
    '2026-01-31',
    '2026-01-31 08:00',
    'now',
    '1769846400',
    '2026-1-31T08:00',
    '2026-02-30T08:00',
  ])
    t.equal(parseApiTime(text, 'UTC'), null, text)
})

t.test('an offset leads into no year that has not four digits in the zone', async (t) => {
  const cases: [text: string, zone: string, instant: string | null][] = [
    ['9999-12-31T23:59:59-10:00', 'UTC', null],
    ['9999-12-31T23:59:59Z', 'UTC', '9999-12-31T23:59:59.000Z'],
    ['9999-12-31T23:59:59-10:00', 'Pacific/Honolulu', '+010000-01-01T09:59:59.000Z'],
    ['9999-12-31T23:59:59', 'Pacific/Honolulu', '+010000-01-01T09:59:59.000Z'],
    ['9999-12-31T23:59:59Z', 'Asia/Tokyo', null],
    ['9999-12-31T14:59:59Z', 'Asia/Tokyo', '9999-12-31T14:59:59.000Z'],
    ['1000-01-01T00:00+10:00', 'UTC', null],
    ['1000-01-01T00:00Z', 'UTC', '1000-01-01T00:00:00.000Z'],
    ['1000-01-01T00:00-10:00', 'UTC', '1000-01-01T10:00:00.000Z'],
    ['1000-01-01T00:00', 'Asia/Tokyo', '0999-12-31T14:41:01.000Z'],
  ]
  for (const [text, zone, instant] of cases) {
    t.equal(parseApiTime(text, zone)?.toISOString() ?? null, instant, `${text} in ${zone}`)
    t.equal(readMoment(text, 'mdy', zone)?.toISOString() ?? null, instant, `${text} in ${zone}, by the model`)
  }
  t.equal(formatInstant(new Date('+010000-01-01T09:59:59Z'), 'Pacific/Honolulu'), '9999-12-31T23:59:59-10:00')
})

t.test('every day from 1000 to 9999 is the instant that the platform knows', async (t) => {
  const wrong: string[] = []
  const check = (ms: number): void => {
    const text = new Date(ms).toISOString().slice(0, 10)
    if (toInstantMs(parseDateTime(text, 'mdy')!, 'UTC') !== ms) wrong.push(text)
  }
  // The calendar repeats itself after 400 years; of each year the first of its months, and the days before them.
  for (let ms = Date.UTC(1800, 0, 1); ms < Date.UTC(2200, 0, 1); ms += 86_400_000) check(ms)
  for (let month = 0; month < 9_000 * 12; month += 1) {
    check(Date.UTC(1000, month, 1))
    check(Date.UTC(1000, month + 1, 0))
  }
  t.same(wrong, [])
})

t.test('the plain form refuses what the pattern refuses', async (t) => {
  const cases = [
    ...['2014-01-3a', '2014-01-31 24:00:00', '2014-01-31 23:60:00', '2014-01-31 23:59:60'],
    ...['2014-02-30', '2014-00-10', '0999-01-01', '2014-01-31x10:00:00', '2014-01-31 10-00-00'],
  ]
  t.strictSame(
    cases.map((text) => [text, parseDateTime(text, 'mdy')]),
    cases.map((text) => [text, null]),
  )
  t.match(parseDateTime('2014-01-31T10:20:30', 'dmy'), { day: 31, second: 37_230, offsetMinutes: null })
})

t.test('months have their English names, whole or by three letters, in any case', async (t) => {
  for (let month = 0; month < 12; month += 1) {
    const name = new Date(Date.UTC(2014, month, 1)).toLocaleString('en', { month: 'long', timeZone: 'UTC' })
    const expected = new Date(Date.UTC(2014, month, 15)).toISOString().replace('.000Z', 'Z')
    for (const written of [name, name.slice(0, 3), name.toUpperCase(), name.toLowerCase()]) {
      t.equal(read(`${written} 15, 2014`), expected)
      t.equal(read(`15 ${written} 2014`), expected)
    }
    if (name.length > 4) t.equal(read(`${name.slice(0, 4)} 15, 2014`), null)
  }
})

t.test('parts are separated by blanks, one or more, and have their digits', async (t) => {
  const cases: [text: string, expected: string][] = [
    ['2014/11/12\t \t13:04:05.6 \t+01:00', '2014-11-12T12:04:05Z'],
    ['2000-02-29', '2000-02-29T00:00:00Z'],
    ['2014/1/2', '2014-01-02T00:00:00Z'],
    ['2014/1/2 3:04Z', '2014-01-02T03:04:00Z'],
    ['2014-1-2T3:04:05.123456789', '2014-01-02T03:04:05Z'],
    ['2014-01-02 03:04 -0030', '2014-01-02T03:34:00Z'],
    ['March\t \t15 \t, \t2014 \t13:04:05', '2014-03-15T13:04:05Z'],
    ['March 5\t 2014\t3:04', '2014-03-05T03:04:00Z'],
    ['15\t \tMarch\t \t2014\t \t13:04:05', '2014-03-15T13:04:05Z'],
    ['11-12-2014\t \t1:04:05 \tpM', '2014-11-12T13:04:05Z'],
    ['1/2/2014 13:04', '2014-01-02T13:04:00Z'],
    ['1/2/2014 1:04AM', '2014-01-02T01:04:00Z'],
    ['1/2/2014 12:04 pm', '2014-01-02T12:04:00Z'],
    ['1/12/2014', '2014-01-12T00:00:00Z'],
    ['12/1/2014', '2014-12-01T00:00:00Z'],
    ['1/2/2014 0:00', '2014-01-02T00:00:00Z'],
    ['1/2/2014 23:59:59', '2014-01-02T23:59:59Z'],
    ['2014-01-02 23:59:59', '2014-01-02T23:59:59Z'],
    ['2014-01-02 23:59', '2014-01-02T23:59:00Z'],
    ['2014-12-31T00:00+14:00', '2014-12-30T10:00:00Z'],
    ['2014-01-02T00:00-13:59', '2014-01-02T13:59:00Z'],
    [`2014/1/2${' '.repeat(88)}3:04`, '2014-01-02T03:04:00Z'],
  ]
  t.strictSame(
    cases.map(([text]) => [JSON.stringify(text), read(text)]),
    cases.map(([text, expected]) => [JSON.stringify(text), expected]),
  )
  const wrong = [
    ...['12014/1/2', '2014/1/2x', '2014/123/1', '2014/1/123', '2014//1', '2014/1/', '2014/1-2', '201/1/2'],
    ...['2014/1/2 3:4', '2014/1/2 3:045', '2014/1/2 113:04', '2014/1/2 3:04:5', '2014/1/2 3:04:055'],
    ...['2014/1/2 3:04:05.', '2014/1/2 3:04.5', '2014/1/2T 3:04', '2014/1/2x3:04', '2014/1/23:04'],
    ...['2014/1/2 3:04 +1:00', '2014/1/2 3:04+01:0', '2014/1/2 3:04+01:000', '2014/1/2 3:04 z'],
    ...['2014/1/2 3:04~01:00', '2014/1/2 3:04xZ', '2014/1/2 3:04+14:01', '2014/1/2 3:04-14:01'],
    ...['2014/1/2 3:04+13:60', '2014/1/2 3:04+15:00', '2014/1/2 3:04Zx', '2014/1/2 3:04 +ab:cd'],
    ...['\u00c9 March 5 2014', 'March5 2014', 'March 5,, 2014', 'March 52014', 'March 5 20145'],
    ...['March 5 201', 'March 123 2014', 'March 5 20141:02', 'March 5 2014 1:02:3', 'March 5 2014 1:2'],
    ...['March 5 2014 x', 'March 5 2014x1:02', 'March x 2014', 'March 5x2014', 'Marchx5 2014', '5 2014'],
    ...['March 5 2014 24:00', 'March 5 2014 1:60', 'March 5 2014 1:00:60', 'March 32 2014', 'March 0 2014'],
    ...['+5 March 2014', '5March 2014', '5 March2014', '5 March 20145', '5 March 201', '5 March 2014x'],
    ...['5 March 2014 1:2', '5 March 20141:02', '5 March 2014x1:02', '5xMarch 2014', '5 Marchx2014'],
    ...['5 Mar1h 2014', '5 March 2014 24:00', '5 Smarch 2014', 'Smarch 5, 2014'],
    ...['+1/2/2014', '1/2/20145', '1/2/201', '1//2014', '/2/2014', '1/123/2014', '1/2-2014', '1.2-2014'],
    ...['1/2/2014x', '1/2/2014 3:04 p', '1/2/2014 3:04 xm', '1/2/2014 3:04 pmx', '1/2/2014 3:4'],
    ...['1/2/20143:04', '1/2/2014 3:04:5', '1/2/2014 3:04:055', '1/2/2014 3:04xpm', '1/2/2014x3:04'],
    ...['1/2/2014 24:00', '1/2/2014 3:60', '1/2/2014 3:04:60', '1/2/2014 0:04pm', '1/2/2014 13:04am'],
    ...['1/0/2014', '0/1/2014', '1/32/2014', '13/1/2014', '1/2/0999', 'a/2/2014', '1/b/2014', '1/2/201x'],
    ...['2014-01-0a', '2014-0a-01', '201a-01-01', '20a4-01-01', '2014-01-01 0a:00', '2014-01-01 00:0a'],
    ...['2014-01-01 00:00:0a', '2014-01-01 00:00x00', '2014-01-01 24:00', '2014-01-01 00:60'],
    ...['2014x01-01', '2014-01x01', '2014-01-01x00:00', '2014-13-01', '2014-00-01', '2014-01-00'],
    ...[
      ...['2014-01-01 10x20', '201a-01-01 00:00', '2014-01-01 01:/9'],
      ...['2014-01-01 01:01:/9', '1/2/:014', '1/2/20:4', '1900-02-29', '2100-02-29'],
      ...['2014-01-/1', '2014-01-:1', '2014-01-1/', '2014-01-1:', '2014-1/-11'],
      `2014/1/2${' '.repeat(89)}3:04`,
    ],
  ]
  t.strictSame(
    wrong.map((text) => [JSON.stringify(text), parseDateTime(text, 'mdy')]),
    wrong.map((text) => [JSON.stringify(text), null]),
  )
})

t.test('a day of the year is a whole text', async (t) => {
  t.equal(parseDayOfYear('12/24', 'mdy'), '12-24')
  t.equal(parseDayOfYear('1-2', 'mdy'), '01-02')
  t.equal(parseDayOfYear('2/1', 'dmy'), '01-02')
  t.equal(parseDayOfYear('31-10', 'dmy'), '10-31')
  const cases = ['x1-2', '1-2x', '123-1', '1-123', '1.2', '-2', '1-', '12-32', '12-0', '4-31', 'y/x']
  t.strictSame(
    cases.map((text) => [text, parseDayOfYear(text, 'mdy')]),
    cases.map((text) => [text, null]),
  )
})

t.test('a date of which the second part can only be a day has the month first', async (t) => {
  for (const text of ['12/31/2014', '1-13-2014 10:00', '1/31/2014x', '99/13/2014'])
    t.equal(isMonthFirstDate(text), true, text)
  for (const text of [
    ...['12/12/2014', '13/12/2014', '12/31/20145', '12/31-2014', '2014-13-31', 'x12/31/2014', '12.31.2014'],
    ...['12/31/201', '/31/2014', '12//2014', '112/31/2014', '12/331/2014', '31 March 2014', ''],
  ])
    t.equal(isMonthFirstDate(text), false, text)
})

t.test("a request's time has all its digits", async (t) => {
  const time = (text: string) => parseApiTime(text, 'UTC')?.toISOString() ?? null
  t.equal(time('2026-01-31T08:09:10.123456+0130'), '2026-01-31T06:39:10.000Z')
  t.equal(time('2026-01-31T08:09-01:30'), '2026-01-31T09:39:00.000Z')
  t.equal(time('2026-11-30T18:09:10'), '2026-11-30T18:09:10.000Z')
  for (const text of [
    ...['2026-01-31T8:00', '2026-01-3T08:00', '2026/01/31T08:00', '2026-01-31T08:00 Z', '2026-01-31T08:00Zx'],
    ...['x2026-01-31T08:00', '2026-01-31T08:0', '2026-01-31T08:00:0', '2026-01-31T08:00:00.'],
    ...[
      '2026-01-31T08:00+1:00',
      '2026-01-31T08:00+01:0',
      '2026-01-31T08:00 +01:00',
      '2026-01-31T08:00:00\tZ',
    ],
    ...['2026-01-31T08', '26-01-31T08:00', '12026-01-31T08:00'],
  ])
    t.equal(time(text), null, text)
})

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
    return value === null ? fails : new Date(toInstantMs(value, 'UTC')!).toISOString()
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
