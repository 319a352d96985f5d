import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { ObjectId } from 'mongodb'
import { gridFileSize, streamGridFile } from '../../shared/storage/gridfs/grid-bucket.ts'
import { SessionPool } from '../../shared/runtime/transactions.ts'
import { openUploads } from '../../shared/storage/uploads/open-uploads.ts'
import { newUploadToken, unfinishedName } from '../../shared/storage/uploads/upload-names.ts'
import type { Service } from './service.ts'

/** The stored content of the first organization's upload directory; names of hidden entries begin with a dot. */
interface StoredUploads {
  entries: () => Promise<string[]>
  content: (name: string) => Promise<string>
  size: (entry: string) => Promise<number>
  /** Puts a file there as if it had been uploaded. */
  put: (name: string, content: Uint8Array | string) => Promise<void>
}

export const storedUploads = (service: Service): StoredUploads =>
  service.settings['STAGING'] === 'gridfs' ? inGrid(service) : onDisk(service)

function onDisk({ dataFolder }: Service): StoredUploads {
  const folder = path.join(dataFolder, 'uploads', '1')
  return {
    entries: () => readdir(folder),
    content: (name) => readFile(path.join(folder, name), 'utf8'),
    size: async (entry) => (await stat(path.join(folder, entry))).size,
    async put(name, content) {
      await mkdir(folder, { recursive: true })
      await writeFile(path.join(folder, name), content)
    },
  }
}

function inGrid({ collections, client }: Service): StoredUploads {
  const contents = async () => {
    const documents = await collections.uploadNames.find({ organization_id: 1 }).toArray()
    return new Map(
      documents.flatMap(({ name, finished, unfinished }) => [
        ...(finished === null ? [] : [[name, finished.content] as const]),
        ...(unfinished === null
          ? []
          : [[unfinishedName(unfinished.token, name), unfinished.content] as const]),
      ]),
    )
  }
  const fileOf = async (entry: string) => new ObjectId((await contents()).get(entry))
  const size = async (entry: string) => gridFileSize(collections.uploads, await fileOf(entry))
  return {
    entries: async () => [...(await contents()).keys()],
    content: async (name) => {
      const end = await size(name)
      return text(Readable.from(streamGridFile(collections.uploads, await fileOf(name), { end })))
    },
    size,
    async put(name, content) {
      const directory = openUploads(
        { STAGING: 'gridfs', DATA_DIR: '' },
        { sessions: new SessionPool(client), collections },
      ).directory(1)
      const upload = await directory.beginOrResume({
        name,
        token: newUploadToken(),
        wasAbandoned: false,
        keep: 0,
      })
      await upload.write(Buffer.from(content as string))
      await upload.prepare()
      await upload.publish()
      await upload.close()
    },
  }
}
