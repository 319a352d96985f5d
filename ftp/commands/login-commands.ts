import { UploadDirectory } from '../../shared/storage/uploads/upload-directory.ts'
import {
  actorFields,
  findCaller,
  findRefusedKey,
  mayUpload,
  type Caller,
} from '../../shared/store/api-keys.ts'
import type { Certificate } from '../connection/certificate.ts'
import { FtpDirectory } from '../ftp-directory.ts'
import { FtpError, printable } from '../ftp-error.ts'
import type { FtpSession } from '../session.ts'
import type { CommandDefinitions } from './command-table.ts'

const maxWrongLogins = 3

const loginRefusals = {
  throttled: 'too many wrong logins from this address; try again in a minute',
  wrong: 'wrong user or API key; log in as user api with an API key as password',
  forbidden: 'this API key lacks the permission subscriber/import',
}

interface LoginRefusal {
  result: keyof typeof loginRefusals
  /** Whose key it was; null for a wrong one. */
  key: Pick<Caller, 'keyId' | 'organizationId' | 'userId'> | null
  isLogged: boolean
}

/** The commands for logging in and for encryption: RFC 959, RFC 2228, RFC 4217. */
export const loginCommands: CommandDefinitions = {
  USER: {
    parameters: '<name>',
    description: 'Begin a login; the name is api',
    isBeforeLogin: true,
    async handler(session, arg) {
      if (session.authenticated === true)
        throw new FtpError(530, 'already logged in; open another connection for another login')
      await requireTlsForLogin(session)
      if (arg === null) throw new FtpError(501, 'USER needs a name: send USER api')
      session.username = arg
      await session.reply(331, 'send PASS with an API key')
    },
  },
  PASS: {
    parameters: '<API key>',
    description: 'Complete the login',
    isBeforeLogin: true,
    async handler(session, arg) {
      if (session.authenticated === true) return session.reply(202, 'already logged in')
      await requireTlsForLogin(session)
      if (session.username === undefined) throw new FtpError(503, 'send USER api first')
      if (arg === null) throw new FtpError(501, 'PASS needs an API key')
      const { username } = session
      session.username = undefined
      return logIn(session, username, arg)
    },
  },
  AUTH: {
    parameters: 'TLS',
    description: 'Switch the connection to TLS',
    isBeforeLogin: true,
    async handler(session, arg) {
      const certificate = requireCertificate(session)
      if (session.startsTls({ directive: 'AUTH', arg })) return startTls(session, certificate)
      if (session.control.tls !== null) throw new FtpError(503, 'this connection already uses TLS')
      throw new FtpError(504, `AUTH ${printable(arg ?? '')} is not supported; use AUTH TLS`)
    },
  },
  HOST: {
    parameters: '<name>',
    description: 'The name of the server that the client wants; all are the same one',
    isBeforeLogin: true,
    async handler(session, arg) {
      if (arg === null) throw new FtpError(501, 'HOST needs the name of a server')
      if (session.authenticated === true) throw new FtpError(503, 'HOST must come before the login')
      await session.reply(220, 'this server has the same files under every name')
    },
  },
  CLNT: {
    parameters: '<name>',
    description: 'The name of the client, which is not used',
    isBeforeLogin: true,
    handler: (session) => session.reply(200, 'noted'),
  },
  PBSZ: {
    parameters: '0',
    description: 'Protection buffer size, which is 0 with TLS',
    isBeforeLogin: true,
    async handler(session, arg) {
      requireTls(session)
      if (!/^\d{1,10}$/.test(arg ?? '')) throw new FtpError(501, 'PBSZ needs a size: send PBSZ 0')
      await session.reply(200, 'PBSZ=0')
    },
  },
  PROT: {
    parameters: 'P|C',
    description: 'Data connections in TLS (P) or unencrypted (C)',
    isBeforeLogin: true,
    async handler(session, arg) {
      requireTls(session)
      const level = (arg ?? '').toUpperCase()
      if (level !== 'P' && level !== 'C')
        throw new FtpError(
          level === 'S' || level === 'E' ? 536 : 504,
          `PROT ${printable(level)} is not supported; use PROT P or PROT C`,
        )
      if (level === 'C' && session.context.isTlsRequired)
        throw new FtpError(534, 'this server requires TLS for data connections; use PROT P')
      session.isDataPrivate = level === 'P'
      await session.reply(
        200,
        level === 'P' ? 'data connections use TLS' : 'data connections are not encrypted',
      )
    },
  },
  CCC: {
    description: 'Refused: the control connection stays in TLS',
    isBeforeLogin: true,
    async handler(session) {
      requireTls(session)
      throw new FtpError(534, 'the control connection stays in TLS')
    },
  },
}

