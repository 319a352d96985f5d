import type { Blob, Blobs } from '../blobs/blobs.ts'
import { DiskReserveReached, type DiskReserve } from './disk-reserve.ts'

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
  /** Stores content durably, and resolves to its length. When it throws, nothing of the content stays. */
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
  /**
   * Why the disk is full, or null. Then nothing that writes much may begin, and `write`, `create` and `append` throw
   * DiskReserveReached.
   */
  spaceProblem(): Promise<string | null>
}

export type StagedFile = Blob

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
const parseImportId = (name: string): number => Number(name.slice(0, name.indexOf('/')))

/** The staging in the blobs of the room `staging`, in one group for each import. */
export function stagingOf(blobs: Blobs, reserve: Pick<DiskReserve, 'problem'>): Staging {
  /** The blob of an uploaded file that is read in place has an id of its own. */
  const toBlob = (name: string) => (name.startsWith('uploads/') ? name : `staging/${name}`)
  const removeAll = async (ids: string[]) => {
    for (const id of ids) await blobs.remove(id)
  }
  return {
    async write(name, content) {
      const blob = toBlob(name)
      // An earlier content of the name, as of a try that broke off.
      await blobs.remove(blob)
      const writer = await blobs.append(blob, { isNew: true })
      try {
        for await (const piece of content) await writer.append([piece])
        await writer.sync()
      } catch (error) {
        await writer.close()
        await blobs.remove(blob).catch(() => undefined)
        throw error
      }
      await writer.close()
      return writer.size
    },
    async create(name) {
      const writer = await blobs.append(toBlob(name))
      return {
        append: (buffers) => writer.append(buffers),
        close: async () => {
          await writer.flush()
          await writer.close()
        },
      }
    },
    open: (name) => blobs.open(toBlob(name)),
    remove: (name) => blobs.remove(toBlob(name)),
    async removeImport(importId, { keep = [] } = {}) {
      const kept = new Set(keep.map(toBlob))
      for await (const ids of blobs.list(`staging/${importId}`))
        await removeAll(ids.filter((id) => !kept.has(id)))
    },
    async listImports({ olderThanMs }) {
      const all = new Map<number, number>()
      const count = async (listed: AsyncIterable<string[]>, by: 1 | -1) => {
        for await (const ids of listed)
          for (const id of ids) {
            const importId = parseImportId(id.slice('staging/'.length))
            if (Number.isSafeInteger(importId)) all.set(importId, (all.get(importId) ?? 0) + by)
          }
      }
      await count(blobs.list('staging'), 1)
      await count(blobs.list('staging', { olderThanMs }), -1)
      return [...all].filter(([, young]) => young <= 0).map(([id]) => id)
    },
    async size() {
      let bytes = 0
      for await (const ids of blobs.list('staging')) for (const id of ids) bytes += await blobs.size(id)
      return bytes
    },
    spaceProblem: () => reserve.problem(),
  }
}

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
