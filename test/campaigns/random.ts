import { seededRandom } from '../../bench/load/random.ts'

/** The seed of tests that draw other cases each day: days since 1970. */
export const seedOfToday = Math.floor(Date.now() / 86_400_000)

/** Seeded chance: the same seed makes the same lists, files and options on every machine. */
export class Random {
  /** At least 0, and below 1. */
  readonly fraction: () => number

  /** How likely slips are, from 0 to 1. A file of a careful writer has few. */
  carelessness = 1

  constructor(seed: number) {
    this.fraction = seededRandom(Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b))
    this.fraction()
  }

  chance(probability: number): boolean {
    return this.fraction() < probability
  }

  /** A chance that shrinks with the writer's care. */
  slip(probability: number): boolean {
    return this.chance(probability * this.carelessness)
  }

  /** An integer from `min` to `max`, both included. */
  between(min: number, max: number): number {
    return min + Math.floor(this.fraction() * (max - min + 1))
  }

  oneOf<T>(things: readonly T[]): T {
    return things[Math.floor(this.fraction() * things.length)]!
  }

  shuffled<T>(things: readonly T[]): T[] {
    const drawn = things.map((thing) => ({ thing, order: this.fraction() }))
    return drawn.sort((a, b) => a.order - b.order).map(({ thing }) => thing)
  }

  some<T>(things: readonly T[], probability: number): T[] {
    return things.filter(() => this.chance(probability))
  }
}
