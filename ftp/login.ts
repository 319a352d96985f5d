import { findCaller, type Caller } from '../shared/store/api-keys.ts'
import { networkOf } from '../shared/values/ip.ts'
import type { FtpSession } from './session.ts'
import { UploadDirectory } from './uploads/upload-directory.ts'

/** So many wrong passwords end a session. */
const maxWrongLogins = 3

/** Whether the directory is open to the caller: uploading is the first half of importing. */
export const mayUpload = (caller: Caller): boolean =>
  caller.permissions['subscriber']?.includes('import') === true

/** Answers PASS. */
export async function logIn(session: FtpSession, username: string, password: string): Promise<void> {
  const { control, context } = session
  const { metrics, collections, limits, uploads, uploadLimits, log } = context
  const caller = await context.mutex.runExclusive(networkOf(control.remoteAddress), () =>
    identify(session, username, password),
  )
  if (caller === 'throttled')
    return refuse('throttled', 'too many wrong logins came from this address, try again in a minute')
  if (caller === 'wrong') return refuse('wrong', 'log in as user api with an API key as password')
  if (!mayUpload(caller)) return refuse('forbidden', 'this API key lacks the permission subscriber/import')
  const { organizationId, keyId } = caller
  const directory = new UploadDirectory({ uploads, limits: uploadLimits, organizationId, collections, log })
  await directory.prepare()
  // From here on without a pause: a session that is gone would be counted for ever.
  if (control.destroyed) return
  if (!limits.enterAccount(organizationId)) {
    session.end('account_limit', 'there are too many sessions of this account, end some of them')
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
    const isLast = session.wrongLogins >= maxWrongLogins
    await session.reply(
      530,
      isLast ? `${message}; this connection ends after ${maxWrongLogins} tries` : message,
    )
    if (!isLast) return
    session.endedBy = 'wrong_logins'
    control.destroy()
  }
}

/**
 * Logins from one address (in IPv6, one /64) take turns at this: sent together, they would all be looked up before the first failure among
 * them was noted.
 */
async function identify(
  { control, context }: FtpSession,
  username: string,
  password: string,
): Promise<Caller | 'wrong' | 'throttled'> {
  const { throttle, collections, keyHashSecret } = context
  const [blockedSeconds, caller] = await Promise.all([
    throttle.blockedSeconds(control.remoteAddress),
    username === 'api' ? findCaller(collections, keyHashSecret, password) : null,
  ])
  if (blockedSeconds > 0) return 'throttled'
  if (caller !== null) return caller
  return (await throttle.noteFailure(control.remoteAddress)) > 0 ? 'throttled' : 'wrong'
}
