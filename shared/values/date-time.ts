import { dayMs, minuteMs } from './durations.ts'
import { TextBytes } from './text-bytes.ts'
import { localToUtcMs, twoDigits, zoneOffsetMs } from './time-zone.ts'

/**
 * Parses dates and times in the forms of the contract and in no others. It guesses nothing: 30 February, 24:00 and month
 * 13 are errors. It is hand-written: libraries that try one format after the other take 131 us a value instead of
 * 0.24, and accept dates that don't exist.
 *
 * The first characters tell three families apart:
 *   (a) 2014-01-31, 2014/1/31, then a time and an offset
 *   (b) March 5, 2014; 5 Mar 2014; 5-Mar-2014, then a time and an offset. A weekday before it and parentheses behind it
 *       are ignored.
 *   (c) 1-31-2014, 1/31/2014 (day first under `dmy`), 31.1.2014 (always day first), then a time. Under `dmy`, a second
 *       part above 12 behind a dash or slash can only be the day, and then the first part is the month.
 */
export type DateOrder = 'mdy' | 'dmy'

interface WrittenDateTime {
  year: number
  month: number
  day: number
  /** Second of the day; 0 when the text has no time. */
  second: number
  /** Minutes ahead of UTC; null when the text has no offset. */
  offsetMinutes: number | null
}

/** What stands between a date and its time. */
const gap = String.raw`(?:\s*,\s*|\s+(?:at\s+)?)`
const seconds = String.raw`(?::(\d{2}))?`
const secondsWithFraction = String.raw`(?::(\d{2})(?:\.\d+(?![\d\s]*[AaPp]))?)?`
const zone = String.raw`(?:\s*(Z|UTC|GMT|(?:GMT)?[+-]\d{2}(?::?\d{2})?|GMT[+-]\d))?`
/** Its groups are the hour, the minute, the second and am or pm, and those of `end`. */
const timePattern = (before: string, second: string, end: string) =>
  String.raw`(?:${before}(\d{1,2}):(\d{2})${second}(?:\s*([AaPp][Mm]))?${end})?`

const yearFirst = new RegExp(
  String.raw`^(\d{4})([-/])(\d{1,2})\2(\d{1,2})${timePattern(`(?:T|${gap})`, secondsWithFraction, zone)}$`,
)
const namedMonthEnd = String.raw`${timePattern(gap, seconds, zone)}(?:\s*\([^()]*\))?$`
const monthFirst = new RegExp(String.raw`^([A-Za-z]+)\s+(\d{1,2})(?:\s*,\s*|\s+)(\d{4})${namedMonthEnd}`)
const dayFirst = new RegExp(
  String.raw`^(\d{1,2})(?:\s+(?=[A-Za-z]+\s)|-(?=[A-Za-z]+-))([A-Za-z]+)[\s-]\s*(\d{4})${namedMonthEnd}`,
)
const yearLast = new RegExp(String.raw`^(\d{1,2})([-/.])(\d{1,2})\2(\d{4})${timePattern(gap, seconds, '')}$`)
const weekday = /^(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|mon|tue|wed|thu|fri|sat|sun)(?:\s*,\s*|\s+)/i
const monthAndDay = /^(\d{1,2})[-/](\d{1,2})$/

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
const monthByName = new Map(
  monthNames.flatMap((name, index) => [[name, index + 1] as const, [name.slice(0, 3), index + 1] as const]),
)
const daysInMonth = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

/** Bounds the work of the patterns; no text that they accept is nearly as long. */
const maxTextLength = 100

const noDate =
  /^(?:(?:0000-00-00|00\/00\/0000|0\/0\/0000|0\/0\/00)(?:(?:T|\s+)00?:00(?::00(?:\.0+)?)?)?|\\N|NULL)$/

