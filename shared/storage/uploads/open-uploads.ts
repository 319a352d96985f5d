import { Readable } from 'node:stream'
import { readRange } from '../../containers/random-access-file.ts'
import type { Collections } from '../../contract/schemas/collections.ts'
import type { UploadDocument } from '../../contract/schemas/upload.ts'
import type { Database } from '../../runtime/database.ts'
import { LedgerTransactions } from '../../store/ledger-transactions.ts'
import {
  correctCharge,
  findFinished,
  findPair,
  listAbandoned,
  listLeftByConsole,
  listPinningImports,
  pinUpload,
  removeFinished,
  removeUnfinished,
  unknownBlobs,
  unpinUploads,
} from '../../store/uploads.ts'
import { dayMs } from '../../values/durations.ts'
import type { Blob, Blobs } from '../blobs/blobs.ts'
import type { MarkedFolder } from '../staging/marked-folder.ts'
import { openBlobs, type StagingLocation } from '../staging/open-staging.ts'

/** A blob without a record may belong to an upload that begins. */
const maxStrayAgeMs = dayMs

/** A person who prepares an import in the console may leave it open overnight. */
const maxConsoleAgeMs = dayMs

/** A finished file that is open: a change of its name doesn't affect it. */
export interface UploadFile extends Blob {
  modifiedAt: Date
  /** Differs between two files of the same name and size, also where a client has set the same time for both. */
  version: string
  /** From byte `start` up to and without byte `end`. The file is closed with the stream. */
  stream(range?: { start?: number; end?: number }): Readable
}

/** The uploads of all organizations: their records, and the blobs of their bytes. */
export class Uploads {
  readonly collections: Collections
  readonly ledger: LedgerTransactions
  readonly blobs: Blobs
  readonly #folder: MarkedFolder | null

  constructor(database: Pick<Database, 'sessions' | 'collections'>, blobs: Blobs, folder?: MarkedFolder) {
    this.collections = database.collections
    this.ledger = new LedgerTransactions(database)
    this.blobs = blobs
    this.#folder = folder ?? null
  }

  /** Throws FolderUnavailable where the bytes are in a DATA_DIR that isn't available. */
  async require(): Promise<void> {
    await this.#folder?.require()
  }

  /** The finished file of a name; null when there is none. */
  async find(organizationId: number, name: string): Promise<UploadDocument | null> {
    await this.require()
    return (await findPair(this.collections, organizationId, name)).finished
  }

  /**
   * Deletes the finished file with this blob and resolves to its name; null where a newer one has replaced it, or where
   * it no longer has the `name`.
   */
  async deleteFile(organizationId: number, blob: string, name?: string): Promise<string | null> {
    const record = await findFinished(this.collections, blob)
    if (record === null || (name !== undefined && record.name !== name)) return null
    const removed = await removeFinished(this, organizationId, record.name, blob)
    await this.removeBlobs(removed ?? [])
    return removed === null ? null : record.name
  }

  /** Opens the finished file of a name; null when there is none. */
  async open(organizationId: number, name: string): Promise<UploadFile | null> {
    await this.require()
    for (let missed = ''; ;) {
      const { finished } = await findPair(this.collections, organizationId, name)
      if (finished === null) return null
      const blob = await this.blobs.open(finished.blob)
      if (blob !== null) return openFile(finished, blob)
      // It may have been replaced between the two reads.
      if (finished.blob === missed)
        throw new Error(`the bytes of the upload ${JSON.stringify(name)} are gone`)
      missed = finished.blob
    }
  }

  /** Keeps the present file of a name for an import that is about to begin; null when there is no such file. */
  pin(file: { organizationId: number; name: string; importId: number }): Promise<UploadDocument | null> {
    return pinUpload(this.collections, file)
  }

  /** Removes the pins of an import that ended, or needs its file no longer. */
  async unpin(importId: number): Promise<void> {
    await this.removeBlobs(await unpinUploads(this, importId))
  }

  /** Ids of imports that have pins. */
  listPinned(): Promise<number[]> {
    return listPinningImports(this.collections)
  }

  /** Removes blobs that no record has any more. Never throws: the change of the records is done, and `purge` tries again. */
  async removeBlobs(blobs: string[]): Promise<void> {
    for (const blob of blobs) await this.blobs.remove(blob).catch(() => undefined)
  }

  /**
   * Removes unfinished uploads that are older than that, those that the console left behind, and blobs without a record;
   * resolves to the number of uploads.
   * Those of dead processes are charged with the bytes that they have.
   */
  async purge({ olderThanMs }: { olderThanMs: number }): Promise<number> {
    await this.#folder?.require({ fresh: true })
    let removed = 0
    const unneeded = [
      ...(await listAbandoned(this.collections, olderThanMs)),
      ...(await listLeftByConsole(this.collections, maxConsoleAgeMs)),
    ]
    for (const record of unneeded) {
      const { organization_id: organizationId, name, blob } = record
      const unused =
        record.state === 'finished'
          ? await removeFinished(this, organizationId, name, blob)
          : await removeUnfinished(
              this,
              record,
              ({ is_leased, lease }) => !is_leased && lease?.token === record.lease?.token,
            )
      await this.removeBlobs(unused ?? [])
      removed += unused?.length ?? 0
    }
    for (const record of await listAbandoned(this.collections, 0))
      if (record.lease !== null) await correctCharge(this, record, await this.blobs.size(record.blob))
    for await (const ids of this.blobs.list('uploads', { olderThanMs: maxStrayAgeMs }))
      await this.removeBlobs(await unknownBlobs(this.collections, ids))
    return removed
  }
}

/** Opens the uploads in DATA_DIR or in the database. Without `folder` the availability of DATA_DIR is not checked. */
export const openUploads = (
  location: StagingLocation,
  database: Pick<Database, 'sessions' | 'collections'>,
  folder?: MarkedFolder,
): Uploads => new Uploads(database, openBlobs(location, database.collections, folder), folder)

const openFile = ({ _id, size, modified_at: modifiedAt }: UploadDocument, blob: Blob): UploadFile => ({
  ...{ size, modifiedAt, version: _id },
  read: (target, position) => blob.read(target, position),
  close: () => blob.close(),
  stream: ({ start = 0, end = size } = {}) =>
    Readable.from(readRange(blob, { start, end }), { objectMode: false }).once(
      'close',
      () => void blob.close(),
    ),
})
