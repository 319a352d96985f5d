import { AddressRefused } from '../../shared/address-guard.ts'
import { ImportError, messageOf } from '../../shared/errors.ts'
import { maskPassword } from '../../shared/logger.ts'
import { isStagingFull } from '../../shared/staging/staging.ts'

/** The bounds of a download and what its failures mean, for every scheme. */

export const longestDownload = 200 * 1000 * 1000
export const downloadMinutes = 15

export const shown = (url: URL): string => maskPassword(url.href)

export const tooLarge = () =>
  new ImportError(
    'source_refused',
    `the file has more than ${longestDownload / 1e6} MB, the most that is taken from a URL: upload it by FTP instead`,
  )

/** The same bytes, as long as they stay within the bound. Counted as they come, after every decoding. */
export async function* capped(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let size = 0
  for await (const piece of pieces) {
    size += piece.length
    if (size > longestDownload) throw tooLarge()
    yield piece
  }
}

/** What went wrong with a try, as an ImportError; everything that isn't for good may go well at the next one. */
export function downloadError(
  error: unknown,
  url: URL,
  signals: { deadline: AbortSignal; stopped: AbortSignal },
): unknown {
  if (signals.stopped.aborted) return signals.stopped.reason
  if (signals.deadline.aborted)
    return new ImportError(
      'source_refused',
      `${shown(url)} had not sent the whole file after ${downloadMinutes} minutes`,
    )
  if (error instanceof ImportError || isStagingFull(error)) return error
  const refused = findCause(error, AddressRefused)
  if (refused !== null) return new ImportError('source_refused', refused.message, { cause: error })
  return new ImportError('source_unavailable', `${shown(url)} couldn't be downloaded: ${messageOf(error)}`, {
    retryable: true,
    cause: error,
  })
}

function findCause<T extends Error>(error: unknown, kind: new (...args: never[]) => T): T | null {
  for (let at: unknown = error; at instanceof Error; at = at.cause) if (at instanceof kind) return at
  return null
}
