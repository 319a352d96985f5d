import type { StagedFile, StagedWriter } from './staging.ts'

/** A small file in memory. What was appended can be read at once. */
export class MemoryFile implements StagedFile, StagedWriter {
  #bytes: Buffer

  constructor(bytes: Uint8Array = Buffer.alloc(0)) {
    this.#bytes = Buffer.from(bytes)
  }

  get bytes(): Buffer {
    return this.#bytes
  }

  get size(): number {
    return this.#bytes.length
  }

  append(buffers: Uint8Array[]): Promise<void> {
    this.#bytes = Buffer.concat([this.#bytes, ...buffers])
    return Promise.resolve()
  }

  read(buffer: Buffer, position: number): Promise<number> {
    return Promise.resolve(this.#bytes.copy(buffer, 0, position))
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}
