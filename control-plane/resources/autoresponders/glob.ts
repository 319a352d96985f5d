import { comparisonForm } from '../../../shared/values/identity.ts'

/** Makes the test whether a name matches a pattern in which `*` stands for any characters, without case. */
export function globMatcher(pattern: string): (name: string) => boolean {
  const [first = '', ...rest] = comparisonForm(pattern).split('*')
  if (rest.length === 0) return (name) => comparisonForm(name) === first
  const last = rest.at(-1)!
  // Stars in a row are one.
  const middle = rest.slice(0, -1).filter((part) => part !== '')
  const shortest = middle.reduce((sum, part) => sum + part.length, first.length + last.length)
  return (text) => {
    const name = comparisonForm(text)
    const isFramed = name.length >= shortest && name.startsWith(first) && name.endsWith(last)
    return isFramed && holdsInOrder(name.slice(first.length, name.length - last.length), middle)
  }
}

/** The first place of each part leaves most room for the others: nothing is tried twice, whatever is asked for. */
function holdsInOrder(text: string, parts: readonly string[]): boolean {
  let from = 0
  for (const part of parts) {
    const found = text.indexOf(part, from)
    if (found === -1) return false
    from = found + part.length
  }
  return true
}
