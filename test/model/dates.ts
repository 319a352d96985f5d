import { momentAtOffset, momentOf, yearAt, type LocalTime } from './time-zone.ts'

/** Dates and times in import data (decisions 2.5): forms (a), (b) and (c), and nothing else. */

export type DateOrder = 'mdy' | 'dmy'

interface ReadDate {
  local: LocalTime
  /** In minutes; null where no offset is written. */
  offset: number | null
}

/** "No offset: the organization's zone." With one it may be another year there, which must have four digits too. */
export function readMoment(text: string, order: DateOrder, timeZone: string): Date | null {
  const read = readDate(text, order)
  if (read === null) return null
  if (read.offset === null) return momentOf(read.local, timeZone)
  const moment = momentAtOffset(read.local, read.offset)
  const year = yearAt(moment, timeZone)
  return year < 1000 || year > 9999 ? null : moment
}

/** "A date field takes the date as written, whatever the offset; the time is dropped." */
export function readDay(text: string, order: DateOrder): string | null {
  const read = readDate(text, order)
  return read === null ? null : `${read.local.year}-${monthAndDay(read.local.month, read.local.day)}`
}

/** "Day of year: those patterns, or `MM-DD`, `MM/DD` in `date_format` order; 29 February allowed." */
export function readDayOfYear(text: string, order: DateOrder): string | null {
  const short = /^(\d{1,2})[-/](\d{1,2})$/.exec(text)
  if (short !== null) {
    const { month, day } = inOrder(Number(short[1]), Number(short[2]), order)
    return isDay(2000, month, day) ? monthAndDay(month, day) : null
  }
  const read = readDate(text, order)
  return read === null ? null : monthAndDay(read.local.month, read.local.day)
}

const twoDigits = (number: number): string => String(number).padStart(2, '0')
const monthAndDay = (month: number, day: number): string => `${twoDigits(month)}-${twoDigits(day)}`

function inOrder(first: number, second: number, order: DateOrder): { month: number; day: number } {
  return order === 'mdy' ? { month: first, day: second } : { month: second, day: first }
}

/** "Parts are separated by one blank or more", which is a space or a tab. */
const blank = '[ \\t]'
const year = '(?<year>[1-9]\\d{3})'
const hourAndMinute = '(?<hour>\\d{1,2}):(?<minute>\\d{2})'
const clock = `${hourAndMinute}(?::(?<second>\\d{2}))?`
const clockWithFraction = `${hourAndMinute}(?::(?<second>\\d{2})(?:\\.\\d+)?)?`
const offset = '(?<offset>Z|[+-]\\d{2}:?\\d{2})'

const formA = new RegExp(
  `^${year}(?<mark>[-/])(?<month>\\d{1,2})\\k<mark>(?<day>\\d{1,2})` +
    `(?:(?:T|${blank}+)${clockWithFraction}(?:${blank}*${offset})?)?$`,
)
const monthFirst = new RegExp(
  `^(?<name>[A-Za-z]+)${blank}+(?<day>\\d{1,2})(?:${blank}*,${blank}*|${blank}+)${year}(?:${blank}+${clock})?$`,
)
const dayFirst = new RegExp(
  `^(?<day>\\d{1,2})${blank}+(?<name>[A-Za-z]+)${blank}+${year}(?:${blank}+${clock})?$`,
)
const formC = new RegExp(
  `^(?<first>\\d{1,2})(?<mark>[-/])(?<other>\\d{1,2})\\k<mark>${year}` +
    `(?:${blank}+${clock}(?:${blank}*(?<half>[AaPp][Mm]))?)?$`,
)

function readDate(text: string, order: DateOrder): ReadDate | null {
  return readFormA(text) ?? readFormB(text) ?? readFormC(text, order)
}

type Groups = Record<string, string | undefined>

const groupsOf = (pattern: RegExp, text: string): Groups | null => pattern.exec(text)?.groups ?? null

function readFormA(text: string): ReadDate | null {
  const groups = groupsOf(formA, text)
  if (groups === null) return null
  const offset = readOffset(groups['offset'])
  if (offset === 'invalid') return null
  return made(groups, Number(groups['month']), Number(groups['day']), Number(groups['hour'] ?? 0), offset)
}

/** "`Z`, `±hh:mm` or `±hhmm` up to 14:00" */
function readOffset(text: string | undefined): number | null | 'invalid' {
  if (text === undefined) return null
  if (text === 'Z') return 0
  const hours = Number(text.slice(1, 3))
  const minutes = Number(text.slice(-2))
  const size = hours * 60 + minutes
  if (minutes > 59 || size > 14 * 60) return 'invalid'
  return text.startsWith('-') ? -size : size
}

const monthNames = [
  'january',
  'february',
  'march',
  'april',
  'may',
  'june',
  'july',
  'august',
  'september',
  'october',
  'november',
  'december',
]

/** "Month in full or its first three letters, any case." */
function monthNamed(name: string): number | null {
  const lowerCased = name.toLowerCase()
  const index = monthNames.findIndex((month) => lowerCased === month || lowerCased === month.slice(0, 3))
  return index === -1 ? null : index + 1
}

function readFormB(text: string): ReadDate | null {
  const groups = groupsOf(monthFirst, text) ?? groupsOf(dayFirst, text)
  if (groups === null) return null
  const month = monthNamed(groups['name']!)
  if (month === null) return null
  return made(groups, month, Number(groups['day']), Number(groups['hour'] ?? 0), null)
}

function readFormC(text: string, order: DateOrder): ReadDate | null {
  const groups = groupsOf(formC, text)
  if (groups === null) return null
  const [first, other] = [Number(groups['first']), Number(groups['other'])]
  // "Under `dmy` a date whose second part is above 12 is the documented `MM-DD-YYYY`."
  const { month, day } = inOrder(first, other, other > 12 ? 'mdy' : order)
  const hour = hourOf(groups)
  return hour === null ? null : made(groups, month, day, hour, null)
}

/** With `am` or `pm` an hour is 1-12: "0:05am, 13:05pm" fail. */
function hourOf(groups: Groups): number | null {
  const hour = Number(groups['hour'] ?? 0)
  const half = groups['half']?.toLowerCase()
  if (half === undefined) return hour
  if (hour < 1 || hour > 12) return null
  return (hour % 12) + (half === 'pm' ? 12 : 0)
}

/** "So do 30 February, 24:00, second 60." */
function made(
  groups: Groups,
  month: number,
  day: number,
  hour: number,
  offset: number | null,
): ReadDate | null {
  const year = Number(groups['year'])
  const minute = Number(groups['minute'] ?? 0)
  const second = Number(groups['second'] ?? 0)
  if (!isDay(year, month, day) || hour > 23 || minute > 59 || second > 59) return null
  return { local: { year, month, day, hour, minute, second }, offset }
}

function isDay(year: number, month: number, day: number): boolean {
  if (month < 1 || month > 12) return false
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
  const days = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
  return day >= 1 && day <= days[month - 1]!
}
