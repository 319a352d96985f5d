/**
 * Times of day in IANA zones. Offsets are asked of `Intl` once per zone and hour and kept: an import with a date in
 * every row asks millions of times for few hours.
 */

const hourMs = 3_600_000
const dayMs = 24 * hourMs
/** Hours remembered per zone before the memory is started anew: 20,000 hours are over two years. */
const rememberedHours = 20_000

interface Zone {
  formatter: Intl.DateTimeFormat
  /** Offset by UTC hour, for hours over which it doesn't change. */
  offsets: Map<number, number>
}

const zones = new Map<string, Zone>()

/** Whether `name` is an IANA zone (or a link to one) that this process knows. */
export function isTimeZone(name: string): boolean {
  // Intl also takes fixed offsets such as "+02:00"; a zone is asked for.
  if (!/^[A-Za-z][A-Za-z0-9_+\-/]*$/.test(name)) return false
  try {
    new Intl.DateTimeFormat('en-US', { timeZone: name })
    return true
  } catch {
    return false
  }
}

/** Milliseconds that the zone's clocks are ahead of UTC at an instant. */
export function zoneOffsetMs(zoneName: string, utcMs: number): number {
  if (zoneName === 'UTC') return 0
  const zone = zoneOf(zoneName)
  const hour = Math.floor(utcMs / hourMs)
  const known = zone.offsets.get(hour)
  if (known !== undefined) return known
  const offset = computeOffset(zone, utcMs)
  if (
    computeOffset(zone, hour * hourMs) === offset &&
    computeOffset(zone, (hour + 1) * hourMs - 1) === offset
  ) {
    if (zone.offsets.size >= rememberedHours) zone.offsets.clear()
    zone.offsets.set(hour, offset)
  }
  return offset
}

/**
 * The instant at which the zone's clocks show a local time, both in milliseconds as if UTC. A local time that
 * doesn't exist moves on by the gap; one that exists twice is the earlier.
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

/** ISO 8601 in whole seconds in the zone, with its offset; `Z` in UTC. */
export function formatInstant(instant: Date, zoneName: string): string {
  const utcMs = Math.floor(instant.getTime() / 1000) * 1000
  if (zoneName === 'UTC') return `${new Date(utcMs).toISOString().slice(0, -5)}Z`
  // Before about 1900 offsets have seconds, which ISO 8601 can't write: the nearest minute names the same instant.
  const offsetMinutes = Math.round(zoneOffsetMs(zoneName, utcMs) / 60_000)
  const local = new Date(utcMs + offsetMinutes * 60_000).toISOString().slice(0, -5)
  return `${local}${formatOffset(offsetMinutes)}`
}

function formatOffset(minutes: number): string {
  const size = Math.abs(minutes)
  return `${minutes < 0 ? '-' : '+'}${twoDigits(Math.floor(size / 60))}:${twoDigits(size % 60)}`
}

export const twoDigits = (value: number): string => (value < 10 ? `0${value}` : String(value))

function zoneOf(name: string): Zone {
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
  const part: Record<string, number> = {}
  for (const { type, value } of zone.formatter.formatToParts(wholeMs)) part[type] = Number(value)
  return (
    Date.UTC(part['year']!, part['month']! - 1, part['day'], part['hour'], part['minute'], part['second']) -
    wholeMs
  )
}
