import { text } from 'node:stream/consumers'
import { createLogger } from '../../shared/runtime/logger.ts'
import { SessionPool } from '../../shared/runtime/transactions.ts'
import { openUploads, type Uploads } from '../../shared/storage/uploads/open-uploads.ts'
import { UploadDirectory } from '../../shared/storage/uploads/upload-directory.ts'
import { noLimits } from '../../shared/store/ledger.ts'
import type { Service } from './service.ts'

const log = createLogger({ process: 'test', level: 'fatal' })

/** The upload directory of an organization, beside its service. Unfinished uploads are entries `.unfinished-NAME`. */
export function storedUploads(service: Service, organizationId = 1) {
  const STAGING = service.settings['STAGING'] === 'gridfs' ? 'gridfs' : 'disk'
  const { collections, client, dataFolder: DATA_DIR } = service
  const uploads = openUploads({ STAGING, DATA_DIR }, { sessions: new SessionPool(client), collections })
  const entryOf = ({ state, name }: { state: string; name: string }) =>
    state === 'unfinished' ? `.unfinished-${name}` : name
  const list = () => collections.uploads.find({ organization_id: organizationId }).toArray()
  const blobOf = async (entry: string) =>
    (await list()).find((upload) => entryOf(upload) === entry && upload.state !== 'detached')?.blob ?? ''
  return {
    uploads,
    entries: async () => (await list()).filter(({ state }) => state !== 'detached').map(entryOf),
    content: async (name: string) => text((await uploads.open(organizationId, name))!.stream()),
    size: async (entry: string) => uploads.blobs.size(await blobOf(entry)),
    /** Uploads a file. */
    put: (name: string, content: Uint8Array | string) => putUpload(uploads, name, content, organizationId),
    remove: (name: string) =>
      new UploadDirectory({ uploads, organizationId, folder: null, limits: noLimits, log }).delete(name),
    /** Whether a session has the upload of that name. */
    isLocked: async (name: string) =>
      (await list()).some((upload) => upload.name === name && upload.lease !== null),
    /** Ends the lease, as a long suspension would. */
    endLease: (name: string) =>
      collections.uploads.updateOne(
        { organization_id: organizationId, name, state: 'unfinished' },
        { $set: { 'lease.until': new Date(0) } },
      ),
  }
}

/** Uploads a file, by the steps of a session that receives one. */
export async function putUpload(
  uploads: Uploads,
  name: string,
  content: Uint8Array | string,
  organizationId = 1,
): Promise<void> {
  const directory = new UploadDirectory({ uploads, organizationId, folder: null, limits: noLimits, log })
  const upload = await directory.beginUpload(name, { append: false, start: undefined })
  try {
    await upload.open(new AbortController().signal)
    await upload.receive(
      (async function* () {
        yield Buffer.from(content as string)
      })(),
    )
    await upload.prepare()
    await upload.publish()
  } finally {
    await upload.end()
  }
}
