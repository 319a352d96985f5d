import { setTimeout as sleep } from 'node:timers/promises'
import { readRange } from '../../containers/random-access-file.ts'
import type { UploadDocument } from '../../contract/schemas/upload.ts'
import { clock } from '../../runtime/clock.ts'
import type { Logger } from '../../runtime/logger.ts'
import type { UploadLimits } from '../../store/ledger.ts'
import {
  beginUpload,
  growUpload,
  publishUpload,
  releaseUpload,
  removeUnfinished,
  renewUpload,
  replaceBlob,
  UploadLost,
  uploadRenewalMs,
  type UploadPair,
} from '../../store/uploads.ts'
import { binaryMegabyte } from '../../values/byte-sizes.ts'
import { newUploadBlob, type BlobWriter } from '../blobs/blobs.ts'
import { isStagingFull } from '../staging/staging.ts'
import type { Uploads } from './open-uploads.ts'
import { isUploadedElsewhere, refuseName, UploadRefused } from './upload-refused.ts'

export interface UploadOptions {
  append: boolean
  /** The byte at which to resume; undefined starts anew. */
  start: number | undefined
  /** `start` must be the end of the unfinished upload, or 0 without one. */
  isAtEnd?: boolean
  /** Bytes that are still to come, where the client says so. */
  announced?: number | undefined
}

interface UploadContext {
  uploads: Uploads
  limits: UploadLimits
  organizationId: number
  /** The folder of the caller's key. */
  folder: string | null
  /** As the caller sees it. */
  name: string
  storedName: string
  log: Logger
}

/** So that most writes need no query. */
const reservedAheadBytes = 4 * binaryMegabyte

/**
 * One upload: begun -> opened -> received -> prepared -> published, or left unfinished. Its record has a lease, which is
 * renewed until its end. Each write of the record is guarded by the lease's token, so an upload that was taken over
 * can't be published.
 */
export class Upload {
  readonly #context: UploadContext
  readonly #record: UploadDocument
  readonly #before: UploadPair
  readonly #token: string
  /** Bytes of the earlier upload or file with which this one begins. */
  readonly #start: number
  /** Bytes that the ledger is charged with. */
  #charged: number
  #blob: string
  #writer: BlobWriter | null = null
  /** It has no bytes but those of the finished file. */
  #isCopy = false
  /** The last writes of `prepare` or `sync`. Where a client leaves, the upload ends while they are in flight. */
  #confirmed: Promise<unknown> = Promise.resolve()
  #state: 'untouched' | 'unfinished' | 'over_quota' | 'published' = 'untouched'
  readonly #lost = new AbortController()
  readonly #ended = new AbortController()
  #confirmedAt = clock.monotonicMs()

  /**
   * Throws UploadRefused when another session is uploading the file, when `start` is beyond the bytes present, and when
   * the directory is full.
   */
  static async begin(context: UploadContext, options: UploadOptions): Promise<Upload> {
    const { uploads, organizationId, name, storedName, folder: own, limits } = context
    const blob = newUploadBlob()
    const token = blob.slice(blob.lastIndexOf('/') + 1)
    let start = 0
    const begun = await refuseName(name, () =>
      beginUpload(
        uploads,
        { organizationId, name: storedName, own, token, blob },
        async (pair) => {
          if (pair.unfinished?.is_leased === true) throw isUploadedElsewhere(name)
          start = await decideStart(context, pair, options)
          const { announced } = options
          return { start, expected: announced === undefined ? null : start + announced }
        },
        limits,
      ),
    )
    if (begun === null) throw overQuota(name)
    return new Upload(context, { ...begun, token, start })
  }

  private constructor(
    context: UploadContext,
    begun: { record: UploadDocument; before: UploadPair; token: string; start: number },
  ) {
    this.#context = context
    this.#record = begun.record
    this.#before = begun.before
    this.#token = begun.token
    this.#start = begun.start
    this.#charged = begun.record.charged
    this.#blob = begun.record.blob
    void this.#renewUntilEnd()
  }

  /** In bytes, of an open upload. */
  get size(): number {
    return this.#openWriter().size
  }

  /** Whether it began with bytes of an earlier upload or file. */
  get isResumed(): boolean {
    return this.#start > 0
  }

