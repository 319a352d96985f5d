import type { Readable } from 'node:stream'
import type { RandomAccessFile } from '../../containers/random-access-file.ts'
import type { UploadDocument } from '../../contract/schemas/import.ts'
import type { StagedFile } from '../staging/staging.ts'

/**
 * The upload directories, on disk (disk-uploads.ts) or in the database (grid-uploads.ts). All names must be valid by
 * `fileNameProblem`. An upload is published by one atomic rename, so a name never leads to part of a file. A finished
 * file is never written again.
 */
export interface Uploads {
  directory(organizationId: number): UploadStore
  /** Keeps the present version of a file for an import that is about to begin; null when there is no such file. */
  pin(upload: {
    organizationId: number
    name: string
    importId: number
    /** Aborts a copy of the file. */
    signal?: AbortSignal
  }): Promise<UploadPin | null>
  /** Removes a pin that no import uses. A missing pin is no error. */
  releasePin(pin: UploadPin): Promise<void>
  /** Null when the pinned file is gone. */
  openPin(organizationId: number, pin: UploadPin): Promise<PinnedUpload | null>
  /** Removes the pins of an ended import. */
  unpin(importId: number): Promise<void>
  /** Ids of imports whose pins `unpin` must remove. None on disk, where pins go with the import's staged files. */
  listPinned(): Promise<number[]>
  /** Removes unfinished uploads that are older than that, and other leftovers; resolves to the number of uploads. */
  purge(options: { olderThanMs: number }): Promise<number>
}

export type UploadPin = NonNullable<UploadDocument['pin']>

export interface PinnedUpload extends RandomAccessFile {
  /** Its name in the staging, after its bytes were synced; null where it has none there. */
  staged(): Promise<string | null>
  /** Any write to the file changes it; a time that a client sets doesn't. */
  fingerprint(): Promise<string>
  /** Whether its last write was long ago, by the clock of its file system. */
  isQuiet(): Promise<boolean>
  content(signal: AbortSignal): AsyncIterable<Buffer>
  close(): Promise<void>
}

export interface UploadEntry {
  name: string
  /** In bytes. */
  size: number
  /** When it was complete, or the time that a client has set since. */
  modifiedAt: Date
}

/** A finished file that is open: a change of its name doesn't affect it. */
export interface UploadFile extends StagedFile {
  modifiedAt: Date
  /** Differs between two files of the same name and size, also where a client has set the same time for both. */
  version: string
  /** From byte `start` up to and without byte `end`. The file is closed with the stream. */
  stream(range?: { start?: number; end?: number }): Readable
}

/** The directory of one organization. */
export interface UploadStore {
  /** Creates the directory. */
  prepare(): Promise<void>
  /** Finished files, sorted by name. */
  list(): Promise<UploadEntry[]>
  find(name: string): Promise<UploadEntry | null>
  /** The unfinished upload of that name, in progress or broken off. */
  findUnfinished(name: string): Promise<UploadEntry | null>
  /** Unfinished uploads, in progress or broken off. */
  listUnfinished(): Promise<UploadEntry[]>
  /** Opens the finished file; null when there is none. */
  open(name: string): Promise<UploadFile | null>
  /** False when there was no finished file. */
  remove(name: string): Promise<boolean>
  /** The caller must have the lock of the upload. */
  removeUnfinished(name: string): Promise<void>
  /** Replaces a file with the new name. False when there is no file with the old one. */
  rename(from: string, to: string): Promise<boolean>
  /** Sets the time of the finished file, in whole seconds. False when there is none. */
  setTime(name: string, time: Date): Promise<boolean>
  /**
   * Begins or resumes an upload. Throws UploadChanged when there are fewer bytes than `keep`, or they change
   * meanwhile.
   */
  beginOrResume(options: ResumeOptions): Promise<UploadInProgress>
  /** Counts the bytes of all files, by name. */
  count(): Promise<{ finished: Map<string, number>; unfinished: Map<string, number> }>
  /** Bytes of the files without a name that those imports have pinned; each file counts once. */
  countPinned(importIds: number[]): Promise<number>
}

export interface ResumeOptions {
  name: string
  /** The token of the upload's lock, which the caller must have. */
  token: string
  /** A former session of the upload was abandoned and may still write. */
  wasAbandoned: boolean
  /** Bytes of the unfinished upload, or else of the finished file, with which it begins; null for all of them. */
  keep: number | null
  /** Aborts a copy of these bytes. */
  signal?: AbortSignal
}

/**
 * The file that an upload was to continue was replaced or removed. Nothing was published; the client may try again.
 */
export class UploadChanged extends Error {
  override readonly name = 'UploadChanged'
}

/** The hidden file of an upload. A later session that resumes the upload takes the file over. */
export interface UploadInProgress {
  /** Its size in bytes. */
  readonly size: number
  /** It has no bytes but those of the finished file. */
  readonly isCopy: boolean
  /** Appends; one call at a time. Throws errors of the file system or the database. */
  write(piece: Uint8Array): Promise<void>
  /** Makes the written bytes durable. */
  sync(): Promise<void>
  /** Makes the written bytes durable, before `publish`. */
  prepare(): Promise<void>
  /** Gives it its final name, after `prepare`. False when another session has taken it over. */
  publish(): Promise<boolean>
  /** Ends writing. An unpublished file stays. True when no further write of this session can arrive. */
  close(): Promise<boolean>
  /** Removes it, unless it was published or taken over by another session. */
  discard(): Promise<void>
}
