/** Local times as moments (decisions 1, "Times"), with nothing but what Intl says of a moment. */

export interface LocalTime {
  year: number
  month: number
  day: number
  hour: number
  minute: number
  second: number
}

const hour = 3_600_000

/** "A local time that does not exist moves on by the gap; one that exists twice is the earlier." */
export function momentOf(local: LocalTime, timeZone: string): Date {
  const wall = wallTime(local)
  const before = offsetAt(wall - 36 * hour, timeZone)
  const after = offsetAt(wall + 36 * hour, timeZone)
  const existing = [wall - before, wall - after].filter(
    (moment) => moment + offsetAt(moment, timeZone) === wall,
  )
  // In a gap the offset from before it continues to apply, so the time read is later by the gap.
  return new Date(existing.length > 0 ? Math.min(...existing) : wall - before)
}

/** With an offset in minutes, no zone matters. */
export const momentAtOffset = (local: LocalTime, offsetMinutes: number): Date =>
  new Date(wallTime(local) - offsetMinutes * 60_000)

/** The year that the zone's calendars show at a moment. */
export const yearAt = (moment: Date, timeZone: string): number =>
  new Date(moment.getTime() + offsetAt(moment.getTime(), timeZone)).getUTCFullYear()

/** The local time as if it were UTC's, in milliseconds. */
function wallTime(local: LocalTime): number {
  return Date.UTC(local.year, local.month - 1, local.day, local.hour, local.minute, local.second)
}

/** How far the zone's clocks are ahead of UTC at a moment, in milliseconds. */
function offsetAt(moment: number, timeZone: string): number {
  const parts = Object.fromEntries(
    formatter(timeZone)
      .formatToParts(moment)
      .map(({ type, value }) => [type, value]),
  )
  const shown = wallTime({
    year: Number(parts['year']),
    month: Number(parts['month']),
    day: Number(parts['day']),
    hour: Number(parts['hour']),
    minute: Number(parts['minute']),
    second: Number(parts['second']),
  })
  return shown - moment
}

const formatters = new Map<string, Intl.DateTimeFormat>()

function formatter(timeZone: string): Intl.DateTimeFormat {
  const made =
    formatters.get(timeZone) ??
    new Intl.DateTimeFormat('en-US', {
      timeZone,
      calendar: 'gregory',
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    })
  formatters.set(timeZone, made)
  return made
}
