import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { clock } from '../shared/runtime/clock.ts'

/**
 * Patterns of names in LIST and NLST, which clients have the server expand for `mget` and the like: `*` is any
 * characters, `?` one, `[a-z]` one of these, `[!a-z]` one that is none of these. With case, as names have it.
 */

/** As many as the longest name has bytes. */
export const maxPatternLength = 200
const pieceMs = 10

type Token = '*' | ((character: string) => boolean)

export const isPattern = (text: string): boolean => /[*?[]/.test(text)

/** The files whose names match. Other sessions have their turn after each piece of the work. */
export async function filesLike<File extends { name: string }>(
  files: readonly File[],
  pattern: string,
  signal: AbortSignal,
): Promise<File[]> {
  const isMatch = patternMatcher(pattern)
  const found: File[] = []
  let pieceEndsAt = clock.monotonicMs() + pieceMs
  for (const file of files) {
    if (isMatch(file.name)) found.push(file)
    if (clock.monotonicMs() < pieceEndsAt) continue
    await yieldToEventLoop()
    signal.throwIfAborted()
    pieceEndsAt = clock.monotonicMs() + pieceMs
  }
  return found
}

/**
 * Makes the test whether a name matches. It only ever goes back to the last `*`, so it takes at most as many steps as
 * the name has characters times the pattern's.
 */
export function patternMatcher(pattern: string): (name: string) => boolean {
  const tokens = tokensOf(Array.from(pattern))
  const minLength = tokens.filter((token) => token !== '*').length
  return (name) => {
    const characters = Array.from(name)
    return characters.length >= minLength && matches(characters, tokens)
  }
}

function matches(characters: string[], tokens: Token[]): boolean {
  let at = 0
  let token = 0
  let lastStar = -1
  let atLastStar = 0
  while (at < characters.length) {
    const wanted = tokens[token]
    if (wanted === '*') {
      lastStar = token
      atLastStar = at
      token += 1
    } else if (wanted?.(characters[at]!) === true) {
      at += 1
      token += 1
    } else if (lastStar === -1) return false
    else {
      // One character more for the last star.
      atLastStar += 1
      at = atLastStar
      token = lastStar + 1
    }
  }
  return tokens.slice(token).every((rest) => rest === '*')
}

function tokensOf(pattern: string[]): Token[] {
  const tokens: Token[] = []
  for (let at = 0; at < pattern.length; at += 1) {
    const character = pattern[at]!
    const end = character === '[' ? endOfSet(pattern, at) : -1
    if (character === '*') {
      if (tokens.at(-1) !== '*') tokens.push('*')
    } else if (character === '?') tokens.push(() => true)
    else if (end === -1) tokens.push((other) => other === character)
    else {
      tokens.push(setMatcher(pattern.slice(at + 1, end)))
      at = end
    }
  }
  return tokens
}

/** A bracket right after the beginning is one of the set; -1: a set without an end is a bracket like any other. */
function endOfSet(pattern: string[], begin: number): number {
  const isNegated = ['!', '^'].includes(pattern[begin + 1] ?? '')
  return pattern.indexOf(']', begin + (isNegated ? 3 : 2))
}

function setMatcher(set: string[]): (character: string) => boolean {
  const isNegated = set[0] === '!' || set[0] === '^'
  const members = isNegated ? set.slice(1) : set
  const ranges: [number, number][] = []
  for (let at = 0; at < members.length; at += 1) {
    const isRange = members[at + 1] === '-' && members[at + 2] !== undefined
    ranges.push([codeOf(members[at]!), codeOf(members[isRange ? at + 2 : at]!)])
    if (isRange) at += 2
  }
  return (character) => {
    const code = codeOf(character)
    return ranges.some(([first, last]) => first <= code && code <= last) !== isNegated
  }
}

const codeOf = (character: string): number => character.codePointAt(0)!
