import fc from 'fast-check'
import t from 'tap'
import { formatInstant, isTimeZone, localToUtcMs, zoneOffsetMs } from '../../../../shared/values/time-zone.ts'

// Temporal is this file's oracle: slow, exact, and independent of our code.
declare const Temporal: {
  PlainDateTime: {
    from(text: string): {
      toZonedDateTime(zone: string, options: { disambiguation: 'compatible' }): { epochMilliseconds: number }
    }
  }
  Instant: {
    fromEpochMilliseconds(ms: number): { toZonedDateTimeISO(zone: string): { offsetNanoseconds: number } }
  }
}

const zones = [
  ...['UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Australia/Lord_Howe'],
  ...['America/St_Johns', 'Africa/Casablanca', 'Pacific/Apia', 'Asia/Kathmandu', 'Europe/Dublin'],
]

t.test('offsets and local times agree with Temporal, in summer, winter, gaps and overlaps', async (t) => {
  const second = fc.integer({ min: Date.UTC(1901, 0, 1) / 1000, max: Date.UTC(2060, 0, 1) / 1000 })
  fc.assert(
    fc.property(fc.constantFrom(...zones), second, (zone, seconds) => {
      const ms = seconds * 1000
      const offset =
        Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(zone).offsetNanoseconds / 1e6
      const local = new Date(ms).toISOString().slice(0, -5)
      const utc = Temporal.PlainDateTime.from(local).toZonedDateTime(zone, {
        disambiguation: 'compatible',
      }).epochMilliseconds
      return zoneOffsetMs(zone, ms) === offset && localToUtcMs(zone, ms) === utc
    }),
    { numRuns: 10_000 },
  )
  t.pass('random local times')
})

t.test('a time in the gap of summer time moves on by it; one that exists twice is the earlier', async (t) => {
  const local = (text: string) => Date.parse(`${text}Z`)
  t.equal(
    new Date(localToUtcMs('Europe/Berlin', local('2026-03-29T02:30:00'))).toISOString(),
    '2026-03-29T01:30:00.000Z',
  )
  t.equal(
    new Date(localToUtcMs('Europe/Berlin', local('2026-10-25T02:30:00'))).toISOString(),
    '2026-10-25T00:30:00.000Z',
  )
  t.equal(
    new Date(localToUtcMs('Australia/Lord_Howe', local('2026-10-04T02:15:00'))).toISOString(),
    '2026-10-03T15:45:00.000Z',
    'a gap of half an hour',
  )
})

t.test('times are shown in whole seconds with their offset, Z in UTC', async (t) => {
  const instant = new Date('2026-07-01T10:20:30.999Z')
  t.equal(formatInstant(instant, 'UTC'), '2026-07-01T10:20:30Z')
  t.equal(formatInstant(instant, 'Asia/Kolkata'), '2026-07-01T15:50:30+05:30')
  t.equal(formatInstant(instant, 'America/New_York'), '2026-07-01T06:20:30-04:00')
  t.equal(
    formatInstant(new Date('1800-01-01T00:00:00Z'), 'America/New_York'),
    '1799-12-31T19:04:00-04:56',
    'offsets with seconds are rounded, the instant is not',
  )
})

t.test('a zone is an IANA name', async (t) => {
  for (const name of ['UTC', 'Europe/Berlin', 'America/Argentina/Buenos_Aires', 'Etc/GMT+5'])
    t.ok(isTimeZone(name), name)
  for (const name of ['', 'Mars/Olympus', '+02:00', 'Berlin', '../etc/passwd', 'Europe/Berlin '])
    t.equal(isTimeZone(name), false, name)
})

t.test('clocks may change in the middle of an hour', async (t) => {
  // India went back from an hour of summer time at 17:30 UTC.
  t.equal(zoneOffsetMs('Asia/Kolkata', Date.parse('1945-10-14T17:40:00Z')), 5.5 * 3_600_000)
  t.equal(zoneOffsetMs('Asia/Kolkata', Date.parse('1945-10-14T17:10:00Z')), 6.5 * 3_600_000)
  // Liberia went from 44 minutes and 30 seconds behind to Greenwich's time in 1972, at 00:44:30 UTC.
  const offset = (text: string) => zoneOffsetMs('Africa/Monrovia', Date.parse(text))
  for (let again = 0; again < 2; again += 1) {
    t.equal(offset('1972-01-07T00:44:29Z'), -2_670_000)
    t.equal(offset('1972-01-07T00:44:30Z'), 0)
    t.equal(offset('1972-01-07T00:10:00Z'), -2_670_000)
    t.equal(offset('1972-01-07T00:50:00Z'), 0)
  }
})

t.test('a zone without an offset is not behind', async (t) => {
  t.equal(formatInstant(new Date('2026-01-02T03:04:05Z'), 'Africa/Abidjan'), '2026-01-02T03:04:05+00:00')
})