/** Whether a trimmed text is what databases and Outlook write where there is no date. */
export function isNoDate(text: string): boolean {
  // Nearly all dates begin with another character, which spares the match of the pattern.
  const first = text[0]
  const mayBe = first === '0' || first === '\\' || first === 'N'
  return mayBe && text.length <= maxTextLength && noDate.test(text)
}

/** Parses a trimmed text in one of the forms; null when it has none of them. */
export function parseDateTime(text: string, order: DateOrder): WrittenDateTime | null {
  if (text.length > maxTextLength) return null
  if (text.charCodeAt(0) > 0x39) return readMonthFirst(text) ?? readBehindWeekday(text)
  if (isDigit(text.charCodeAt(1)) && isDigit(text.charCodeAt(2))) return readYearFirst(text)
  return readYearLast(text, order) ?? readDayFirst(text)
}

/** The same by bytes: the usual forms need no string and no pattern. */
export const readDateTime = (text: TextBytes, order: DateOrder): WrittenDateTime | null =>
  readPlainDateTime(text, order) ?? parseDateTime(text.toString(), order)

/** Null also for texts in other forms. */
export const readPlainDateTime = (text: TextBytes, order: DateOrder): WrittenDateTime | null =>
  readPlain(text) ?? readPlainYearLast(text, order)

/** Whether a trimmed text is a date in either order of day and month. */
export const isDateTime = (text: string): boolean =>
  parseDateTime(text, 'mdy') !== null || parseDateTime(text, 'dmy') !== null

function readBehindWeekday(text: string): WrittenDateTime | null {
  const rest = text.replace(weekday, '')
  return rest === text ? null : (readMonthFirst(rest) ?? readDayFirst(rest))
}

const readMonthFirst = (text: string) => readNamedMonth(monthFirst.exec(text), 1, 2)
const readDayFirst = (text: string) => readNamedMonth(dayFirst.exec(text), 2, 1)

const isDigit = (unit: number | undefined): boolean => unit !== undefined && unit >= 0x30 && unit <= 0x39

/** Fast path for `YYYY-MM-DD`, alone or with ` HH:MM` or ` HH:MM:SS`. Null for other texts. */
function readPlain({ bytes, start, length }: TextBytes): WrittenDateTime | null {
  const hasSeconds = length === 19
  const hasTime = hasSeconds || length === 16
  if (!hasTime && length !== 10) return null
  if (bytes[start + 4] !== 0x2d || bytes[start + 7] !== 0x2d) return null
  const year = twoDigitsAt(bytes, start) * 100 + twoDigitsAt(bytes, start + 2)
  const month = twoDigitsAt(bytes, start + 5)
  const day = twoDigitsAt(bytes, start + 8)
  if (!hasTime) return Number.isNaN(year + month + day) ? null : dateTimeIfValid(year, month, day, 0, null)
  if (bytes[start + 10] !== 0x20 && bytes[start + 10] !== 0x54) return null
  if (bytes[start + 13] !== 0x3a || (hasSeconds && bytes[start + 16] !== 0x3a)) return null
  const hour = twoDigitsAt(bytes, start + 11)
  const minute = twoDigitsAt(bytes, start + 14)
  const second = hasSeconds ? twoDigitsAt(bytes, start + 17) : 0
  if (Number.isNaN(year + month + day + hour + minute + second)) return null
  const exists = hour <= 23 && minute <= 59 && second <= 59
  return dateTimeIfValid(year, month, day, exists ? (hour * 60 + minute) * 60 + second : -1, null)
}

const digitAt = (bytes: Buffer, at: number): number => (isDigit(bytes[at]) ? bytes[at]! - 0x30 : Number.NaN)

/** NaN unless there are two digits at `at`. */
function twoDigitsAt(bytes: Buffer, at: number): number {
  const tens = bytes[at]! - 0x30
  const ones = bytes[at + 1]! - 0x30
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : Number.NaN
}

