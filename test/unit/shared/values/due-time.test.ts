import fc from 'fast-check'
import t from 'tap'
import type { Delay } from '../../../../shared/contract/schemas/autoresponder.ts'
import { dueTime } from '../../../../shared/values/due-time.ts'

/**
 * Compares when a reaction is due with a second implementation. It asks the local clock hour by hour and minute by
 * minute, and counts calendar days one by one.
 */

const delay = (settings: Partial<Delay>): Delay => ({
  delay: 'with_delay',
  delay_amount: 1,
  delay_unit: 'days',
  delay_time: 9,
  ...settings,
})
const due = (settings: Partial<Delay>, causedAt: string, zone: string): string =>
  dueTime(delay(settings), new Date(causedAt), zone).toISOString()

t.test('a reaction is due at once, or after minutes and hours that elapse', (t) => {
  const at = '2026-03-29T00:30:00.000Z'
  t.equal(
    due({ delay: 'immediately', delay_unit: null, delay_amount: 0, delay_time: 0 }, at, 'Europe/Berlin'),
    at,
  )
  t.equal(due({ delay: 'immediately' }, at, 'Europe/Berlin'), at, 'whatever amount stands beside it')
  t.equal(due({ delay_unit: null }, at, 'Europe/Berlin'), at)
  t.equal(
    due({ delay_unit: 'minutes', delay_amount: 45, delay_time: 0 }, at, 'Europe/Berlin'),
    '2026-03-29T01:15:00.000Z',
  )
  t.equal(
    due({ delay_unit: 'hours', delay_amount: 24, delay_time: 0 }, at, 'Europe/Berlin'),
    '2026-03-30T00:30:00.000Z',
  )
  t.end()
})

t.test('days, weeks and months are those of the calendar, at the hour of the zone', (t) => {
  const cases: [Partial<Delay>, string, string, string][] = [
    // Over the change to summer time and back: at nine in the morning.
    [{}, '2026-03-28T12:00:00Z', 'Europe/Berlin', '2026-03-29T07:00:00.000Z'],
    [{}, '2026-10-24T12:00:00Z', 'Europe/Berlin', '2026-10-25T08:00:00.000Z'],
    // 02:00 doesn't exist on 29 March, and exists twice on 25 October.
    [{ delay_time: 2 }, '2026-03-28T12:00:00Z', 'Europe/Berlin', '2026-03-29T01:00:00.000Z'],
    [{ delay_time: 2 }, '2026-10-24T12:00:00Z', 'Europe/Berlin', '2026-10-25T00:00:00.000Z'],
    // The day is that of the zone: 23:30 in New York is tomorrow in UTC.
    [{ delay_time: 0 }, '2026-06-02T03:30:00Z', 'America/New_York', '2026-06-02T04:00:00.000Z'],
    [{ delay_unit: 'weeks', delay_amount: 2 }, '2026-06-02T03:30:00Z', 'UTC', '2026-06-16T09:00:00.000Z'],
    // Ends of months, also of February, with and without a 29th.
    [{ delay_unit: 'months' }, '2026-01-31T10:00:00Z', 'UTC', '2026-02-28T09:00:00.000Z'],
    [{ delay_unit: 'months' }, '2028-01-31T10:00:00Z', 'UTC', '2028-02-29T09:00:00.000Z'],
    [{ delay_unit: 'months', delay_amount: 12 }, '2028-02-29T10:00:00Z', 'UTC', '2029-02-28T09:00:00.000Z'],
    [{ delay_unit: 'months', delay_amount: 48 }, '2028-02-29T10:00:00Z', 'UTC', '2032-02-29T09:00:00.000Z'],
    [{ delay_unit: 'months', delay_amount: 3 }, '2026-11-30T10:00:00Z', 'UTC', '2027-02-28T09:00:00.000Z'],
    // Zones with half hours and quarters, and one that changes by half an hour.
    [{}, '2026-06-01T12:00:00Z', 'Asia/Kolkata', '2026-06-02T03:30:00.000Z'],
    [{}, '2026-06-01T12:00:00Z', 'Asia/Kathmandu', '2026-06-02T03:15:00.000Z'],
    [{}, '2026-10-03T02:00:00Z', 'Australia/Lord_Howe', '2026-10-03T22:00:00.000Z'],
    [{ delay_time: 2 }, '2026-10-03T02:00:00Z', 'Australia/Lord_Howe', '2026-10-03T15:30:00.000Z'],
    // Samoa had no 30 December 2011: nine on that day was nine on the next.
    [{}, '2011-12-29T20:00:00Z', 'Pacific/Apia', '2011-12-30T19:00:00.000Z'],
    // Midnight that doesn't exist.
    [{ delay_time: 0 }, '2018-11-03T12:00:00Z', 'America/Sao_Paulo', '2018-11-04T03:00:00.000Z'],
  ]
  for (const [settings, causedAt, zone, expected] of cases)
    t.equal(
      due(settings, causedAt, zone),
      expected,
      `${JSON.stringify(settings)} after ${causedAt} in ${zone}`,
    )
  t.end()
})

