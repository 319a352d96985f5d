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
  /** What is gone already is no error. */
  remove(name: string): Promise<void>
  /** Removes the files of the import, but for those to keep. What is gone already is no error. */
  removeImport(importId: number, options?: { keep?: string[] }): Promise<void>
  /** Imports of which files are here, the youngest of them older than that. */
  listImports(options: { olderThanMs: number }): Promise<number[]>
  /** Bytes of all files. */
  size(): Promise<number>
  /** Removes what no import can be told by. */
  sweep(): Promise<void>
  /** Throws DiskReserveReached while nothing may be staged; `write` and appending throw it too. */
  checkSpace(): Promise<void>
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

/**
 * The source of an import. With a token it is that of one try: two engines, of which one was suspended, never write to
 * one name, and the import document says which one counts (`staged`).
 */
export const stagedSource = (importId: number, token?: string): string =>
  token === undefined ? `${importId}/source` : `${importId}/source-${token}`

/** A split that starts over writes another file: nobody appends to one that somebody else may still write. */
export const stagedPartition = (importId: number, token: string): string => `${importId}/partition-${token}`

/** The import that a name belongs to. */
export const importOfStaged = (name: string): number => Number(name.slice(0, name.indexOf('/')))

/** Also a database's: `OutOfDiskSpace`, and quotas of hosted ones. */
export function isStagingFull(error: unknown): boolean {
  const { code, codeName } = (error ?? {}) as { code?: unknown; codeName?: unknown }
  return code === 'ENOSPC' || code === 'EDQUOT' || codeName === 'OutOfDiskSpace' || code === 14031
}
