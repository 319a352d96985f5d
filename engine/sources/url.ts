import { openSecrets } from '../../shared/import-secrets.ts'
import { downloadedContent } from '../../shared/sources/download.ts'
import type { Source } from './source.ts'

/** Stages what is behind the URL; it is staged only when the server has said that it is whole. */
export const urlSource: Source = async (document, context) => {
  const { url } = await openSecrets(document, context.secrets)
  let failure: unknown = null
  const content = (async function* () {
    try {
      yield* downloadedContent(new URL(url!), document.source.filename, context)
    } catch (error) {
      failure = error
      throw error
    }
  })()
  try {
    await context.staging.write(context.target, content)
    return context.target
  } catch (error) {
    // Whatever else the staging throws is its own.
    throw failure ?? error
  }
}
