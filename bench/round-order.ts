import { seededRandom } from './load/random.ts'

/**
 * The order of the contenders in a round. The first finds another machine than the last, and so does one that follows
 * a heavy contender. So each is first once before any is first again, and the others are shuffled, by the seed alone.
 */
export function roundOrder<T>(contenders: readonly T[], round: number, seed: number): T[] {
  const order = shuffle(contenders, seededRandom(seed))
  const at = round % order.length
  const others = contenders.filter((contender) => contender !== order[at])
  return [...order.slice(at, at + 1), ...shuffle(others, seededRandom(seed * 1_000 + round + 1))]
}

function shuffle<T>(items: readonly T[], random: () => number): T[] {
  const remaining = [...items]
  return items.flatMap(() => remaining.splice(Math.floor(random() * remaining.length), 1))
}
