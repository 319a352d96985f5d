import { comparisonForm } from '../../shared/values/identity.ts'
import { usage } from './failures.ts'

/** A column's meaning: a built-in column or a custom field; null for a column that is ignored. */
export type Mapped = string | null

/** What --map says: the whole mapping, or single columns (counted from 1) of the guess. */
export type ColumnMap = { whole: Mapped[] } | { changes: Map<number, Mapped> }

export const isSameName = (a: string, b: string): boolean => comparisonForm(a) === comparisonForm(b)

/** A column's number if there is one, a name that may be enclosed in `"`, and the comma or the end after it. */
const partPattern = /\s*(?:(\d+)\s*=\s*)?(?:"((?:[^"]|"")*)"\s*|([^",\s][^,]*|))(,|$)/y

/** Parses `email,First name,"Last, first",-` or `2=First name,3=ignore`. Throws wrong usage. */
export function parseMap(text: string): ColumnMap {
  const parts: { column: number | null; name: Mapped }[] = []
  for (let at = 0; ;) {
    partPattern.lastIndex = at
    const match = partPattern.exec(text)
    if (match === null)
      throw usage(
        `--map ${text}: enclose a name that has a comma, a = or a " at its beginning in " as a whole`,
      )
    const [all, column, enclosed, bare, end] = match
    parts.push({
      column: column === undefined ? null : Number(column),
      name:
        enclosed === undefined
          ? bareName(bare ?? '', text)
          : nameOrNull(enclosed.replaceAll('""', '"').trim()),
    })
    if (end === '') break
    at += all.length
  }
  if (parts.every(({ column }) => column !== null)) return { changes: asChanges(parts, text) }
  const numbered = parts.find(({ column }) => column !== null)
  if (numbered !== undefined)
    throw usage(
      `--map ${text}: either each part is NUMBER=NAME, or none is; enclose a name with a = in ", as in "${numbered.column}=${numbered.name ?? ''}"`,
    )
  return { whole: parts.map(({ name }) => name) }
}

function bareName(text: string, map: string): Mapped {
  const name = text.trim()
  if (name.includes('=')) throw usage(`--map ${map}: enclose a name with a = in ", as in "${name}"`)
  return name === '-' || name === 'ignore' ? null : nameOrNull(name)
}

const nameOrNull = (name: string): Mapped => (name === '' ? null : name)

function asChanges(parts: { column: number | null; name: Mapped }[], map: string): Map<number, Mapped> {
  const changes = new Map<number, Mapped>()
  for (const { column, name } of parts) {
    if (column === null || column === 0) throw usage(`--map ${map}: columns are counted from 1`)
    if (changes.has(column)) throw usage(`--map ${map}: column ${column} is there twice`)
    changes.set(column, name)
  }
  return changes
}

/**
 * The mapping of a file's columns. Where a change names what the guess has for another column, that column is ignored
 * instead. Throws wrong usage for a column that the file doesn't have.
 */
export function applyMap(map: ColumnMap, guess: Mapped[]): Mapped[] {
  if ('whole' in map) return map.whole
  const beyond = [...map.changes.keys()].find((column) => column > guess.length)
  if (beyond !== undefined)
    throw usage(`--map names column ${beyond}, but the file has ${guess.length} columns`)
  const named = [...map.changes.values()].filter((name) => name !== null)
  return guess.map((guessed, i) => {
    const change = map.changes.get(i + 1)
    if (change !== undefined) return change
    return guessed !== null && named.some((name) => isSameName(name, guessed)) ? null : guessed
  })
}
