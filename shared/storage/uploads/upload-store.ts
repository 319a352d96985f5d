import type { Readable } from 'node:stream'
import type { UploadDocument } from '../../contract/schemas/import.ts'

/**
 * The upload directories, wherever they lie (disk-uploads.ts, grid-uploads.ts). Names are those that `fileNameProblem`
 * finds nothing wrong with. An upload is published by one guarded move, so a name never leads to part of a file; a
 * finished file is never written into.
 */
export interface Uploads {
  directory(organizationId: number): UploadStore
  /** Keeps the file as it is now for an import that is about to begin; null when there is none of that name. */
  pin(upload: {
    organizationId: number
    name: string
    importId: number
    /** Ends a copy that it may take. */
    signal?: AbortSignal
  }): Promise<UploadPin | null>
  /** Gives back a pin that no import uses. Those that are gone already are no error. */
  releasePin(pin: UploadPin): Promise<void>
  /** Null when it is gone. */
  openPin(pin: UploadPin): Promise<PinnedUpload | null>
  /** Ends the pins of an import that has ended. */
  unpin(importId: number): Promise<void>
  /** Imports that have pins. */
  listPinned(): Promise<number[]>
  /** Removes uploads that broke off longer ago than that, and what else nobody can come back to; how many. */
  purge(options: { olderThanMs: number }): Promise<number>
}

export type UploadPin = NonNullable<UploadDocument['pin']>

export interface PinnedUpload {
  /** Its name in the staging, its bytes on the disk by then; null where it has none there. */
  staged(): Promise<string | null>
  /** Another one after a write to the file, by whoever it was. */
  fingerprint(): Promise<string>
  /** Whether it was written last long ago, by the clock of where it lies. */
  isQuiet(): Promise<boolean>
  content(signal: AbortSignal): AsyncIterable<Uint8Array>
  close(): Promise<void>
}

export interface UploadEntry {
  name: string
  /** In bytes. */
  size: number
  modifiedAt: Date
}

/** The directory of one organization. */
export interface UploadStore {
  /** Makes the directory. */
  prepare(): Promise<void>
  /** Finished files, by name. */
  list(): Promise<UploadEntry[]>
  find(name: string): Promise<UploadEntry | null>
  /** What there is of an upload of that name which is in progress or broke off. */
  findUnfinished(name: string): Promise<UploadEntry | null>
  /** The finished file from `start` on, which is not behind its end; null when there is none. */
  read(name: string, start: number): Promise<Readable | null>
  /** False when there was no finished file. */
  remove(name: string): Promise<boolean>
  /** The caller has the upload's lock. */
  removeUnfinished(name: string): Promise<void>
  /** Replaces what has the other name. False when there was no such file. */
  rename(from: string, to: string): Promise<boolean>
  /** Throws UploadChanged when there isn't as much as it is to keep, or when that changes meanwhile. */
  takeUp(options: TakeUp): Promise<UploadInProgress>
  /** Counts what is there: bytes by name. */
  count(): Promise<{ finished: Map<string, number>; unfinished: Map<string, number> }>
  /** Bytes of the files that those imports have pinned and to which no name leads any more, each counted once. */
  countPinned(importIds: number[]): Promise<number>
}

export interface TakeUp {
  name: string
  /** Of the upload's lock, which the caller has. */
  token: string
  /** Who had the lock before may still write. */
  wasLeft: boolean
  /** Bytes of what there is (the unfinished upload, else the finished file) that it goes on with; null: all of it. */
  keep: number | null
  /** Ends the copy that it may take. */
  signal?: AbortSignal
}

/** What an upload was to go on with is another file by now, or gone. Nothing was published, and it may be tried again. */
export class UploadChanged extends Error {
  override readonly name = 'UploadChanged'
}

/** The hidden file of an upload. Whoever takes it up later takes it away from this one. */
export interface UploadInProgress {
  /** Bytes that it has. */
  readonly size: number
  /** There is nothing in it that the finished file doesn't have. */
  readonly isCopy: boolean
  /** Appends; one call at a time. Throws the medium's errors. */
  write(piece: Uint8Array): Promise<void>
  /** Before it is published: what was written lasts from here on, whatever is killed. */
  prepare(): Promise<void>
  /** Gives it its final name, after `prepare`. False when it was taken up by somebody else. */
  publish(): Promise<boolean>
  /** Ends writing. What isn't published stays. True when nothing of this one can arrive any more. */
  close(): Promise<boolean>
  /** Removes it, unless it was taken up by somebody else or published. */
  discard(): Promise<void>
}
