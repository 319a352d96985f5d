/**
 * Follows the frames of a zstd file (RFC 8878, section 3.1). Node's decoder takes a file as whole that was cut within
 * the first bytes of a further frame.
 */
export class ZstdFrames {
  readonly #fields = readFields()
  #field = this.#fields.next().value
  /** How many bytes of the field have come. */
  #length = 0
  /** These bytes, unless the field is skipped. */
  #kept = Buffer.alloc(0)

  add(piece: Uint8Array): void {
    for (let at = 0; at < piece.length;) {
      const { bytes, isSkipped } = this.#field
      const taken = piece.subarray(at, at + bytes - this.#length)
      at += taken.length
      this.#length += taken.length
      if (!isSkipped) this.#kept = Buffer.concat([this.#kept, taken])
      if (this.#length < bytes) return
      const field = this.#kept
      this.#kept = Buffer.alloc(0)
      this.#length = 0
      this.#field = this.#fields.next(field).value
    }
  }

  /** Whether the bytes so far end within a frame's first field. Zeros there are padding. */
  get isCutInMagic(): boolean {
    return this.#field.isMagic === true && this.#kept.some((byte) => byte !== 0)
  }
}

interface Field {
  bytes: number
  isSkipped?: boolean
  isMagic?: boolean
}

/** Yields one field after the other and receives its bytes. It needn't recognize other data, which the decoder refuses. */
function* readFields(): Generator<Field, never, Buffer> {
  for (;;) {
    const magic = (yield { bytes: 4, isMagic: true }).readUInt32LE()
    if ((magic & 0xfffffff0) === skippableMagic) yield* skip((yield { bytes: 4 }).readUInt32LE())
    else yield* readFrame()
  }
}

const skippableMagic = 0x184d2a50

function* readFrame(): Generator<Field, void, Buffer> {
  const descriptor = (yield { bytes: 1 }).readUInt8()
  const isSingleSegment = (descriptor & 0x20) !== 0
  const sizeFlag = descriptor >> 6
  const sizeBytes = sizeFlag === 0 ? Number(isSingleSegment) : 1 << sizeFlag
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3] ?? 0
  yield* skip(Number(!isSingleSegment) + dictionaryBytes + sizeBytes)
  for (let isLast = false; !isLast;) {
    const header = (yield { bytes: 3 }).readUIntLE(0, 3)
    isLast = (header & 1) === 1
    const isRepeatedByte = ((header >> 1) & 3) === 1
    yield* skip(isRepeatedByte ? 1 : header >> 3)
  }
  if ((descriptor & 4) !== 0) yield* skip(4)
}

function* skip(bytes: number): Generator<Field, void, Buffer> {
  if (bytes > 0) yield { bytes, isSkipped: true }
}
