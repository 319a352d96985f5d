import type { DateOrder } from '../model/dates.ts'
import type { Random } from './random.ts'

/** Dates and times in every documented form; few of them are invalid. */

const monthNames = [
  ...['January', 'Feb', 'march', 'APR', 'May', 'june', 'Jul', 'August'],
  ...['SEP', 'october', 'Nov', 'December', 'Sept', 'Janu', 'Feb.', 'Ma'],
]

/** Local times at which some of the zones have gaps or run twice, and days at the calendar's edges. */
const days = [
  [2024, 3, 10],
  [2024, 11, 3],
  [2024, 3, 31],
  [2024, 10, 27],
  [2024, 10, 6],
  [2024, 4, 7],
  [2011, 12, 30],
  [2018, 11, 4],
  [2018, 2, 17],
  [2024, 2, 29],
  [2023, 2, 28],
  [1999, 12, 31],
  [1969, 12, 31],
  [1970, 1, 1],
  [1971, 6, 15],
  [1900, 1, 1],
  [1000, 1, 1],
  [9999, 12, 31],
  [2026, 5, 6],
  [2026, 12, 11],
  [2024, 9, 29],
  [2005, 1, 2],
] as const
const oddDays = [
  [2023, 2, 29],
  [1900, 2, 29],
  [2024, 2, 30],
  [2024, 4, 31],
  [2024, 13, 1],
  [2024, 0, 1],
  [2024, 1, 0],
  [999, 1, 1],
  [2024, 1, 32],
  [10000, 1, 1],
] as const

export function madeDate(random: Random, order: DateOrder, wantsTime: boolean): string {
  if (random.slip(0.06)) return random.oneOf(oddDates)
  if (random.chance(0.05)) return noDate(random)
  const [year, month, day] = !random.slip(0.06) ? random.oneOf(days) : random.oneOf(oddDays)
  if (random.chance(0.3)) return random.oneOf(systems)({ year, month, day }, random)
  const time = random.chance(wantsTime ? 0.7 : 0.3)
  const pad = (n: number) => (random.chance(0.8) ? String(n).padStart(2, '0') : String(n))
  const mark = random.oneOf(['-', '/'])
  const blank = !random.slip(0.1) ? ' ' : random.oneOf(['  ', '\t', '\u00a0', ''])
  switch (random.between(0, 3)) {
    case 0: {
      const join = random.chance(0.6) ? 'T' : blank
      return `${year}${mark}${pad(month)}${!random.slip(0.03) ? mark : '-'}${pad(day)}${time ? join + clock(random, pad) + fraction(random) + offset(random) : random.slip(0.05) ? 'Z' : ''}`
    }
    case 1: {
      const comma = random.oneOf([', ', ', ', ',', ' ', ',  ', ...(random.slip(0.3) ? ['', '. '] : [])])
      return `${monthName(month, random)}${blank}${day}${comma}${year}${time ? blank + clock(random, pad) : ''}`
    }
    case 2:
      return `${pad(day)}${blank}${monthName(month, random)}${blank}${year}${time ? blank + clock(random, pad) : ''}`
    default: {
      const [first, second] = random.slip(0.2) !== (order === 'mdy') ? [month, day] : [day, month]
      return `${pad(first)}${mark}${pad(second)}${!random.slip(0.03) ? mark : '/'}${year}${time ? blank + clockWithHalf(random, pad) : ''}`
    }
  }
}

interface Day {
  year: number
  month: number
  day: number
}

const two = (n: number): string => String(n).padStart(2, '0')
const weekdays = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday']
/** Any weekday, as it is ignored. */
const weekday = (random: Random): string => {
  const name = random.oneOf(weekdays)
  return random.chance(0.7) ? name.slice(0, 3) : name
}
const halfClock = (random: Random, blank: string): string => {
  const second = random.chance(0.5) ? ':07' : ''
  const hour = random.oneOf([1, 9, 10, 11, 12, ...(random.slip(0.1) ? [0, 13] : [])])
  return `${random.chance(0.5) ? two(hour) : hour}:${random.oneOf(['00', '15', '59'])}${second}${blank}${random.oneOf(['AM', 'PM', 'am', 'Pm'])}`
}
const zoneName = (random: Random): string =>
  random.oneOf([
    ...[
      ...['Z', 'UTC', 'GMT', ' UTC', ' GMT', '+00', ' -03'],
      ...['+0530', ' +14:00', 'GMT+0100', ' GMT+1', ' GMT-0330'],
    ],
    ...(random.slip(0.2) ? ['utc', ' CET', ' EST', 'GMT+14', 'UTC+1', 'GMT+15', '+1', ' GMT+01:61'] : []),
  ])
