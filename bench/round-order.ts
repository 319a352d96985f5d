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

/** Measures variants in alternating rounds. Resolves to the results of each, in the order of the rounds. */
export async function alternate<Variant extends string, Result>(
  variants: readonly Variant[],
  rounds: number,
  measure: (variant: Variant) => Promise<Result>,
): Promise<Record<Variant, Result[]>> {
  const entries = variants.map((variant) => [variant, []] as const)
  const results = Object.fromEntries(entries) as unknown as Record<Variant, Result[]>
  for (let round = 0; round < rounds; round += 1)
    for (const variant of roundOrder(variants, round, 1)) results[variant].push(await measure(variant))
  return results
}
