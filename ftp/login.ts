import { findCaller, mayUpload, type Caller } from '../shared/store/api-keys.ts'
import { UploadDirectory } from '../shared/storage/uploads/upload-directory.ts'
import { clientNetwork } from '../shared/values/ip.ts'
import { FtpDirectory } from './ftp-directory.ts'
import type { FtpSession } from './session.ts'

const maxWrongLogins = 3

/** Replies to PASS. */
export async function logIn(session: FtpSession, username: string, password: string): Promise<void> {
  const { control, context } = session
  const { metrics, collections, limits, uploads, uploadLimits, log } = context
  // Logins of one network (in IPv6, a /64) run one at a time: in parallel, all would pass the throttle before the
  // first failure was recorded.
  const caller = await context.loginMutex.runExclusive(clientNetwork(control.remoteAddress), () =>
    identify(session, username, password),
  )
  if (caller === 'throttled')
    return refuseLogin(session, caller, 'too many wrong logins from this address; try again in a minute')
  if (caller === 'wrong')
    return refuseLogin(
      session,
      caller,
      'wrong user or API key; log in as user api with an API key as password',
    )
  if (!mayUpload(caller))
    return refuseLogin(session, 'forbidden', 'this API key lacks the permission subscriber/import')
  const { organizationId, keyId } = caller
  const directory = new UploadDirectory({ uploads, limits: uploadLimits, organizationId, collections, log })
  await directory.prepare()
  // No await between this check and the listener for 'close': a session that closed between them would count forever.
  if (control.destroyed) return
  if (!limits.enterAccount(organizationId)) {
    session.end('account_limit', 'too many sessions of this account; close one and log in again')
    return
  }
  control.once('close', () => {
    limits.leaveAccount(organizationId)
  })
  session.fs = new FtpDirectory(directory)
  session.account = { keyId, organizationId }
  session.authenticated = true
  metrics.login('ok')
  await session.reply(230, 'logged in')
}

async function refuseLogin(
  session: FtpSession,
  result: 'throttled' | 'wrong' | 'forbidden',
  reason: string,
): Promise<void> {
  session.context.metrics.login(result)
  session.wrongLogins += 1
  const isLast = session.wrongLogins >= maxWrongLogins
  await session.reply(
    530,
    isLast ? `${reason}; the connection closes after ${maxWrongLogins} failed logins` : reason,
  )
  if (!isLast) return
  session.endedBy = 'wrong_logins'
  session.control.destroy()
}

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
  return (await throttle.recordFailure(control.remoteAddress)) > 0 ? 'throttled' : 'wrong'
}
