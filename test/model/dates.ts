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

const year = '(?<year>[1-9]\\d{3})'
const formA = new RegExp(`^${year}(?<mark>[-/])(?<month>\\d{1,2})\\k<mark>(?<day>\\d{1,2})(?<rest>.*)$`)
const monthFirst = new RegExp(`^(?<name>[A-Za-z]+) +(?<day>\\d{1,2})(?: *, *| +)${year}(?<rest>.*)$`)
const dayFirst = new RegExp(
  `^(?<day>\\d{1,2})(?:-(?<dashed>[A-Za-z]+)-| +(?<name>[A-Za-z]+) +)${year}(?<rest>.*)$`,
)
const formC = new RegExp(`^(?<first>\\d{1,2})(?<mark>[-/.])(?<other>\\d{1,2})\\k<mark>${year}(?<rest>.*)$`)

/** "Every blank that `trim` knows and U+202F among them." */
const withPlainBlanks = (text: string): string =>
  Array.from(text, (character) => (character.trim() === '' || character === '\u202f' ? ' ' : character)).join(
    '',
  )

function readDate(text: string, order: DateOrder): ReadDate | null {
  const plain = withPlainBlanks(text)
  return readFormA(plain) ?? readFormB(plain) ?? readFormC(plain, order)
}

type Groups = Record<string, string | undefined>

const groupsOf = (pattern: RegExp, text: string): Groups | null => pattern.exec(text)?.groups ?? null

interface Clock {
  hour: number
  minute: number
  second: number
  offset: number | null
}

const midnight: Clock = { hour: 0, minute: 0, second: 0, offset: null }

/** What each form of date may have behind it. */
interface Behind {
  isTBetween?: boolean
  hasFraction?: boolean
  hasZone?: boolean
}

/** "A blank", "a comma or the word `at` may stand between date and time"; "0:05am, 13:05pm" fail. */
function readClock(rest: string, behind: Behind): Clock | null {
  if (rest === '') return midnight
  const start = /^( *, *| +at +| +|T)(?=\d)/.exec(rest)?.[0]
  if (start === undefined || (start === 'T' && behind.isTBetween !== true)) return null
  const time = /^(\d{1,2}):(\d{2})(?::(\d{2})(\.\d+)?)?(?: *(am|pm))?(.*)$/i.exec(rest.slice(start.length))
  if (time === null) return null
  const [, hour, minute, second = '0', fraction, half, zone] = time
  if (fraction !== undefined && (behind.hasFraction !== true || half !== undefined)) return null
  if (zone !== '' && behind.hasZone !== true) return null
  const hours = half === undefined ? Number(hour) : hourOf(Number(hour), half.toLowerCase())
  const offset = zone === '' ? null : readOffset(zone!.trim())
  if (hours === null || offset === 'invalid') return null
  return { hour: hours, minute: Number(minute), second: Number(second), offset }
}

/** With `am` or `pm` an hour is 1-12. */
function hourOf(hour: number, half: string): number | null {
  if (hour < 1 || hour > 12) return null
  return (hour % 12) + (half === 'pm' ? 12 : 0)
}

function readFormA(text: string): ReadDate | null {
  const groups = groupsOf(formA, text)
  if (groups === null) return null
  const behind = { isTBetween: true, hasFraction: true, hasZone: true }
  return made(groups, Number(groups['month']), readClock(groups['rest']!, behind))
}

/** "`Z`, `UTC`, `GMT`, `±hh`, `±hhmm`, `±hh:mm` up to 14:00", "`GMT+0100`, `GMT+1` too". */
function readOffset(text: string): number | 'invalid' {
  if (['Z', 'UTC', 'GMT'].includes(text)) return 0
  const match =
    /^(?:GMT)?(?<sign>[+-])(?<hours>\d{2})(?::?(?<minutes>\d{2}))?$/.exec(text) ??
    /^GMT(?<sign>[+-])(?<hours>\d)$/.exec(text)
  if (match === null) return 'invalid'
  const { sign, hours, minutes = '0' } = match.groups!
  const size = Number(hours) * 60 + Number(minutes)
  if (Number(minutes) > 59 || size > 14 * 60) return 'invalid'
  return sign === '-' ? -size : size
}

const monthNames = [
  ...['january', 'february', 'march', 'april', 'may', 'june', 'july'],
  ...['august', 'september', 'october', 'november', 'december'],
]

/** "Month in full or its first three letters, any case." */
function monthNamed(name: string): number | null {
  const lowerCased = name.toLowerCase()
  const index = monthNames.findIndex((month) => lowerCased === month || lowerCased === month.slice(0, 3))
  return index === -1 ? null : index + 1
}

const weekdays = ['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday']

/** "Before it a weekday's name (in full or three letters, a comma allowed), behind it text in parentheses are ignored". */
function readFormB(text: string): ReadDate | null {
  const [, name, rest] = /^([A-Za-z]+)(?: *, *| +)(.*)$/.exec(text) ?? []
  const isWeekday = weekdays.some((day) => [day, day.slice(0, 3)].includes(name?.toLowerCase() ?? ''))
  const bare = (isWeekday ? rest! : text).replace(/ *\([^()]*\)$/, '')
  const groups = groupsOf(monthFirst, bare) ?? groupsOf(dayFirst, bare)
  if (groups === null) return null
  const month = monthNamed((groups['name'] ?? groups['dashed'])!)
  return month === null ? null : made(groups, month, readClock(groups['rest']!, { hasZone: true }))
}

function readFormC(text: string, order: DateOrder): ReadDate | null {
  const groups = groupsOf(formC, text)
  if (groups === null) return null
  const [first, other] = [Number(groups['first']), Number(groups['other'])]
  // "With dots `D.M.YYYY`, day first always"; "under `dmy` a date with dashes or slashes whose second part is above 12
  // is the documented `MM-DD-YYYY`."
  const usedOrder = groups['mark'] === '.' ? 'dmy' : other > 12 ? 'mdy' : order
  const { month, day } = inOrder(first, other, usedOrder)
  return made({ ...groups, day: String(day) }, month, readClock(groups['rest']!, {}))
}

/** "Under `dmy` a date with dashes or slashes whose second part is above 12", of which there is a warning. */
export function isMonthFirst(text: string): boolean {
  const groups = groupsOf(formC, withPlainBlanks(text))
  return groups !== null && groups['mark'] !== '.' && Number(groups['other']) > 12
}

/** "So do 30 February, 24:00, second 60." */
function made(groups: Groups, month: number, clock: Clock | null): ReadDate | null {
  const [year, day] = [Number(groups['year']), Number(groups['day'])]
  if (clock === null || !isDay(year, month, day)) return null
  const { hour, minute, second, offset } = clock
  if (hour > 23 || minute > 59 || second > 59) return null
  return { local: { year, month, day, hour, minute, second }, offset }
}

/** "`0000-00-00`, `00/00/0000`, `0/0/0000`, `0/0/00`, each also with a time of zeros, `\N`, `NULL`." */
export function isNoDate(text: string): boolean {
  const [date, time, ...more] = withPlainBlanks(text).split(/ +|T/)
  if (['\\N', 'NULL'].includes(text)) return true
  if (more.length > 0 || !['0000-00-00', '00/00/0000', '0/0/0000', '0/0/00'].includes(date!)) return false
  return time === undefined || /^0{1,2}:00(:00(\.0+)?)?$/.test(time)
}

function isDay(year: number, month: number, day: number): boolean {
  if (month < 1 || month > 12) return false
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
  const days = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
  return day >= 1 && day <= days[month - 1]!
}