const zones = [
  ...['UTC', 'Europe/Berlin', 'America/New_York', 'America/St_Johns'],
  ...['America/Sao_Paulo', 'Australia/Lord_Howe', 'Australia/Adelaide', 'Asia/Kathmandu'],
  ...['Africa/Casablanca', 'Pacific/Chatham', 'Asia/Tehran', 'Pacific/Apia'],
]

const minuteMs = 60_000
const formatters = new Map<string, Intl.DateTimeFormat>()

/** The local time in the zone, as `YYYY-MM-DD HH:MM`. */
function shown(zone: string, ms: number): string {
  let formatter = formatters.get(zone)
  if (formatter === undefined) {
    formatter = new Intl.DateTimeFormat('sv-SE', {
      timeZone: zone,
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
    })
    formatters.set(zone, formatter)
  }
  return formatter.format(ms)
}

const isLeap = (year: number): boolean => (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0
const daysOf = (year: number, month: number): number =>
  [31, isLeap(year) ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1]!

function laterDay(day: string, unit: 'days' | 'weeks' | 'months', amount: number): string {
  let [year, month, date] = day.split('-').map(Number) as [number, number, number]
  if (unit === 'months') {
    for (let i = 0; i < amount; i += 1) {
      month += 1
      if (month > 12) [year, month] = [year + 1, 1]
    }
    date = Math.min(date, daysOf(year, month))
  } else {
    for (let i = 0; i < amount * (unit === 'weeks' ? 7 : 1); i += 1) {
      date += 1
      if (date > daysOf(year, month)) [month, date] = [month + 1, 1]
      if (month > 12) [year, month] = [year + 1, 1]
    }
  }
  return [year, String(month).padStart(2, '0'), String(date).padStart(2, '0')].join('-')
}

/**
 * The first moment at which the clock shows that time. Where it never does, the moment is as long after the jump as
 * the time is after what the clock showed last.
 */
function slowDueMs(settings: Delay, causedMs: number, zone: string): number {
  const day = laterDay(
    shown(zone, causedMs).slice(0, 10),
    settings.delay_unit as 'days' | 'weeks' | 'months',
    settings.delay_amount,
  )
  const wanted = `${day} ${String(settings.delay_time).padStart(2, '0')}:00`
  // No clock is further from UTC than 15 hours or so.
  let ms = Date.parse(`${day}T00:00:00Z`) + settings.delay_time * 60 * minuteMs - 26 * 60 * minuteMs
  const skipBy = (step: number): void => {
    while (shown(zone, ms + step) < wanted) ms += step
  }
  for (const step of [60 * minuteMs, 15 * minuteMs, minuteMs]) skipBy(step)
  const jump = ms + minuteMs
  if (shown(zone, jump) === wanted) return jump
  const before = Date.parse(`${shown(zone, ms).replace(' ', 'T')}:00Z`)
  return ms + (Date.parse(`${wanted.replace(' ', 'T')}:00Z`) - before)
}

t.test('a reaction is due by the local clock', { timeout: 60_000 }, (t) => {
  const cases = fc.record({
    zone: fc.constantFrom(...zones),
    unit: fc.constantFrom('days', 'weeks', 'months'),
    amount: fc.integer({ min: 1, max: 40 }),
    hour: fc.integer({ min: 0, max: 23 }),
    causedMs: fc.integer({
      min: Date.parse('2005-01-01T00:00:00Z') / minuteMs,
      max: Date.parse('2036-12-31T00:00:00Z') / minuteMs,
    }),
  })
  fc.assert(
    fc.property(cases, ({ zone, unit, amount, hour, causedMs }) => {
      const settings = delay({ delay_unit: unit, delay_amount: amount, delay_time: hour })
      const caused = causedMs * minuteMs
      const found = dueTime(settings, new Date(caused), zone).getTime()
      const expected = slowDueMs(settings, caused, zone)
      if (found !== expected)
        throw new Error(
          `${amount} ${unit} at ${hour} after ${shown(zone, caused)} in ${zone}: ${shown(zone, found)}, not ${shown(zone, expected)}`,
        )
    }),
    { numRuns: Number(process.env['ROLLCALL_CASES'] ?? 400), seed: 1 },
  )
  t.pass('all of them')
  t.end()
})
