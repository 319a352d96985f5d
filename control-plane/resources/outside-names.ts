/**
 * Names of things that this system doesn't hold: they are stored beside the thing's id, as given. Another id is
 * another thing, so that the name goes with the old one unless the same request brings a new name.
 */
export function namesToForget(
  namesById: Readonly<Record<string, readonly string[]>>,
  stored: Readonly<Record<string, unknown>>,
  given: Readonly<Record<string, unknown>>,
): Record<string, null> {
  const ofOtherThings = Object.keys(namesById).filter(
    (id) => given[id] !== undefined && given[id] !== stored[id],
  )
  const names = ofOtherThings.flatMap((id) => namesById[id] ?? [])
  return Object.fromEntries(names.filter((name) => given[name] === undefined).map((name) => [name, null]))
}
