import { FtpError } from '../ftp-error.ts'
import { logIn } from '../login.ts'
import type { FtpSession } from '../session.ts'
import type { OwnCommands } from './command-table.ts'

/** Who the client is, and what protects it from being overheard: RFC 959, RFC 2228, RFC 4217. */
export const loginCommands: OwnCommands = {
  USER: {
    parameters: '<name>',
    description: 'Begin a login; the name is api',
    isBeforeLogin: true,
    async handler(session, arg) {
      if (session.authenticated === true)
        throw new FtpError(530, 'there was a login on this connection already')
      refuseClearLogin(session)
      if (arg === null) throw new FtpError(501, 'the name is missing')
      session.username = arg
      await session.reply(331, 'now the API key as password')
    },
  },
  PASS: {
    parameters: '<API key>',
    description: 'End the login',
    isBeforeLogin: true,
    async handler(session, arg) {
      if (session.authenticated === true)
        return session.reply(202, 'there was a login on this connection already')
      refuseClearLogin(session)
      if (session.username === undefined) throw new FtpError(503, 'send USER first')
      if (arg === null) throw new FtpError(501, 'the API key is missing')
      const { username } = session
      session.username = undefined
      return logIn(session, username, arg)
    },
  },
  AUTH: {
    parameters: 'TLS',
    description: 'Go on in TLS',
    isBeforeLogin: true,
    async handler(session, arg) {
      if (session.willBeSecured({ directive: 'AUTH', arg })) return secure(session)
      if (offeredTls(session).control.secureContext !== null)
        throw new FtpError(503, 'this is in TLS already')
      throw new FtpError(504, 'there is AUTH TLS only')
    },
  },
  PBSZ: {
    parameters: '0',
    description: 'Protection buffer size, which is 0 with TLS',
    isBeforeLogin: true,
    async handler(session, arg) {
      inTls(session)
      if (!/^\d{1,10}$/.test(arg ?? '')) throw new FtpError(501, 'the size is missing')
      await session.reply(200, 'PBSZ=0')
    },
  },
  PROT: {
    parameters: 'P|C',
    description: 'Data connections in TLS (P) or in the clear (C)',
    isBeforeLogin: true,
    async handler(session, arg) {
      inTls(session)
      const level = (arg ?? '').toUpperCase()
      if (level === 'S' || level === 'E') throw new FtpError(536, 'there is PROT P and PROT C only')
      if (level !== 'P' && level !== 'C') throw new FtpError(504, 'there is PROT P and PROT C only')
      if (level === 'C' && session.context.isTlsRequired)
        throw new FtpError(534, 'data go over TLS only here')
      session.isDataPrivate = level === 'P'
      await session.reply(
        200,
        level === 'P' ? 'data connections are in TLS' : 'data connections are in the clear',
      )
    },
  },
  CCC: {
    description: 'Leave TLS, which is refused',
    isBeforeLogin: true,
    async handler(session) {
      inTls(session)
      throw new FtpError(534, 'the control connection stays in TLS')
    },
  },
}

/** What was asked before in the clear counts for nothing. */
async function secure(session: FtpSession): Promise<void> {
  const { control, context } = session
  if (session.authenticated === true) {
    control.heed()
    throw new FtpError(503, 'AUTH comes before the login')
  }
  session.username = undefined
  session.data?.close()
  session.data = null
  const isSecure = await control.secure(context.certificate!.newContext(), {
    lastReply: '234 go on in TLS\r\n',
    timeoutMs: context.timeouts.loginMs,
  })
  if (!isSecure) context.log.info({ address: control.remoteAddress }, 'a TLS handshake failed')
}

function refuseClearLogin({ context, control }: FtpSession): void {
  if (context.isTlsRequired && control.secureContext === null)
    throw new FtpError(530, 'logins are in TLS only here, send AUTH TLS first')
}

function offeredTls(session: FtpSession): FtpSession {
  if (session.context.certificate === null) throw new FtpError(502, 'TLS is not offered')
  return session
}

function inTls(session: FtpSession): void {
  if (offeredTls(session).control.secureContext === null) throw new FtpError(503, 'send AUTH TLS first')
}
