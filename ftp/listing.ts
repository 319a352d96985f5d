import type { ListedFile } from './ftp-directory.ts'

/** The facts of files that MLSD, MLST and MDTM show: RFC 3659. */

/** In the order in which a line shows them. */
export const factNames = ['type', 'size', 'modify', 'perm'] as const

/** `YYYYMMDDHHMMSS`, in UTC. RFC 3659 allows fractions, and common programs don't read them. */
export const formatTime = (time: Date): string => time.toISOString().slice(0, 19).replace(/[-:T]/g, '')

/** The time of `YYYYMMDDHHMMSS`, in UTC and from 1970 on; a fraction is dropped. Null for any other text. */
export function parseTime(text: string): Date | null {
  const [, year, month, day, hour, minute, second] =
    /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(?:\.\d+)?$/.exec(text) ?? []
  const time = new Date(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`)
  // Dates such as 30 February become others.
  return time.getTime() >= 0 && formatTime(time) === text.slice(0, 14) ? time : null
}

/** `chosen`: the facts that the client selected by OPTS MLST; null means all. */
export function factLine(file: ListedFile, chosen: string[] | null, name = file.name): string {
  const facts = fileFacts(file)
  const shown = factNames.filter((fact) => chosen?.includes(fact) !== false && facts[fact] !== undefined)
  return `${shown.map((fact) => `${fact}=${facts[fact]};`).join('')} ${name}`
}

/** `perm`: a file allows append, delete, rename, read and write; a directory creating, changing into and listing. */
function fileFacts(file: ListedFile): Partial<Record<(typeof factNames)[number], string | number>> {
  const modify = formatTime(file.mtime)
  if (file.isDirectory()) return { type: 'dir', modify, perm: 'cel' }
  return { type: 'file', size: file.size, modify, perm: 'adfrw' }
}
