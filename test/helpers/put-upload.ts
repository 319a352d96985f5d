import type { UploadStore } from '../../shared/storage/uploads/upload-store.ts'
import { newUploadToken } from '../../shared/storage/uploads/upload-names.ts'

/** Stores a finished upload, by the steps of a session that receives one. */
export async function putUpload(directory: UploadStore, name: string, content: string): Promise<void> {
  const upload = await directory.beginOrResume({
    name,
    token: newUploadToken(),
    wasAbandoned: false,
    keep: 0,
  })
  await upload.write(Buffer.from(content))
  await upload.prepare()
  await upload.publish()
  await upload.close()
}