function readYearFirst(text: string): WrittenDateTime | null {
  const match = yearFirst.exec(text)
  if (match === null) return null
  return dateTimeIfValid(
    Number(match[1]),
    Number(match[3]),
    Number(match[4]),
    secondOfDay(match[5], match[6], match[7], match[8]),
    parseOffset(match[9]),
  )
}

/** `name` and `day` are the groups with the month's name and the day; those of the year and the time follow. */
function readNamedMonth(match: RegExpExecArray | null, name: 1 | 2, day: 1 | 2): WrittenDateTime | null {
  if (match === null) return null
  return dateTimeIfValid(
    Number(match[3]),
    monthByName.get(match[name]!.toLowerCase()) ?? 0,
    Number(match[day]),
    secondOfDay(match[4], match[5], match[6], match[7]),
    parseOffset(match[8]),
  )
}

/** Fast path for `D/M/YYYY` without a time. Null for other texts. */
function readPlainYearLast({ bytes, start, end }: TextBytes, order: DateOrder): WrittenDateTime | null {
  const firstEnd = start + (isDigit(bytes[start + 1]) ? 2 : 1)
  const separator = bytes[firstEnd]
  const secondEnd = firstEnd + (isDigit(bytes[firstEnd + 2]) ? 3 : 2)
  if (separator !== 0x2f && separator !== 0x2d) return null
  if (end !== secondEnd + 5 || bytes[secondEnd] !== separator) return null
  const first = firstEnd - start === 2 ? twoDigitsAt(bytes, start) : digitAt(bytes, start)
  const second = secondEnd - firstEnd === 3 ? twoDigitsAt(bytes, firstEnd + 1) : digitAt(bytes, firstEnd + 1)
  const year = twoDigitsAt(bytes, secondEnd + 1) * 100 + twoDigitsAt(bytes, secondEnd + 3)
  if (Number.isNaN(first + second + year)) return null
  const [month, day] = isMonthFirst(second, order) ? [first, second] : [second, first]
  return dateTimeIfValid(year, month, day, 0, null)
}

function readYearLast(text: string, order: DateOrder): WrittenDateTime | null {
  const match = yearLast.exec(text)
  if (match === null) return null
  const first = Number(match[1])
  const second = Number(match[3])
  const isDotted = match[2] === '.'
  const [month, day] = !isDotted && isMonthFirst(second, order) ? [first, second] : [second, first]
  return dateTimeIfValid(
    Number(match[4]),
    month,
    day,
    secondOfDay(match[5], match[6], match[7], match[8]),
    null,
  )
}

/** A second part above 12 can't be a month, so that the first part is the month even under `dmy`. */
const isMonthFirst = (second: number, order: DateOrder): boolean => order === 'mdy' || second > 12

const numericYearLast = /^\d{1,2}([-/])(\d{1,2})\1\d{4}(?!\d)/

/** Whether a date that was parsed under `dmy` has its month first, because its second part is above 12. */
export function isMonthFirstDate(text: string): boolean {
  const match = numericYearLast.exec(text)
  return match !== null && Number(match[2]) > 12
}

/** -1 for a time that doesn't exist, 0 for no time. */
function secondOfDay(
  hourText: string | undefined,
  minuteText: string | undefined,
  secondText: string | undefined,
  meridiem: string | undefined,
): number {
  if (hourText === undefined) return 0
  let hour = Number(hourText)
  const minute = Number(minuteText)
  const second = secondText === undefined ? 0 : Number(secondText)
  if (meridiem !== undefined) {
    if (hour < 1 || hour > 12) return -1
    hour = (hour % 12) + (meridiem.charCodeAt(0) === 0x70 || meridiem.charCodeAt(0) === 0x50 ? 12 : 0)
  }
  return hour > 23 || minute > 59 || second > 59 ? -1 : (hour * 60 + minute) * 60 + second
}

