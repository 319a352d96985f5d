import type { ListedFile } from './ftp-srv-internals.ts'

/** What MLSD, MLST and MDTM say of a file: RFC 3659. */

/** In the order of their telling. */
export const factNames = ['type', 'size', 'modify', 'perm'] as const

/** `YYYYMMDDHHMMSS.sss`, in UTC. */
export const timeFact = (time: Date): string => time.toISOString().replace(/[-:TZ]/g, '')

/** `chosen`: the facts that the client asked for by OPTS MLST; null: all. */
export function factLine(file: ListedFile, chosen: string[] | null, name = file.name): string {
  const facts = factsOf(file)
  const told = factNames.filter((fact) => chosen?.includes(fact) !== false && facts[fact] !== undefined)
  return `${told.map((fact) => `${fact}=${facts[fact]};`).join('')} ${name}`
}

/** A file can be read, written, appended to, renamed and deleted; the directory listed and written into. */
function factsOf(file: ListedFile): Partial<Record<(typeof factNames)[number], string | number>> {
  const modify = timeFact(file.mtime)
  if (file.isDirectory()) return { type: 'dir', modify, perm: 'cel' }
  return { type: 'file', size: file.size, modify, perm: 'adfrw' }
}
