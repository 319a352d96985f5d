import type { Delay } from '../contract/schemas/autoresponder.ts'
import { dayMs, hourMs, minuteMs } from './durations.ts'
import { localToUtcMs, zoneOffsetMs } from './time-zone.ts'

/**
 * Computes when a reaction is due. Minutes and hours are elapsed time. Days, weeks and months follow the calendar of
 * the organization's zone and are due at the delay's hour there. A month without the day uses its last day. An hour
 * that the clocks skip moves to the next one; an hour that they show twice counts the first time.
 */
export function dueTime(delay: Delay, causedAt: Date, zoneName: string): Date {
  const { delay: kind, delay_amount: amount, delay_unit: unit, delay_time: hour } = delay
  if (kind === 'immediately' || unit === null) return causedAt
  if (unit === 'minutes') return new Date(causedAt.getTime() + amount * minuteMs)
  if (unit === 'hours') return new Date(causedAt.getTime() + amount * hourMs)
  const localMs = causedAt.getTime() + zoneOffsetMs(zoneName, causedAt.getTime())
  const dayStartMs = Math.floor(localMs / dayMs) * dayMs
  const dueDayMs =
    unit === 'months'
      ? monthsLater(dayStartMs, amount)
      : dayStartMs + amount * (unit === 'weeks' ? 7 : 1) * dayMs
  return new Date(localToUtcMs(zoneName, dueDayMs + hour * hourMs))
}

function monthsLater(dayStartMs: number, months: number): number {
  const day = new Date(dayStartMs)
  const first = Date.UTC(day.getUTCFullYear(), day.getUTCMonth() + months, 1)
  const daysInMonth = new Date(Date.UTC(day.getUTCFullYear(), day.getUTCMonth() + months + 1, 0)).getUTCDate()
  return first + (Math.min(day.getUTCDate(), daysInMonth) - 1) * dayMs
}
