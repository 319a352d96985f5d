/**
 * How an organization's subscribers spread over its lists: one big list, three middling ones, and many small ones. Each
 * list holds the first rows of the same subscriber file, so the addresses of the smallest list are on all of them.
 */
export function listSizes(subscribers: number, lists: number): number[] {
  const middling = Math.floor(subscribers * 0.08)
  const small = Math.max(1, Math.floor((subscribers * 0.06) / (lists - 4)))
  const others = [middling, middling, middling, ...new Array<number>(lists - 4).fill(small)]
  return [subscribers - others.reduce((sum, size) => sum + size, 0), ...others]
}
