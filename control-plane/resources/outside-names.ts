/**
 * Names of things that this system doesn't store, such as a virtual MTA. A request gives them beside the thing's id. With
 * another id the stored name is another thing's: it becomes null unless the same request has a new name.
 */
export function namesToClear(
  namesById: Readonly<Record<string, readonly string[]>>,
  stored: Readonly<Record<string, unknown>>,
  changes: Readonly<Record<string, unknown>>,
): Record<string, null> {
  const changedIds = Object.keys(namesById).filter(
    (id) => changes[id] !== undefined && changes[id] !== stored[id],
  )
  const names = changedIds.flatMap((id) => namesById[id] ?? [])
  return Object.fromEntries(names.filter((name) => changes[name] === undefined).map((name) => [name, null]))
}
