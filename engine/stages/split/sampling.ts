import type { IdentityReader } from '../../../shared/csv/identity-reader.ts'
import { dialectBytes, RecordScanner } from '../../../shared/csv/record-scanner.ts'
import type { FileFormat } from '../../../shared/contract/schemas/import.ts'
import type { StagedFile } from '../../../shared/storage/staging/staging.ts'
import { successor } from './range-writer.ts'

/**
 * Samples of identities, and the borders made of them. Samples come from all over the file: its head alone says
 * nothing about a sorted one.
 */

/** Of the file; a window is read block by block until there are enough identities. */
const windowBytes = 16 * 1024
const blockBytes = 4 * 1024
const identitiesOfWindow = 24

export interface SampleOptions {
  source: StagedFile
  start: number
  windows: number
  identities: IdentityReader
  format: FileFormat
  wantedColumn: number
}

/**
 * The identities in so many windows spread over the file, sorted. A window may begin inside an enclosure and read
 * nonsense; nonsense seldom is a valid identity, and a border off by a little costs nothing but balance.
 */
export async function sampleIdentities(options: SampleOptions): Promise<Buffer[]> {
  const { source, start, windows } = options
  const length = source.size - start
  if (length <= windows * windowBytes)
    return sorted(await identitiesBetween(options, { from: start, to: source.size, isInside: false }))
  const sampled: Buffer[] = []
  for (let window = 0; window < windows; window += 1) {
    const from = start + Math.floor(((length - windowBytes) / (windows - 1)) * window)
    const bounds = { from, to: from + windowBytes, isInside: window > 0 }
    for (const identity of await identitiesBetween(options, bounds, identitiesOfWindow))
      sampled.push(identity)
  }
  return sorted(sampled)
}

/** Stops after a block that brought `enough` of them. `isInside`: the first line is the rest of one. */
async function identitiesBetween(
  options: SampleOptions,
  { from, to, isInside }: { from: number; to: number; isInside: boolean },
  enough = Infinity,
): Promise<Buffer[]> {
  const { source, identities, format } = options
  const found: Buffer[] = []
  const scanner = new RecordScanner({
    dialect: dialectBytes(format),
    wantedColumn: options.wantedColumn,
    onRecord: (record) => {
      const length = identities.read(record)
      if (length !== -1) found.push(Buffer.from(identities.identityBytes.subarray(0, length)))
    },
  })
  let position = from
  let atLineStart = !isInside
  const block = enough === Infinity ? Infinity : blockBytes
  while (position < to && found.length < enough) {
    const space = scanner.space()
    const read = await source.read(space.subarray(0, Math.min(block, space.length, to - position)), position)
    if (read === 0) break
    position += read
    let usable = read
    if (!atLineStart) {
      const lineEnd = space.subarray(0, read).indexOf(0x0a)
      if (lineEnd === -1) continue
      space.copyWithin(0, lineEnd + 1, read)
      usable = read - lineEnd - 1
      atLineStart = true
    }
    scanner.advance(usable)
  }
  return found
}

const sorted = (identities: Buffer[]): Buffer[] => identities.sort((a, b) => a.compare(b))

/**
 * Borders that cut sorted identities into about `ranges` parts. One that fills a part alone gets borders on both sides,
 * so that its records are a range of one identity.
 */
export function bordersOf(identities: Buffer[], ranges: number): Buffer[] {
  const borders: Buffer[] = []
  const add = (border: Buffer) => {
    const last = borders.at(-1)
    if (last === undefined || last.compare(border) < 0) borders.push(border)
  }
  for (let i = 1; i < ranges; i += 1) {
    const identity = identities[Math.floor((identities.length * i) / ranges)]
    const before = identities[Math.floor((identities.length * (i - 1)) / ranges)]
    if (identity === undefined || before === undefined) break
    add(i > 1 && before.equals(identity) ? successor(identity) : identity)
  }
  return borders
}

/** Identities drawn evenly from any number of them (reservoir sampling), the same draw for the same input. */
export class IdentitySample {
  readonly #capacity = 4_096
  readonly #drawn: Buffer[] = []
  #offered = 0
  #state = 0x9e3779b9

  offer(bytes: Buffer, start: number, end: number): void {
    this.#offered += 1
    if (this.#drawn.length < this.#capacity) {
      this.#drawn.push(Buffer.from(bytes.subarray(start, end)))
      return
    }
    const index = this.#random() % this.#offered
    if (index < this.#capacity) this.#drawn[index] = Buffer.from(bytes.subarray(start, end))
  }

  /** Those that were drawn, sorted. */
  identities(): Buffer[] {
    return sorted(this.#drawn)
  }

  /** xorshift32 */
  #random(): number {
    let state = this.#state
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    this.#state = state >>> 0
    return this.#state
  }
}
