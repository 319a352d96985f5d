import { session } from './session.ts'

/** Numbers and times as the browser's language writes them; times in the organization's zone. */

const numberFormat = new Intl.NumberFormat()
export const number = (value: number): string => numberFormat.format(value)

/** `1 row`, `2,000 rows`. */
export const counted = (count: number, noun: string): string =>
  `${number(count)} ${noun}${count === 1 ? '' : 's'}`

export function bytes(size: number): string {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB']
  const power = size < 1000 ? 0 : Math.min(4, Math.floor(Math.log10(size) / 3))
  const value = size / 1000 ** power
  return `${number(value >= 100 ? Math.round(value) : Math.round(value * 10) / 10)} ${units[power]}`
}

export const zone = (): string => session.value.who?.organization.time_zone_name ?? 'UTC'

const written = (at: string | number, options: Intl.DateTimeFormatOptions, language?: string): string =>
  new Intl.DateTimeFormat(language, { ...options, timeZone: zone() }).format(new Date(at))

export const time = (instant: string): string => written(instant, { dateStyle: 'medium', timeStyle: 'short' })

/** With seconds and the zone, for one record's page. */
export const exactTime = (instant: string): string =>
  `${written(instant, { dateStyle: 'medium', timeStyle: 'medium' })} (${zone()})`

/** The date as the organization's zone has it, in the form that times of the API begin with. */
export const today = (): string => written(Date.now(), { dateStyle: 'short' }, 'sv-SE')

/** Of an instant in seconds, as a plot's axis has it. */
export const clockTime = (at: number): string => written(at * 1000, { timeStyle: 'medium' })

export function duration(seconds: number): string {
  if (seconds < 60) return `${Math.ceil(seconds)} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

export const percent = (share: number): string => `${Math.floor(share * 100)} %`

/** The first letter as a capital, for an API's sentence that stands alone. */
export const sentence = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1)

/** A random name's part, also where the page has no secure context. */
export const randomName = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(20)), (byte) => (byte % 36).toString(36)).join('')
