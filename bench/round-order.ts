/**
 * The order of the contenders in a round. One finds another machine than the one before it, and another one after a heavy
 * contender. So in as many rounds as there are contenders each takes each position once (a Latin square), after others.
 */
export const roundOrder = <T>(contenders: readonly T[], round: number): T[] =>
  contenders.map((_, position) => {
    const count = contenders.length
    const step = position % 2 === 1 ? (position + 1) / 2 : count - position / 2
    return contenders[(round + step) % count]!
  })
