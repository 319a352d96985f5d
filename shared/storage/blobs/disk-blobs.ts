import { mkdir, open, readdir, rm, rmdir, stat, truncate, type FileHandle } from 'node:fs/promises'
import path from 'node:path'
import { fallbackOn } from '../../runtime/fallback-on.ts'
import { openWithStats } from '../../runtime/open-with-stats.ts'
import { binaryMegabyte } from '../../values/byte-sizes.ts'
import type { DiskReserve } from '../staging/disk-reserve.ts'
import { syncFolder } from '../staging/sync-folder.ts'
import type { Blob, Blobs, BlobWriter } from './blobs.ts'
import { fileSystemTime } from './file-system-time.ts'

/** Large blobs are synced in pieces. One sync of hundreds of megabytes would delay the syncs of all others. */
const syncEveryBytes = 8 * binaryMegabyte

/** Blobs as files of a folder that all processes of one site share. */
export function diskBlobs(folder: string, reserve: DiskReserve): Blobs {
  const locate = (id: string) => path.join(folder, id)
  const openToAppend = (id: string) => open(locate(id), 'a', 0o600)
  const groupsOf = async (prefix: string): Promise<string[]> => {
    const [room = '', group = ''] = prefix.split('/')
    if (group !== '') return [`${room}/${group}`]
    const groups = await fallbackOn(['ENOENT'], [], readdir(locate(room)))
    return groups.map((name) => `${room}/${name}`)
  }
  return {
    async append(id) {
      await reserve.check()
      const handle = await fallbackOn(['ENOENT'], null, openToAppend(id))
      if (handle !== null) return new DiskBlobWriter(handle, locate(id), (await handle.stat()).size, reserve)
      await mkdir(path.dirname(locate(id)), { recursive: true, mode: 0o700 })
      return new DiskBlobWriter(await openToAppend(id), locate(id), 0, reserve)
    },
    async open(id) {
      const opened = await fallbackOn(['ENOENT'], null, openWithStats(locate(id), 'r'))
      return opened === null ? null : diskBlob(opened.handle, Number(opened.stats.size))
    },
    async size(id) {
      return (await fallbackOn(['ENOENT'], null, stat(locate(id))))?.size ?? 0
    },
    truncate: (id, size) => truncate(locate(id), size),
    async remove(id) {
      await rm(locate(id), { force: true, recursive: true })
      // The folder of an import goes with its last file.
      if (!id.startsWith('uploads/')) await rmdir(path.dirname(locate(id))).catch(() => undefined)
    },
    async *list(prefix, { olderThanMs } = { olderThanMs: 0 }) {
      const groups = await groupsOf(prefix)
      if (groups.length === 0) return
      // By the file server's clock, because that of this machine may be ahead.
      const before = olderThanMs === 0 ? Infinity : (await fileSystemTime(folder)) - olderThanMs
      for (const group of groups) {
        const ids: string[] = []
        for (const name of await fallbackOn(['ENOENT', 'ENOTDIR'], [], readdir(locate(group)))) {
          const stats = before === Infinity ? null : await stat(locate(`${group}/${name}`)).catch(() => null)
          if (before === Infinity || (stats !== null && stats.mtimeMs < before)) ids.push(`${group}/${name}`)
        }
        yield ids
      }
    },
  }
}

const diskBlob = (handle: FileHandle, size: number): Blob => ({
  size,
  async read(target, position) {
    let done = 0
    while (done < target.length) {
      const { bytesRead } = await handle.read(target, done, target.length - done, position + done)
      if (bytesRead === 0) break
      done += bytesRead
    }
    return done
  },
  close: () => handle.close(),
})

/** What is left of buffers after their first bytes. */
function after(buffers: Uint8Array[], bytes: number): Uint8Array[] {
  let skipped = bytes
  const first = buffers.findIndex(({ length }) => {
    if (skipped < length) return true
    skipped -= length
    return false
  })
  return first === -1 ? [] : [buffers[first]!.subarray(skipped), ...buffers.slice(first + 1)]
}

class DiskBlobWriter implements BlobWriter {
  size: number
  readonly #handle: FileHandle
  readonly #file: string
  readonly #reserve: DiskReserve
  #isNew: boolean
  #isOpen = true
  #unsynced = 0
  /** The sync in progress. Its error is thrown before the next one begins. */
  #syncing: Promise<void> = Promise.resolve()

  constructor(handle: FileHandle, file: string, size: number, reserve: DiskReserve) {
    this.#handle = handle
    this.#file = file
    this.size = size
    this.#isNew = size === 0
    this.#reserve = reserve
  }

  async append(buffers: Uint8Array[]): Promise<void> {
    await this.#reserve.check()
    // One call for all of them: the partition of a huge file has thousands of small buffers in each piece.
    for (let left = buffers.filter(({ length }) => length > 0); left.length > 0;) {
      try {
        const { bytesWritten } = await this.#handle.writev(left)
        left = after(left, bytesWritten)
        this.size += bytesWritten
        this.#unsynced += bytesWritten
      } catch (error) {
        // On a full disk a part of it was written.
        this.size = (await this.#handle.stat()).size
        throw error
      }
    }
    if (this.#unsynced < syncEveryBytes) return
    this.#unsynced = 0
    await this.#syncing
    this.#syncing = this.#handle.datasync()
    this.#syncing.catch(() => undefined)
  }

  flush(): Promise<void> {
    return Promise.resolve()
  }

  async sync(): Promise<void> {
    await this.#syncing
    await this.#handle.sync()
    if (this.#isNew) await syncFolder(path.dirname(this.#file))
    this.#isNew = false
  }

  async close(): Promise<boolean> {
    if (!this.#isOpen) return true
    this.#isOpen = false
    await this.#syncing.catch(() => undefined)
    await this.#handle.close()
    return true
  }
}
