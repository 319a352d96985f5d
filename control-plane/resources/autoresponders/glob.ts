import { comparisonForm } from '../../../shared/values/identity.ts'

/** A function that tests names against a pattern, in any case; `*` stands for any characters. */
export function globMatcher(pattern: string): (name: string) => boolean {
  const [first = '', ...rest] = comparisonForm(pattern).split('*')
  const last = rest.at(-1)
  if (last === undefined) return (name) => comparisonForm(name) === first
  // Adjacent stars count as one.
  const middle = rest.slice(0, -1).filter((part) => part !== '')
  const minLength = middle.reduce((sum, part) => sum + part.length, first.length + last.length)
  return (text) => {
    const name = comparisonForm(text)
    const isFramed = name.length >= minLength && name.startsWith(first) && name.endsWith(last)
    return isFramed && containsInOrder(name.slice(first.length, name.length - last.length), middle)
  }
}

/** Greedy and without backtracking: the first occurrence of a part leaves the longest rest for the others. */
function containsInOrder(text: string, parts: readonly string[]): boolean {
  let from = 0
  for (const part of parts) {
    const found = text.indexOf(part, from)
    if (found === -1) return false
    from = found + part.length
  }
  return true
}
