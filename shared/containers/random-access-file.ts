import { binaryMegabyte } from '../values/byte-sizes.ts'

/** A file with access at any position. */
export interface RandomAccessFile {
  readonly size: number
  /** Resolves to the bytes read, which are fewer only at the end of the file. */
  read(target: Uint8Array, position: number): Promise<number>
}

/** Reads pieces of up to 1 MiB, as far as the file goes. It stays open, also when the reader stops early. */
export async function* readRange(
  file: Pick<RandomAccessFile, 'read'>,
  { start, end, signal }: { start: number; end: number; signal?: AbortSignal },
): AsyncGenerator<Buffer> {
  for (let at = start; at < end;) {
    signal?.throwIfAborted()
    const piece = Buffer.allocUnsafeSlow(Math.min(binaryMegabyte, end - at))
    const read = await file.read(piece, at)
    if (read === 0) return
    yield piece.subarray(0, read)
    at += read
  }
}
