import { randomBytes } from 'node:crypto'
import { mkdir, open, readdir, rename, rm, stat, type FileHandle } from 'node:fs/promises'
import path from 'node:path'
import { fallbackOn } from '../../runtime/fallback-on.ts'
import { openWithStats } from '../../runtime/open-with-stats.ts'
import { fileSystemTime } from '../uploads/file-fingerprint.ts'
import { DiskReserve } from './disk-reserve.ts'
import type { StagedFile, StagedWriter, Staging } from './staging.ts'
import { syncFolder } from './sync-folder.ts'

/** Staging in a folder that all processes of one site share; by default without a reserve. */
export function diskStaging(
  folder: string,
  reserve = new DiskReserve({ STAGING: 'disk', DATA_DIR: folder }),
): Staging {
  const locate = (name: string) => path.join(folder, name)
  return {
    async write(name, content) {
      const target = locate(name)
      await mkdir(path.dirname(target), { recursive: true, mode: 0o700 })
      // A new name for each attempt: an engine that was taken for dead may still write to its own.
      const unfinished = `${target}.${randomBytes(6).toString('hex')}.part`
      try {
        const size = await writeWhole(unfinished, content, reserve)
        await rename(unfinished, target)
        await syncFolder(path.dirname(target))
        return size
      } finally {
        await rm(unfinished, { force: true })
      }
    },
    async create(name) {
      const target = locate(name)
      await mkdir(path.dirname(target), { recursive: true, mode: 0o700 })
      await reserve.check()
      return new DiskWriter(await open(target, 'w', 0o600), reserve)
    },
    async open(name) {
      const opened = await fallbackOn(['ENOENT'], null, openWithStats(locate(name), 'r'))
      return opened === null ? null : new DiskFile(opened.handle, Number(opened.stats.size))
    },
    remove: (name) => rm(locate(name), { force: true }),
    async removeImport(importId, { keep } = {}) {
      const folder = locate(String(importId))
      if (keep === undefined) return rm(folder, { recursive: true, force: true })
      for (const name of await readdir(folder).catch(() => []))
        if (!keep.includes(`${importId}/${name}`))
          await rm(path.join(folder, name), { recursive: true, force: true })
    },
    async listImports({ olderThanMs }) {
      const ids = (await readdir(folder).catch(() => [])).map(Number).filter(Number.isSafeInteger)
      if (ids.length === 0) return []
      // The clock of this machine may be ahead of the file server's, and content of a creation in progress would seem
      // old.
      const before = (await fileSystemTime(folder)) - olderThanMs
      const folders = await Promise.all(
        ids.map(async (id) => ({ id, changedAt: await lastChange(locate(String(id))) })),
      )
      return folders.filter(({ changedAt }) => changedAt < before).map(({ id }) => id)
    },
    async size() {
      const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
      let bytes = 0
      for (const entry of entries)
        // A file that was removed meanwhile takes no space.
        if (entry.isFile())
          bytes += (await stat(path.join(entry.parentPath, entry.name)).catch(() => null))?.size ?? 0
      return bytes
    },
    // Every file is in the folder of its import.
    sweep: () => Promise.resolve(),
    spaceProblem: () => reserve.problem(),
  }
}

/** When a file was last added to the folder, by the file server's clock; Infinity when the folder is gone. */
async function lastChange(folder: string): Promise<number> {
  return (await stat(folder).catch(() => ({ mtimeMs: Infinity }))).mtimeMs
}

async function writeWhole(
  file: string,
  content: AsyncIterable<Uint8Array>,
  reserve: DiskReserve,
): Promise<number> {
  await reserve.check()
  const handle = await open(file, 'w', 0o600)
  const writer = new DiskWriter(handle, reserve)
  let size = 0
  try {
    for await (const piece of content) {
      await writer.append([piece])
      size += piece.length
    }
    await handle.sync()
  } finally {
    await handle.close()
  }
  return size
}

export class DiskFile implements StagedFile {
  readonly #handle: FileHandle
  readonly size: number

  constructor(handle: FileHandle, size: number) {
    this.#handle = handle
    this.size = size
  }

  async read(target: Uint8Array, position: number): Promise<number> {
    let done = 0
    while (done < target.length) {
      const { bytesRead } = await this.#handle.read(target, done, target.length - done, position + done)
      if (bytesRead === 0) break
      done += bytesRead
    }
    return done
  }

  close(): Promise<void> {
    return this.#handle.close()
  }
}

class DiskWriter implements StagedWriter {
  readonly #handle: FileHandle
  readonly #reserve: DiskReserve
  #closed = false

  constructor(handle: FileHandle, reserve: DiskReserve) {
    this.#handle = handle
    this.#reserve = reserve
  }

  async append(buffers: Uint8Array[]): Promise<void> {
    await this.#reserve.check()
    let rest = buffers
    while (rest.length > 0) {
      const { bytesWritten } = await this.#handle.writev(rest)
      rest = dropBytes(rest, bytesWritten)
    }
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.#handle.close()
  }
}

function dropBytes(buffers: Uint8Array[], count: number): Uint8Array[] {
  let left = count
  return buffers.flatMap((buffer) => {
    const dropped = Math.min(left, buffer.length)
    left -= dropped
    return dropped === buffer.length ? [] : [buffer.subarray(dropped)]
  })
}
