import type { IdentityReader } from '../../../shared/csv/identity-reader.ts'
import { dialectBytes, RecordScanner } from '../../../shared/csv/record-scanner.ts'
import type { ContentFormat } from '../../../shared/contract/schemas/import.ts'
import type { StagedFile } from '../../../shared/storage/staging/staging.ts'
import { successor } from './range-writer.ts'

/**
 * Samples of identities, and the borders made of them. Samples are spread over the whole file, because the beginning of
 * a sorted file says nothing about the rest.
 */

/** A sample of the file, which is read piece by piece until enough identities are found. */
const sampleBytes = 16 * 1024
const pieceBytes = 4 * 1024
const identitiesPerSample = 24
/** They are read side by side, as each read of a few kilobytes waits longer than it works. */
const samplesAtOnce = 8

interface SampleOptions {
  source: StagedFile
  start: number
  samples: number
  identities: IdentityReader
  format: ContentFormat
  wantedColumn: number
}

/**
 * The identities of `samples` places in the file, sorted. A sample may begin inside an enclosure and read nonsense. That
 * seldom is a valid identity, and a misplaced border costs nothing but balance.
 */
export async function sampleIdentities(options: SampleOptions): Promise<Buffer[]> {
  const { source, start, samples } = options
  const length = source.size - start
  if (length <= samples * sampleBytes)
    return sorted(await readIdentities(options, { from: start, to: source.size, isInside: false }))
  const sampled: Buffer[] = []
  for (let first = 0; first < samples; first += samplesAtOnce) {
    const found = Array.from({ length: Math.min(samplesAtOnce, samples - first) }, (_, i) => {
      const from = start + Math.floor(((length - sampleBytes) / (samples - 1)) * (first + i))
      const bounds = { from, to: from + sampleBytes, isInside: first + i > 0 }
      return readIdentities(options, bounds, identitiesPerSample)
    })
    for (const identities of await Promise.all(found)) sampled.push(...identities)
  }
  return sorted(sampled)
}

/** Stops after the piece in which it has found `enough`. `isInside`: `from` may be inside a line, which is skipped. */
async function readIdentities(
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
  const maxRead = enough === Infinity ? Infinity : pieceBytes
  while (position < to && found.length < enough) {
    const space = scanner.space()
    const read = await source.read(
      space.subarray(0, Math.min(maxRead, space.length, to - position)),
      position,
    )
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
 * Borders that cut sorted identities into about `ranges` parts. An identity that fills a part alone gets borders on
 * both sides, which make it a range of its own.
 */
export function chooseBorders(identities: Buffer[], ranges: number): Buffer[] {
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

/** Reservoir sampling of identities: a uniform sample of any number of them, the same for the same input. */
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

  /** The sample, sorted. */
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
