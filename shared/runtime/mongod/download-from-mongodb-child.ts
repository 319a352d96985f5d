import type { RequestOptions } from 'node:https'
import { getOS } from 'mongodb-memory-server-core/lib/util/getos/index.js'
import { MongoBinaryDownload } from 'mongodb-memory-server-core/lib/util/MongoBinaryDownload.js'
import { messageOf } from '../../contract/errors.ts'
import type { DownloadReport } from './download-from-mongodb.ts'

/** Entry of the child process of download-from-mongodb.ts: downloads into the folder that its argument names. */

/**
 * The newest series that tests have run on (docs/mongodb-versions.md). The library's own default changes with each of
 * its releases, to servers that this project has never been run on.
 */
const serverVersion = '7.0.28'

/** The library accepts any TLS certificate unless told otherwise, and the checksum comes from the same host. */
class VerifiedDownload extends MongoBinaryDownload {
  override httpDownload(url: URL, options: RequestOptions, ...rest: [string, string]): Promise<string> {
    return super.httpDownload(url, { ...options, rejectUnauthorized: true }, ...rest, 1)
  }
}

const report = (message: DownloadReport) => process.send?.(message)

const download = new VerifiedDownload({
  version: serverVersion,
  downloadDir: process.argv[2]!,
  checkMD5: true,
  os: await getOS(),
})
const ticking = setInterval(() => report({ bytes: download.dlProgress.current }), 250)
try {
  report({ binary: await download.getMongodPath() })
} catch (error) {
  report({ error: messageOf(error) })
} finally {
  clearInterval(ticking)
}
process.on('disconnect', () => process.exit())
