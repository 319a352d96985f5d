import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { clock } from '../shared/runtime/clock.ts'
import { maxFileNameBytes } from '../shared/values/upload-names.ts'

/**
 * Patterns of names in LIST and NLST, with which clients expand `mget` on the server: `*` is any characters, `?` one,
 * `[a-z]` one of a set, `[!a-z]` one that is not in the set. Letters match in the same case only.
 */

export const maxPatternLength = maxFileNameBytes
/** Between two yields to the event loop. */
const sliceMs = 10

type Token = '*' | ((character: string) => boolean)

export const isPattern = (text: string): boolean => /[*?[]/.test(text)

/** The files whose names match. It yields to the event loop every 10 ms, so that other sessions keep being served. */
export async function matchFiles<File extends { name: string }>(
  files: readonly File[],
  pattern: string,
  signal: AbortSignal,
): Promise<File[]> {
  const isMatch = patternMatcher(pattern)
  const matches: File[] = []
  let sliceEndsAt = clock.monotonicMs() + sliceMs
  for (const file of files) {
    if (isMatch(file.name)) matches.push(file)
    if (clock.monotonicMs() < sliceEndsAt) continue
    await yieldToEventLoop()
    signal.throwIfAborted()
    sliceEndsAt = clock.monotonicMs() + sliceMs
  }
  return matches
}

/**
 * A function that tests one name. It backtracks only to the last `*`, so its steps are at most the length of the name
 * times the length of the pattern.
 */
export function patternMatcher(pattern: string): (name: string) => boolean {
  const tokens = parseTokens(Array.from(pattern))
  const minLength = tokens.filter((token) => token !== '*').length
  return (name) => {
    const characters = Array.from(name)
    return characters.length >= minLength && matchesTokens(characters, tokens)
  }
}

function matchesTokens(characters: string[], tokens: Token[]): boolean {
  let at = 0
  let token = 0
  let lastStar = -1
  let atLastStar = 0
  for (let character = characters[at]; character !== undefined; character = characters[at]) {
    const expected = tokens[token]
    if (expected === '*') {
      lastStar = token
      atLastStar = at
      token += 1
    } else if (expected?.(character) === true) {
      at += 1
      token += 1
    } else if (lastStar === -1) return false
    else {
      // Backtracks: the last star takes one more character.
      atLastStar += 1
      at = atLastStar
      token = lastStar + 1
    }
  }
  return tokens.slice(token).every((rest) => rest === '*')
}

function parseTokens(pattern: string[]): Token[] {
  const tokens: Token[] = []
  let setEnd = -1
  for (const [at, character] of pattern.entries()) {
    if (at <= setEnd) continue
    const end = character === '[' ? findSetEnd(pattern, at) : -1
    if (character === '*') {
      if (tokens.at(-1) !== '*') tokens.push('*')
    } else if (character === '?') tokens.push(() => true)
    else if (end === -1) tokens.push((other) => other === character)
    else {
      tokens.push(setMatcher(pattern.slice(at + 1, end)))
      setEnd = end
    }
  }
  return tokens
}

/** A `]` right at the beginning belongs to the set. -1 when the set has no end: then `[` is an ordinary character. */
function findSetEnd(pattern: string[], begin: number): number {
  const isNegated = ['!', '^'].includes(pattern[begin + 1] ?? '')
  return pattern.indexOf(']', begin + (isNegated ? 3 : 2))
}

function setMatcher(set: string[]): (character: string) => boolean {
  const isNegated = set[0] === '!' || set[0] === '^'
  const members = isNegated ? set.slice(1) : set
  const ranges: { first: number; last: number }[] = []
  let rangeEnd = -1
  for (const [at, first] of members.entries()) {
    if (at <= rangeEnd) continue
    const last = members[at + 1] === '-' ? members[at + 2] : undefined
    ranges.push({ first: codePoint(first), last: codePoint(last ?? first) })
    if (last !== undefined) rangeEnd = at + 2
  }
  return (character) => {
    const code = codePoint(character)
    return ranges.some(({ first, last }) => first <= code && code <= last) !== isNegated
  }
}

/** The first code point of a string that isn't empty. */
const codePoint = (character: string): number => character.codePointAt(0) ?? 0