  /** Whether the file of its name is this one. */
  get isPublished(): boolean {
    return this.#state === 'published'
  }

  /** Aborted when another session has taken over the upload. */
  get lost(): AbortSignal {
    return this.#lost.signal
  }

  /**
   * Opens the blob with the bytes to keep. Throws `signal`'s reason, and UploadRefused when another session has taken
   * over the upload, when the bytes to keep have changed, and when the disk is full.
   */
  async open(signal: AbortSignal): Promise<void> {
    const { uploads, name } = this.#context
    // In a process that was suspended another session may have the upload by now.
    const isOld = clock.monotonicMs() - this.#confirmedAt > 2 * uploadRenewalMs
    if (this.lost.aborted || (isOld && !(await this.#confirm()))) throw takenOver(name)
    this.#state = 'unfinished'
    await refuseFullDisk(name, async () => {
      const { finished, unfinished } = this.#before
      const base = unfinished ?? finished
      // A process that was taken for dead may still write to the blob of an upload whose lease has expired.
      if (unfinished !== null && unfinished.lease === null && this.#start > 0) {
        if (unfinished.size > this.#start) await uploads.blobs.truncate(this.#blob, this.#start)
        this.#writer = await uploads.blobs.append(this.#blob)
      } else if (unfinished === null && this.#start === 0) {
        this.#writer = await uploads.blobs.append(this.#blob, { isNew: true })
      } else {
        const old = unfinished === null ? null : this.#blob
        if (old !== null) this.#blob = newUploadBlob()
        this.#writer = await uploads.blobs.append(this.#blob, { isNew: true })
        this.#isCopy = unfinished === null
        if (this.#start > 0 && base !== null) await this.#copy(base.blob, signal)
        if (old !== null) {
          if (!(await replaceBlob(uploads.collections, this.#record, this.#token, this.#blob)))
            throw takenOver(name)
          void uploads.removeBlobs([old])
        }
      }
      if (this.#writer.size !== this.#start) throw changed(name)
    })
  }

  async #copy(from: string, signal: AbortSignal): Promise<void> {
    const { uploads, name } = this.#context
    const source = await uploads.blobs.open(from)
    if (source === null || source.size < this.#start) {
      await source?.close()
      throw changed(name)
    }
    try {
      for await (const piece of readRange(source, { start: 0, end: this.#start, signal }))
        await this.#writer?.append([piece])
    } finally {
      await source.close()
    }
  }

  /** Writes the data. Throws UploadRefused over the quota and on a full disk; errors of the source pass through. */
  async receive(data: AsyncIterable<Uint8Array>): Promise<void> {
    const { name } = this.#context
    const writer = this.#openWriter()
    for await (const piece of data) {
      await this.#reserve(writer.size + piece.length)
      this.#isCopy = false
      await refuseFullDisk(name, () => writer.append([piece]))
    }
  }

  async #reserve(size: number): Promise<void> {
    if (size <= this.#charged) return
    const { uploads, limits, name } = this.#context
    const min = size - this.#charged
    const more = { token: this.#token, wanted: Math.max(min, reservedAheadBytes), min }
    const grown = await refuseLost(name, () => growUpload(uploads, this.#record, more, limits))
    if (grown === null) {
      this.#state = 'over_quota'
      throw overQuota(name)
    }
    this.#charged += grown
  }

  /**
   * Makes the upload ready to publish without a visible change: all bytes on the disk. Throws UploadRefused when the
   * disk is full.
   */
  async prepare(): Promise<void> {
    const written = refuseFullDisk(this.#context.name, () => this.#openWriter().sync())
    this.#confirmed = written.catch(() => undefined)
    await written
  }

  /** Makes the received bytes durable; the upload stays unfinished. Throws UploadRefused when it was taken over. */
  async sync(): Promise<void> {
    await this.prepare()
    if (!(await this.#confirm())) throw takenOver(this.#context.name)
  }

  /** Makes the prepared file the one of its name. Throws when another session has taken over, and `signal`'s reason. */
  async publish(signal?: AbortSignal): Promise<void> {
    const { uploads, name } = this.#context
    const { size } = this.#openWriter()
    signal?.throwIfAborted()
    const unused = await refuseLost(name, () =>
      publishUpload(uploads, this.#record, { token: this.#token, size }),
    )
    this.#state = 'published'
    void uploads.removeBlobs(unused)
  }

  /**
   * Must be called last, after every outcome. An upload that isn't published can be resumed, unless it passed the quota:
   * then it is removed, as it would fill the directory for days. Throws the errors of closing the blob.
   */
  async end(): Promise<void> {
    try {
      await this.#confirmed
      // Where a write may still arrive, the lease expires by itself, and the next session resumes on a copy.
      const isClosed = (await this.#writer?.close()) ?? true
      if (isClosed && this.#state !== 'published') await this.#release()
    } finally {
      this.#ended.abort()
    }
  }

  async #release(): Promise<void> {
    const { uploads, log } = this.#context
    const { unfinished } = this.#before
    const writer = this.#writer
    const isNew = writer === null && unfinished === null
    const isWorthless = this.#isCopy || this.#state === 'over_quota' || isNew
    try {
      if (isWorthless) {
        const isOurs = ({ lease }: UploadDocument) => lease?.token === this.#token
        await uploads.removeBlobs(await removeUnfinished(uploads, this.#record, isOurs))
        return
      }
      // An expired lease stays until the blob that its holder may have open was replaced.
      if (writer === null && unfinished?.lease !== null) return
      const size = writer === null ? (unfinished?.size ?? 0) : writer.size
      await releaseUpload(uploads, this.#record, { token: this.#token, size })
    } catch (error) {
      log.warn({ err: error }, 'an upload was not released; its lease expires by itself')
    }
  }

  #openWriter(): BlobWriter {
    if (this.#writer === null) throw new Error('the upload is not open')
    return this.#writer
  }

  /** Whether the database still names this holder. Throws the database's errors. */
  async #confirm(): Promise<boolean> {
    const askedAt = clock.monotonicMs()
    if (
      !this.lost.aborted &&
      !(await renewUpload(this.#context.uploads.collections, this.#record, this.#token))
    )
      this.#lost.abort()
    this.#confirmedAt = askedAt
    return !this.lost.aborted
  }

  async #renewUntilEnd(): Promise<void> {
    const { signal } = this.#ended
    while (!signal.aborted && !this.lost.aborted) {
      try {
        await sleep(uploadRenewalMs, undefined, { signal, ref: false })
        if (this.#state !== 'published') await this.#confirm()
      } catch (error) {
        // No session can take over while the database is down.
        if (!signal.aborted) this.#context.log.warn({ err: error }, 'the lease of an upload was not renewed')
      }
    }
  }
}

/** The byte with which the upload begins. Throws UploadRefused where it isn't one. */
async function decideStart(
  { uploads, name }: UploadContext,
  { finished, unfinished }: UploadPair,
  { append, start = 0, isAtEnd = false }: UploadOptions,
): Promise<number> {
  const end =
    unfinished === null
      ? 0
      : unfinished.lease === null
        ? unfinished.size
        : await uploads.blobs.size(unfinished.blob)
  const present = unfinished === null ? (finished?.size ?? 0) : end
  if (isAtEnd && start !== end)
    throw wrongStart(
      name,
      unfinished === null
        ? `has no unfinished upload, so it begins at byte 0, not ${start}`
        : `has an unfinished upload of ${end} bytes, so it resumes at byte ${end}, not ${start}`,
    )
  if (!append && start > present)
    throw wrongStart(name, `has ${present} bytes, so it can't be resumed at byte ${start}`)
  return append ? present : start
}

const wrongStart = (name: string, message: string) => new UploadRefused('wrong_start', name, message)

const takenOver = (name: string) =>
  new UploadRefused('taken_over', name, 'another session has taken over this upload')

const changed = (name: string) =>
  new UploadRefused('changed', name, 'changed or taken over while the upload began; try again')

const overQuota = (name: string) =>
  new UploadRefused(
    'over_quota',
    name,
    'the upload directory is full; delete files, or ask the operator for a higher limit',
  )

async function refuseLost<T>(name: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw error instanceof UploadLost ? takenOver(name) : error
  }
}

async function refuseFullDisk<T>(name: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!isStagingFull(error)) throw error
    throw new UploadRefused('disk_full', name, 'the disk of the server is full; try again later', {
      cause: error,
    })
  }
}
