import { findCaller, type Caller } from '../shared/api-keys.ts'
import type { FtpSession } from './session.ts'
import { UploadDirectory } from './upload-directory.ts'

/** So many wrong passwords end a session. */
const mostWrongLogins = 3

/** Whether the directory is open to the caller: uploading is the first half of importing. */
export const mayUpload = (caller: Caller): boolean =>
  caller.permissions['subscriber']?.includes('import') === true

/** Answers PASS. */
export async function logIn(session: FtpSession, username: string, password: string): Promise<void> {
  const { control, surroundings } = session
  const { throttle, metrics, collections, limits, uploads, uploadLimits, log } = surroundings
  if ((await throttle.blockedSeconds(control.remoteAddress)) > 0)
    return refuse('throttled', 'too many wrong logins came from this address, try again in a minute')
  const caller =
    username === 'api' ? await findCaller(collections, surroundings.keyHashSecret, password) : null
  if (caller === null) {
    await throttle.noteFailure(control.remoteAddress)
    return refuse('wrong', 'log in as user api with an API key as password')
  }
  if (!mayUpload(caller)) return refuse('forbidden', 'this API key lacks the permission subscriber/import')
  const { organizationId, keyId } = caller
  const directory = new UploadDirectory({ uploads, limits: uploadLimits, organizationId, collections, log })
  await directory.prepare()
  // From here on without a pause: a session that is gone would be counted for ever.
  if (control.destroyed) return
  if (!limits.enterAccount(organizationId)) {
    session.end('there are too many sessions of this account, end some of them')
    return
  }
  control.once('close', () => {
    limits.leaveAccount(organizationId)
  })
  session.fs = directory
  session.account = { keyId, organizationId }
  session.authenticated = true
  metrics.login('ok')
  await session.reply(230, 'welcome')

  async function refuse(result: 'throttled' | 'wrong' | 'forbidden', message: string): Promise<void> {
    metrics.login(result)
    session.wrongLogins += 1
    const isLast = session.wrongLogins >= mostWrongLogins
    await session.reply(
      530,
      isLast ? `${message}; this connection ends after ${mostWrongLogins} tries` : message,
    )
    if (isLast) control.destroy()
  }
}
