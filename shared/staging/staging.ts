/**
 * Where the bytes of an import lie between its creation and its end: the source as one immutable file, and the
 * partition that splitting makes of it. The control plane writes inline content here, engines do the rest.
 *
 * Errors are those of the medium; `isStagingFull` tells a full one.
 */
export interface Staging {
  /** Stores the whole content under the name, at once visible when complete and never in part. Resolves to its length. */
  write(name: string, content: AsyncIterable<Uint8Array>): Promise<number>
  /** A file that grows at its end; what was appended can be read at once. */
  create(name: string): Promise<StagedWriter>
  /** Null when there is no such file. */
  open(name: string): Promise<StagedFile | null>
  /** Removes all files of the import. Those that are gone already are no error. */
  removeImport(importId: number): Promise<void>
  /** Imports of which files are here, the youngest of them older than that. */
  listImports(options: { olderThanMs: number }): Promise<number[]>
}

export interface StagedFile {
  readonly size: number
  /** Reads into the target from the position on; resolves to the bytes read, less than asked only at the end. */
  read(target: Uint8Array, position: number): Promise<number>
  close(): Promise<void>
}

export interface StagedWriter {
  /** Appends the buffers in order; they may be used again when it resolves. */
  append(buffers: Uint8Array[]): Promise<void>
  close(): Promise<void>
}

export const stagedSource = (importId: number): string => `${importId}/source`

/** A split that starts over writes another file: nobody appends to one that somebody else may still write. */
export const stagedPartition = (importId: number, token: string): string => `${importId}/partition-${token}`

export function isStagingFull(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | null)?.code
  return code === 'ENOSPC' || code === 'EDQUOT'
}