const capitalized = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1).toLowerCase()
const fullName = (month: number): string =>
  capitalized(
    [
      ...['january', 'february', 'march', 'april', 'may', 'june', 'july', 'august', 'september', 'october'],
      ...['november', 'december'],
    ][month - 1] ?? 'may',
  )
const shortName = (month: number): string => fullName(month).slice(0, 3)

/** As systems write dates by default: databases, programming languages, mail headers, spreadsheets and forms. */
const systems: readonly ((day: Day, random: Random) => string)[] = [
  // Postgres, SQL Server and BigQuery
  ({ year, month, day }, random) =>
    `${year}-${two(month)}-${two(day)} 10:15:00${random.oneOf(['', '.123456', '.1234567'])}${zoneName(random)}`,
  // WordPress and Wix
  ({ year, month, day }, random) =>
    `${year}-${two(month)}-${two(day)}${random.oneOf([' ', ', ', ' at '])}${halfClock(random, random.oneOf(['', ' ', '\u202f', '\u00a0']))}`,
  // Oracle
  ({ year, month, day }, random) =>
    `${two(day)}-${random.chance(0.5) ? shortName(month).toUpperCase() : fullName(month)}-${year}${random.oneOf(['', ' 23:59', ' 23:59:59', ' 9:00 PM'])}`,
  // German, Russian and Turkish spreadsheets
  ({ year, month, day }, random) =>
    `${random.chance(0.7) ? two(day) : day}.${random.chance(0.7) ? two(month) : month}.${year}${random.oneOf(['', ' 10:15', ', 10:15:59', ' 9:05 pm', random.slip(0.1) ? ' 10:15 UTC' : ''])}`,
  // JavaScript's `toLocaleString`
  ({ year, month, day }, random) =>
    `${month}/${day}/${year}, ${halfClock(random, random.oneOf([' ', '\u202f']))}`,
  // Mail headers, and JavaScript's `toUTCString`
  ({ year, month, day }, random) =>
    `${weekday(random)}${random.oneOf([', ', ' ', ',', ''])}${random.oneOf([two(day), String(day)])} ${shortName(month)} ${year} 10:15:00${zoneName(random)}${random.oneOf(['', ' (UTC)', ' (CET)', ' ()', random.slip(0.1) ? ' (a (b))' : ''])}`,
  // JavaScript's `toString`
  ({ year, month, day }, random) =>
    `${weekday(random)} ${shortName(month)} ${two(day)} ${year} 02:30:00 GMT${random.oneOf(['+0000', '+0100', '-0430', ''])}${random.oneOf(['', ' (Central European Standard Time)'])}`,
  // Forms
  ({ year, month, day }, random) =>
    `${random.chance(0.3) ? `${weekday(random)}, ` : ''}${fullName(month)} ${day}, ${year}${random.oneOf(['', ', ', ' at ', ' '])}${halfClock(random, random.oneOf(['', ' ', '\u202f']))}${random.chance(0.2) ? zoneName(random) : ''}`,
]

/** What systems write where there is no date, and what looks like it. */
const noDate = (random: Random): string =>
  random.oneOf(['0000-00-00', '00/00/0000', '0/0/0000', '0/0/00']) +
  random.oneOf([
    '',
    '',
    ' 00:00:00',
    ' 00:00',
    'T00:00:00',
    ' 0:00',
    ' 00:00:00.000',
    ...(random.slip(0.2) ? [' 00:00:01', 'Z'] : []),
  ])

