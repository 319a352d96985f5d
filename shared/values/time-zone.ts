import { dayMs, hourMs, minuteMs } from './durations.ts'

/**
 * Converts between UTC and local time of IANA zones. Offsets from `Intl` are cached per zone and hour, because an
 * import with dates asks millions of times about the same few hours.
 */

/** Per zone; 20,000 hours are over two years. A full cache is cleared. */
const maxCachedHours = 20_000

interface Zone {
  formatter: Intl.DateTimeFormat
  /** Offset in milliseconds by UTC hour; hours within which the offset changes are left out. */
  offsets: Map<number, number>
}

const zones = new Map<string, Zone>()

/** Whether `name` is an IANA zone, or a link to one, in this process's time zone data. */
export function isTimeZone(name: string): boolean {
  // Intl also accepts fixed offsets such as "+02:00", which aren't zones.
  if (!/^[A-Za-z][A-Za-z0-9_+\-/]*$/.test(name)) return false
  try {
    new Intl.DateTimeFormat('en-US', { timeZone: name })
    return true
  } catch {
    return false
  }
}

/** The milliseconds by which the zone's clocks are ahead of UTC at an instant. */
export function zoneOffsetMs(zoneName: string, utcMs: number): number {
  if (zoneName === 'UTC') return 0
  const zone = cachedZone(zoneName)
  const hour = Math.floor(utcMs / hourMs)
  const known = zone.offsets.get(hour)
  if (known !== undefined) return known
  const offset = computeOffset(zone, utcMs)
  if (
    computeOffset(zone, hour * hourMs) === offset &&
    computeOffset(zone, (hour + 1) * hourMs - 1) === offset
  ) {
    if (zone.offsets.size >= maxCachedHours) zone.offsets.clear()
    zone.offsets.set(hour, offset)
  }
  return offset
}

/**
 * The instant at which the zone's clocks show a local time; `localMs` counts as if the local time were UTC. A local
 * time in the gap of a clock change moves forward by the gap. Of a local time that exists twice, the earlier instant
 * counts.
 */
export function localToUtcMs(zoneName: string, localMs: number): number {
  if (zoneName === 'UTC') return localMs
  const before = zoneOffsetMs(zoneName, localMs - dayMs)
  const after = zoneOffsetMs(zoneName, localMs + dayMs)
  const early = localMs - before
  if (before === after || zoneOffsetMs(zoneName, early) === before) return early
  const late = localMs - after
  return zoneOffsetMs(zoneName, late) === after ? late : early
}

/** Formats in ISO 8601 with whole seconds and the zone's offset, which is `Z` for UTC. */
export function formatInstant(instant: Date, zoneName: string): string {
  const utcMs = Math.floor(instant.getTime() / 1000) * 1000
  if (zoneName === 'UTC') return `${new Date(utcMs).toISOString().slice(0, -5)}Z`
  // ISO 8601 has no seconds in offsets, which zones had before about 1900: rounded offset and time still name the
  // instant.
  const offsetMinutes = Math.round(zoneOffsetMs(zoneName, utcMs) / minuteMs)
  const local = new Date(utcMs + offsetMinutes * minuteMs).toISOString().slice(0, -5)
  return `${local}${formatOffset(offsetMinutes)}`
}

function formatOffset(minutes: number): string {
  const size = Math.abs(minutes)
  return `${minutes < 0 ? '-' : '+'}${twoDigits(Math.floor(size / 60))}:${twoDigits(size % 60)}`
}

export const twoDigits = (value: number): string => (value < 10 ? `0${value}` : String(value))

function cachedZone(name: string): Zone {
  let zone = zones.get(name)
  if (zone === undefined) {
    const formatter = new Intl.DateTimeFormat('en-US', {
      timeZone: name,
      calendar: 'gregory',
      hourCycle: 'h23',
      era: 'short',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    })
    zone = { formatter, offsets: new Map() }
    zones.set(name, zone)
  }
  return zone
}

function computeOffset(zone: Zone, utcMs: number): number {
  const wholeMs = Math.floor(utcMs / 1000) * 1000
  const parts: Partial<Record<Intl.DateTimeFormatPartTypes, number>> = {}
  for (const { type, value } of zone.formatter.formatToParts(wholeMs)) parts[type] = Number(value)
  const { year = 0, month = 0, day, hour, minute, second } = parts
  return Date.UTC(year, month - 1, day, hour, minute, second) - wholeMs
}
