import { DiskReserveReached } from './disk-reserve.ts'

/**
 * Files of imports between their creation and their end: the source as one immutable file, and the partition that
 * splitting makes of it. The control plane writes inline content here; engines write all other files.
 *
 * The name of a source has the token of the step that wrote it, and the import says in `staged` which one counts: a step
 * that was taken over may still write, and then writes to a name that is never read.
 *
 * Errors are those of the file system or the database. `isStagingFull` recognizes a full one.
 */
export interface Staging {
  /** Stores content atomically: the name appears only when the file is complete. Resolves to its length. */
  write(name: string, content: AsyncIterable<Uint8Array>): Promise<number>
  /** Creates a file that grows at its end. Appended bytes can be read at once. */
  create(name: string): Promise<StagedWriter>
  /** Null when there is no such file. */
  open(name: string): Promise<StagedFile | null>
  /** A missing file is no error. */
  remove(name: string): Promise<void>
  /** Removes the files of the import except those in `keep`. Missing files are no error. */
  removeImport(importId: number, options?: { keep?: string[] }): Promise<void>
  /** Ids of imports with files here, of which the newest is older than that. */
  listImports(options: { olderThanMs: number }): Promise<number[]>
  /** Total bytes of all files. */
  size(): Promise<number>
  /** Removes data that belongs to no import. */
  sweep(): Promise<void>
  /**
   * Why the disk is full, or null. Then nothing that writes much may begin, and `write`, `create` and `append` throw
   * DiskReserveReached.
   */
  spaceProblem(): Promise<string | null>
}

export interface StagedFile {
  readonly size: number
  /**
   * Reads into the target from the position on. Resolves to the bytes read, which are fewer only at the end of the
   * file.
   */
  read(target: Uint8Array, position: number): Promise<number>
  close(): Promise<void>
}

export interface StagedWriter {
  /** Appends the buffers in order. The caller may reuse them when it resolves. */
  append(buffers: Uint8Array[]): Promise<void>
  close(): Promise<void>
}

/**
 * Name of the source of an import. With a token it is that of one attempt, so a suspended engine and its successor
 * never write to the same file. The import document says which one is valid (`staged`).
 */
export const stagedSource = (importId: number, token?: string): string =>
  token === undefined ? `${importId}/source` : `${importId}/source-${token}`

/** Each split has a file of its own, because an engine that lost its lease may still append to the former one. */
export const stagedPartition = (importId: number, token: string): string => `${importId}/partition-${token}`

/** The id of the import that a staged file belongs to. */
export const parseImportId = (name: string): number => Number(name.slice(0, name.indexOf('/')))

/**
 * Whether the disk is full, or has less than its reserve left, or the database is full: `OutOfDiskSpace`, and the quotas
 * of hosted ones.
 */
export function isStagingFull(error: unknown): boolean {
  if (error instanceof DiskReserveReached) return true
  if (typeof error !== 'object' || error === null) return false
  const code = 'code' in error ? error.code : undefined
  const codeName = 'codeName' in error ? error.codeName : undefined
  return code === 'ENOSPC' || code === 'EDQUOT' || codeName === 'OutOfDiskSpace' || code === 14031
}
