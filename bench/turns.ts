import { seededRandom } from './load/random.ts'

/**
 * Who works when in a round. Who begins finds another machine than who comes last, and who follows a heavy one another
 * than who follows a light one. So none begins a second time before all have begun once, and the order of the others is
 * drawn anew for each round; both hang on the seed alone.
 */
export function turns<T>(contenders: readonly T[], round: number, seed: number): T[] {
  const beginners = shuffled(contenders, seededRandom(seed))
  const first = beginners[round % beginners.length]!
  const others = contenders.filter((contender) => contender !== first)
  return [first, ...shuffled(others, seededRandom(seed * 1_000 + round + 1))]
}

function shuffled<T>(things: readonly T[], random: () => number): T[] {
  const drawn = [...things]
  for (let i = drawn.length - 1; i > 0; i -= 1) {
    const other = Math.floor(random() * (i + 1))
    ;[drawn[i], drawn[other]] = [drawn[other]!, drawn[i]!]
  }
  return drawn
}
