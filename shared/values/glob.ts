import { comparisonForm } from './identity.ts'

/** Makes the test whether a name matches a pattern in which `*` stands for any characters, without case. */
export function globMatcher(pattern: string): (name: string) => boolean {
  const parts = comparisonForm(pattern).split('*')
  return (name) => matches(comparisonForm(name), parts)
}

/** By parts and from left to right, which can't take longer than name times pattern, whatever is asked for. */
function matches(name: string, parts: string[]): boolean {
  const first = parts[0]!
  const last = parts.at(-1)!
  if (parts.length === 1) return name === first
  if (name.length < first.length + last.length || !name.startsWith(first) || !name.endsWith(last))
    return false
  const end = name.length - last.length
  let at = first.length
  for (const part of parts.slice(1, -1)) {
    const found = name.indexOf(part, at)
    if (found === -1 || found + part.length > end) return false
    at = found + part.length
  }
  return true
}