const monthName = (month: number, random: Random): string =>
  !random.slip(0.06) ? (monthNames[month - 1] ?? 'May') : random.oneOf(monthNames)

function clock(random: Random, pad: (n: number) => string): string {
  const hour = random.oneOf([0, 1, 2, 2, 2, 3, 5, 9, 11, 12, 13, 23, ...(random.slip(0.2) ? [24, 25] : [])])
  const minute = random.oneOf(['00', '05', '15', '30', '45', '59', ...(random.slip(0.1) ? ['60', '5'] : [])])
  const second = random.chance(0.5)
    ? `:${random.oneOf(['00', '01', '59', ...(random.slip(0.2) ? ['60', '1'] : [])])}`
    : ''
  return `${pad(hour)}:${minute}${second}`
}

const fraction = (random: Random): string =>
  random.chance(0.15)
    ? random.oneOf(['.5', '.999', '.123456789', ...(random.slip(0.3) ? ['.', ',5'] : [])])
    : ''
const offset = (random: Random): string =>
  random.chance(0.5)
    ? random.oneOf([
        ...['Z', '+00:00', '-05:00', '+0530', ' +01:00', '-1400', '+14:00', ' Z'],
        ...(random.slip(0.3) ? ['+14:01', '+15:00', '+1', '+05', '-00:60', 'z', 'UTC', '+5:30'] : []),
      ])
    : ''
const marks = ['am', 'pm', ' AM', ' Pm', '  pm', 'aM']

function clockWithHalf(random: Random, pad: (n: number) => string): string {
  const time = clock(random, pad)
  const hour = Number(time.split(':')[0])
  const takesMark = (hour >= 1 && hour <= 12) || random.slip(0.2)
  if (!takesMark || random.chance(0.4)) return time
  return time + random.oneOf(random.slip(0.05) ? ['a', 'p.m.'] : marks)
}

const oddDates = [
  ...['yesterday', '2024', '20240229', '2024-W10', '1709200000', '2024-1', '24-01-02', '01.02.2024'],
  ...['5 January, 2024', 'Mon, 5 Jan 2024', '2024-01-02T', '2024-01-02T10', '2024-01-02t10:00', '1/2/24'],
  ...['1/2/2024 0:05am', '1/2/2024 13:05pm', '1/2/2024 12:00am', '1/2/2024 12:00pm', '1/2/2024T10:00'],
  ...['2024-01-02 1:00pm', 'Jan 5 2024 1:00pm', '１/2/2024', '2024-01-02 10:00 +01:00 ', '5Jan2024', '\\N'],
  ...['NULL', 'null', '\\n', '0000-00-00 00:00:01', '00-00-0000', '0000/00/00', '31.12.2026', '12.31.2026'],
  ...['31.12.26', '12-31-2014', '27-Nov-2026', '27-Nov-26', '27 Nov-2026', 'Fryday, 27 Nov 2026'],
  ...['11/27/2026 10:15 UTC', '2024-01-02 UTC', 'Jan 5 2024 UTC', 'Jan 5 2024 (noon)'],
  ...['2024-01-02 10:00 (noon)', '2024-01-02 at 10:00 am +01:00', '2024-01-02T10:00:00.5 pm'],
  'January 5 , 2024'.replace(' ,', ','),
]

export function madeDayOfYear(random: Random, order: DateOrder): string {
  if (random.slip(0.2)) return random.oneOf(oddDaysOfYear)
  const [month, day] = random.oneOf([
    [2, 29],
    [12, 31],
    [1, 5],
    [5, 1],
    [4, 30],
  ] as const)
  const pad = (n: number) => (random.chance(0.6) ? String(n).padStart(2, '0') : String(n))
  const mark = random.oneOf(['-', '/'])
  return order === 'mdy' ? pad(month) + mark + pad(day) : pad(day) + mark + pad(month)
}

const oddDaysOfYear = [
  ...['02-29', '2-29', '29-2', '12/31', '31/12', '1-5', '01/05', '02-30'],
  ...['13-13', '0-1', '5-0', '1-5-', '1.5', '12-12 10:00', '1/5', '4-31'],
]
