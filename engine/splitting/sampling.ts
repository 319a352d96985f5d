import type { FileFormat } from '../../shared/schemas/import.ts'
import type { StagedFile } from '../../shared/staging/staging.ts'
import type { IdentityReader } from '../../shared/records/identity-reader.ts'
import { successor } from './range-writer.ts'
import { dialectBytes, RecordScanner } from '../../shared/records/record-scanner.ts'

/**
 * Samples of identities, and the borders made of them. Samples come from all over the file: its head alone says
 * nothing about a sorted one.
 */

/** Of a place; it is read in steps until there are enough keys. */
const placeBytes = 16 * 1024
const stepBytes = 4 * 1024
const keysOfPlace = 24

export interface SampleOptions {
  source: StagedFile
  start: number
  places: number
  identities: IdentityReader
  format: FileFormat
  wantedColumn: number
}

/**
 * The identities at `places` places spread over the file, sorted. A place may lie inside an enclosure and read
 * nonsense; nonsense seldom is a valid identity, and a border off by a little costs nothing but balance.
 */
export async function sampleKeys(options: SampleOptions): Promise<Buffer[]> {
  const { source, start, places } = options
  const length = source.size - start
  if (length <= places * placeBytes)
    return sortKeys(await keysBetween(options, { from: start, to: source.size, isInside: false }))
  const keys: Buffer[] = []
  for (let place = 0; place < places; place += 1) {
    const from = start + Math.floor(((length - placeBytes) / (places - 1)) * place)
    const bounds = { from, to: from + placeBytes, isInside: place > 0 }
    for (const key of await keysBetween(options, bounds, keysOfPlace)) keys.push(key)
  }
  return sortKeys(keys)
}

/** Stops after a step that brought `enough` keys. `isInside`: the first line is the rest of one. */
async function keysBetween(
  options: SampleOptions,
  { from, to, isInside }: { from: number; to: number; isInside: boolean },
  enough = Infinity,
): Promise<Buffer[]> {
  const { source, identities, format } = options
  const keys: Buffer[] = []
  const scanner = new RecordScanner({
    dialect: dialectBytes(format),
    wantedColumn: options.wantedColumn,
    onRecord: (record) => {
      const length = identities.read(record)
      if (length !== -1) keys.push(Buffer.from(identities.key.subarray(0, length)))
    },
  })
  let position = from
  let atLineStart = !isInside
  const step = enough === Infinity ? Infinity : stepBytes
  while (position < to && keys.length < enough) {
    const space = scanner.space()
    const read = await source.read(space.subarray(0, Math.min(step, space.length, to - position)), position)
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
  return keys
}

const sortKeys = (keys: Buffer[]): Buffer[] => keys.sort((a, b) => a.compare(b))

/**
 * Borders that cut sorted keys into about `ranges` parts. A key that fills a part alone gets borders on both sides,
 * so that its records are a range of one identity.
 */
export function bordersOf(sortedKeys: Buffer[], ranges: number): Buffer[] {
  const borders: Buffer[] = []
  const add = (border: Buffer) => {
    const last = borders.at(-1)
    if (last === undefined || last.compare(border) < 0) borders.push(border)
  }
  for (let i = 1; i < ranges; i += 1) {
    const key = sortedKeys[Math.floor((sortedKeys.length * i) / ranges)]
    const before = sortedKeys[Math.floor((sortedKeys.length * (i - 1)) / ranges)]
    if (key === undefined || before === undefined) break
    add(i > 1 && before.equals(key) ? successor(key) : key)
  }
  return borders
}

/** Keys drawn evenly from any number of them (reservoir sampling), the same draw for the same input. */
export class KeySample {
  readonly #capacity = 4_096
  readonly #keys: Buffer[] = []
  #offered = 0
  #state = 0x9e3779b9

  offer(bytes: Buffer, start: number, end: number): void {
    this.#offered += 1
    if (this.#keys.length < this.#capacity) {
      this.#keys.push(Buffer.from(bytes.subarray(start, end)))
      return
    }
    const place = this.#random() % this.#offered
    if (place < this.#capacity) this.#keys[place] = Buffer.from(bytes.subarray(start, end))
  }

  keys(): Buffer[] {
    return sortKeys(this.#keys)
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