async function logIn(session: FtpSession, username: string, password: string): Promise<void> {
  const { control, context } = session
  const { metrics, limits, uploads, uploadLimits, log } = context
  const caller = await identify(session, username, password)
  if ('result' in caller) return refuseLogin(session, caller)
  const { organizationId, keyId, uploadsFolder: folder } = caller
  await uploads.require()
  const directory = new UploadDirectory({ uploads, limits: uploadLimits, organizationId, folder, log })
  // No await may stand between this check and the listener for 'close': a session that closed in between would count
  // forever.
  if (control.destroyed) return
  const isPartner = caller.role === 'uploads'
  if (isPartner && !limits.partners.add(keyId)) {
    const reason = 'too many sessions with this API key; close one and log in again'
    logRefusedLogin(session, caller, reason)
    session.end('account_limit', reason)
    return
  }
  if (!limits.accounts.add(organizationId)) {
    if (isPartner) limits.partners.remove(keyId)
    const reason = 'too many sessions of this account; close one and log in again'
    logRefusedLogin(session, caller, reason)
    session.end('account_limit', reason)
    return
  }
  control.once('close', () => {
    limits.accounts.remove(organizationId)
    if (isPartner) limits.partners.remove(keyId)
  })
  session.fs = new FtpDirectory(directory)
  session.account = caller
  session.authenticated = true
  session.clientLog = log.child(actorFields(caller, control.remoteAddress))
  session.clientLog.info({ event: 'login', protocol: 'ftp' }, 'login')
  metrics.login('ok')
  await session.reply(230, 'logged in')
}

function logRefusedLogin({ context, control }: FtpSession, key: LoginRefusal['key'], reason: string): void {
  const address = control.remoteAddress
  const who = key === null ? { address } : actorFields(key, address)
  context.log.info({ event: 'login_refused', protocol: 'ftp', ...who, reason }, 'a login was refused')
}

async function refuseLogin(session: FtpSession, { result, key, isLogged }: LoginRefusal): Promise<void> {
  session.context.metrics.login(result)
  session.wrongLogins += 1
  const isLast = session.wrongLogins >= maxWrongLogins
  const reason = loginRefusals[result]
  if (isLogged) logRefusedLogin(session, key, reason)
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
): Promise<Caller | LoginRefusal> {
  const { throttle, collections, keyHashSecret } = context
  const caller = username === 'api' ? await findCaller(collections, keyHashSecret, password) : null
  if (caller !== null)
    return mayUpload(caller) ? caller : { result: 'forbidden', key: caller, isLogged: true }
  const { blockedSeconds, isLogged } = await throttle.recordFailure(control.remoteAddress)
  const key = isLogged ? await findRefusedKey(collections, keyHashSecret, password) : null
  return { result: blockedSeconds > 0 ? 'throttled' : 'wrong', key, isLogged }
}

/** Forgets a USER that came unencrypted: an attacker on the way may have sent it. */
async function startTls(session: FtpSession, certificate: Certificate): Promise<void> {
  const { control, context } = session
  if (session.authenticated === true) {
    control.resumeInput()
    throw new FtpError(503, 'AUTH TLS must come before the login')
  }
  session.username = undefined
  session.replaceData(null)
  const isSecure = await control.startTls((hello) => certificate.sessionTls(hello), {
    lastReply: '234 start the TLS handshake\r\n',
    timeoutMs: context.timeouts.loginMs,
  })
  if (!isSecure) context.log.info({ address: control.remoteAddress }, 'a TLS handshake failed')
}

async function requireTlsForLogin(session: FtpSession): Promise<void> {
  const { context, control } = session
  if (!context.isTlsRequired || control.tls !== null) return
  const reason = 'this server requires TLS; send AUTH TLS before USER'
  const { isLogged } = await context.throttle.recordFailure(control.remoteAddress)
  if (isLogged) logRefusedLogin(session, null, reason)
  throw new FtpError(530, reason)
}

function requireCertificate({ context }: FtpSession): Certificate {
  if (context.certificate === null) throw new FtpError(502, 'this server does not offer TLS')
  return context.certificate
}

function requireTls(session: FtpSession): void {
  requireCertificate(session)
  if (session.control.tls === null) throw new FtpError(503, 'send AUTH TLS first')
}
