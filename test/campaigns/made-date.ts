import type { DateOrder } from '../model/dates.ts'
import type { Random } from './random.ts'

/** Dates and times in every documented form; few of them are invalid. */

const monthNames = [
  'January',
  'Feb',
  'march',
  'APR',
  'May',
  'june',
  'Jul',
  'August',
  'SEP',
  'october',
  'Nov',
  'December',
  'Sept',
  'Janu',
  'Feb.',
  'Ma',
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
  const [year, month, day] = !random.slip(0.06) ? random.oneOf(days) : random.oneOf(oddDays)
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
        'Z',
        '+00:00',
        '-05:00',
        '+0530',
        ' +01:00',
        '-1400',
        '+14:00',
        ' Z',
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
  'yesterday',
  '2024',
  '20240229',
  '2024-W10',
  '1709200000',
  '2024-1',
  '24-01-02',
  '01.02.2024',
  '5 January, 2024',
  'Mon, 5 Jan 2024',
  '2024-01-02T',
  '2024-01-02T10',
  '2024-01-02t10:00',
  '1/2/24',
  '1/2/2024 0:05am',
  '1/2/2024 13:05pm',
  '1/2/2024 12:00am',
  '1/2/2024 12:00pm',
  '1/2/2024T10:00',
  '2024-01-02 1:00pm',
  'Jan 5 2024 1:00pm',
  '１/2/2024',
  '2024-01-02 10:00 +01:00 ',
  '5Jan2024',
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
  '02-29',
  '2-29',
  '29-2',
  '12/31',
  '31/12',
  '1-5',
  '01/05',
  '02-30',
  '13-13',
  '0-1',
  '5-0',
  '1-5-',
  '1.5',
  '12-12 10:00',
  '1/5',
  '4-31',
]
