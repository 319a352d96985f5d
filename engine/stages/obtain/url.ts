import { ImportError } from '../../../shared/contract/errors.ts'
import type { ImportDocument } from '../../../shared/contract/schemas/import.ts'
import { CannotUnseal, openSecrets } from '../../../shared/store/secrets.ts'
import { unpacked } from '../../../shared/containers/unpack.ts'
import type { Source, SourceContext } from './source.ts'

/**
 * Stages the file behind the URL. It counts as complete only when the server has said so. One that is a container and
 * can't be unpacked isn't downloaded again: another try would bring the same bytes.
 */
export const urlSource: Source = async (document, context) => {
  const url = await openUrl(document, context)
  let failure: unknown = null
  const content = (async function* () {
    try {
      yield* unpackedDownload(url, document.source.filename, context)
    } catch (error) {
      failure = error
      throw error
    }
  })()
  try {
    await context.staging.write(context.target, content)
    return context.target
  } catch (error) {
    // The download's error where there is one: the staging may reject with another one that says less.
    throw failure ?? error
  }
}

async function* unpackedDownload(url: URL, filename: string, context: SourceContext): AsyncGenerator<Buffer> {
  const { bounds, signal, spool } = context
  // Loading the HTTP and FTP clients takes a fifth of a process's start, and is left to the first download.
  const { downloadBound, downloadedContent } = await import('../../../shared/net/download.ts')
  yield* unpacked(downloadedContent(url, context), {
    what: JSON.stringify(filename),
    bound: downloadBound(bounds),
    ...{ signal, spool },
  })
}

async function openUrl(document: ImportDocument, { secrets }: SourceContext): Promise<URL> {
  try {
    const { url } = await openSecrets(document, secrets)
    return new URL(url ?? '')
  } catch (error) {
    if (!(error instanceof CannotUnseal)) throw error
    throw new ImportError(
      'secrets_unreadable',
      `file_source.url can't be decrypted: ${error.message}; after that, create the import again`,
      { cause: error },
    )
  }
}