/** Minutes of `Z`, `UTC`, `GMT+1`, `+hh`, `+hhmm` or `+hh:mm`; null for none, NaN for more than 14 hours. */
function parseOffset(text: string | undefined): number | null {
  if (text === undefined) return null
  const digits = /\d.*/.exec(text)?.[0] ?? '0'
  const minutes = digits.length < 3 ? 0 : Number(digits.slice(-2))
  const offset = Number(digits.slice(0, 2)) * 60 + minutes
  if (minutes > 59 || offset > 14 * 60) return Number.NaN
  return text.includes('-') ? -offset : offset
}

function dateTimeIfValid(
  year: number,
  month: number,
  day: number,
  second: number,
  offsetMinutes: number | null,
): WrittenDateTime | null {
  if (year < firstYear || second < 0 || !dayExists(year, month, day)) return null
  if (Number.isNaN(offsetMinutes)) return null
  return { year, month, day, second, offsetMinutes }
}

function dayExists(year: number, month: number, day: number): boolean {
  if (month < 1 || month > 12 || day < 1) return false
  return day <= daysInMonth[month - 1]! + (month === 2 && isLeapYear(year) ? 1 : 0)
}

const isLeapYear = (year: number): boolean => (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0

/**
 * The instant of a parsed text in milliseconds since 1970; a text without an offset is local time of the zone. Null when
 * an offset moves it into a local year outside of 1000 to 9999, because replies couldn't show that year in four digits.
 */
export function toInstantMs(value: WrittenDateTime, zoneName: string): number | null {
  const { year, month, day, second, offsetMinutes } = value
  const localMs = daysSince1970(year, month, day) * dayMs + second * 1000
  if (offsetMinutes === null) return localToUtcMs(zoneName, localMs)
  const utcMs = localMs - offsetMinutes * minuteMs
  // An offset moves an instant by less than a year, so only the first and the last year need a check.
  const isSafe = year > firstYear && year < lastYear
  return isSafe || isInYears(utcMs + zoneOffsetMs(zoneName, utcMs)) ? utcMs : null
}

const firstYear = 1000
const lastYear = 9999

function isInYears(localMs: number): boolean {
  const year = new Date(localMs).getUTCFullYear()
  return year >= firstYear && year <= lastYear
}

/** Integer arithmetic, faster than Date.UTC. Years begin in March here, so that the leap day is their last day. */
function daysSince1970(year: number, month: number, day: number): number {
  const y = month > 2 ? year : year - 1
  const dayOfYear = Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5) + day - 1
  return y * 365 + Math.floor(y / 4) - Math.floor(y / 100) + Math.floor(y / 400) + dayOfYear - 719_468
}

/** Formats the date as `YYYY-MM-DD` and drops time and offset. */
export function toDate(value: WrittenDateTime): string {
  return `${value.year}-${twoDigits(value.month)}-${twoDigits(value.day)}`
}

/** Parses a day of the year to `MM-DD`, from a date in any pattern or from a month and a day in the given order. */
export function parseDayOfYear(text: string, order: DateOrder): string | null {
  const match = monthAndDay.exec(text)
  if (match === null) {
    const full = parseDateTime(text, order)
    return full === null ? null : `${twoDigits(full.month)}-${twoDigits(full.day)}`
  }
  const first = Number(match[1])
  const second = Number(match[2])
  const [month, day] = order === 'mdy' ? [first, second] : [second, first]
  // A leap year, so that 29 February is a valid day of the year.
  return dayExists(2000, month, day) ? `${twoDigits(month)}-${twoDigits(day)}` : null
}

const apiTime = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?$/

/**
 * Parses a time in a request: ISO 8601 with `T`, seconds optional; a time without an offset is local time of the zone.
 * Null when it is malformed or its local year is outside of 1000 to 9999.
 */
export function parseApiTime(text: string, zoneName: string): Date | null {
  const value = apiTime.test(text) ? parseDateTime(text, 'mdy') : null
  const ms = value === null ? null : toInstantMs(value, zoneName)
  return ms === null ? null : new Date(ms)
}
