import type { RequestOptions } from 'node:https'
import { getOS } from 'mongodb-memory-server-core/lib/util/getos/index.js'
import { MongoBinaryDownload } from 'mongodb-memory-server-core/lib/util/MongoBinaryDownload.js'
import { errorMessage } from '../../contract/errors.ts'
import type { DownloadReport } from './download-from-mongodb.ts'

/** Entry of the child process of download-from-mongodb.ts. Its argument is the folder to download into. */

/**
 * The newest version that tests have run on (docs/mongodb-versions.md). The library's default changes with its
 * releases, to servers on which Rollcall was never tested.
 */
const serverVersion = '7.0.28'

/** By default the library accepts any TLS certificate, and the checksum comes from the same host. */
class VerifiedDownload extends MongoBinaryDownload {
  override httpDownload(url: URL, options: RequestOptions, ...rest: [string, string]): Promise<string> {
    return super.httpDownload(url, { ...options, rejectUnauthorized: true }, ...rest, 1)
  }
}

const report = (message: DownloadReport) => process.send?.(message)

const [, , downloadDir = ''] = process.argv
const download = new VerifiedDownload({
  version: serverVersion,
  downloadDir,
  checkMD5: true,
  os: await getOS(),
})
const ticking = setInterval(() => report({ bytes: download.dlProgress.current }), 250)
try {
  report({ binary: await download.getMongodPath() })
} catch (error) {
  report({ error: errorMessage(error) })
} finally {
  clearInterval(ticking)
}
process.on('disconnect', () => process.exit())
