/** A request whose effect came at some moment between its start and its answer. */
export interface Operation<State> {
  what: string
  from: number
  to: number
  /** The states that it may have left, given its answer; none where that answer was not to be given in `state`. */
  after: (state: State) => State[]
}

interface Point<State> {
  /** All operations before this one are done, and of later ones those in `done`. */
  first: number
  done: readonly number[]
  state: State
}

/**
 * Tests linearizability with the search of Wing and Gong: operations that overlapped must have some serial order. With
 * one requester for each address and a comparison of the last value, requests would never race. In
 * it each has the answer that it had, and none comes before one that had been answered when it began. Returns null if
 * there is such an order, else the operations around the end of the longest partial one.
 */
export function whyNotSerial<State>(start: State, operations: readonly Operation<State>[]): string | null {
  const sorted = operations.toSorted((a, b) => a.from - b.from)
  const beginning: Point<State> = { first: 0, done: [], state: start }
  const stack = [beginning]
  const seen = new Set<string>()
  let farthest = beginning
  for (let point = stack.pop(); point !== undefined; point = stack.pop()) {
    if (point.first === sorted.length) return null
    const key = `${point.first} ${point.done.join()} ${JSON.stringify(point.state)}`
    if (seen.has(key)) continue
    seen.add(key)
    if (point.first + point.done.length > farthest.first + farthest.done.length) farthest = point
    for (const next of possibleNext(sorted, point).toReversed())
      for (const state of sorted[next]!.after(point.state)) stack.push(pointAfter(point, next, state))
  }
  return explained(sorted, farthest)
}

/** The operations that began before any other open operation was answered. */
function possibleNext<State>(sorted: readonly Operation<State>[], { first, done }: Point<State>): number[] {
  const next: number[] = []
  let firstAnswer = Infinity
  for (let i = first; i < sorted.length && sorted[i]!.from <= firstAnswer; i += 1) {
    if (done.includes(i)) continue
    next.push(i)
    firstAnswer = Math.min(firstAnswer, sorted[i]!.to)
  }
  return next
}

function pointAfter<State>({ first, done }: Point<State>, next: number, state: State): Point<State> {
  const left = new Set([...done, next])
  let at = first
  while (left.delete(at)) at += 1
  return { first: at, done: [...left].sort((a, b) => a - b), state }
}

function explained<State>(sorted: readonly Operation<State>[], { first, done, state }: Point<State>): string {
  const lines = sorted.slice(Math.max(0, first - 8), first + 12).map(({ what, from, to }, i) => {
    const number = Math.max(0, first - 8) + i
    const isDone = number < first || done.includes(number)
    return `${isDone ? 'done' : 'left'} ${from.toFixed(1)}-${to.toFixed(1)} ${what}`
  })
  return [`after ${JSON.stringify(state)} none of what is left fits:`, ...lines].join('\n')
}
