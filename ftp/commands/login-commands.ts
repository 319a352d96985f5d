import type { Certificate } from '../connection/certificate.ts'
import { FtpError, printable } from '../ftp-error.ts'
import { logIn } from '../login.ts'
import type { FtpSession } from '../session.ts'
import type { CommandDefinitions } from './command-table.ts'

/** The commands for logging in and for encryption: RFC 959, RFC 2228, RFC 4217. */
export const loginCommands: CommandDefinitions = {
  USER: {
    parameters: '<name>',
    description: 'Begin a login; the name is api',
    isBeforeLogin: true,
    async handler(session, arg) {
      if (session.authenticated === true)
        throw new FtpError(530, 'already logged in; open another connection for another login')
      requireTlsForLogin(session)
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
      requireTlsForLogin(session)
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
      if (session.control.secureContext !== null) throw new FtpError(503, 'this connection already uses TLS')
      throw new FtpError(504, `AUTH ${printable(arg ?? '')} is not supported; use AUTH TLS`)
    },
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

/** Forgets a USER that came unencrypted: an attacker on the way may have sent it. */
async function startTls(session: FtpSession, certificate: Certificate): Promise<void> {
  const { control, context } = session
  if (session.authenticated === true) {
    control.resumeInput()
    throw new FtpError(503, 'AUTH TLS must come before the login')
  }
  session.username = undefined
  session.data?.close()
  session.data = null
  const isSecure = await control.startTls(certificate.newContext(), {
    lastReply: '234 start the TLS handshake\r\n',
    timeoutMs: context.timeouts.loginMs,
  })
  if (!isSecure) context.log.info({ address: control.remoteAddress }, 'a TLS handshake failed')
}

function requireTlsForLogin({ context, control }: FtpSession): void {
  if (context.isTlsRequired && control.secureContext === null)
    throw new FtpError(530, 'this server requires TLS; send AUTH TLS before USER')
}

function requireCertificate({ context }: FtpSession): Certificate {
  if (context.certificate === null) throw new FtpError(502, 'this server does not offer TLS')
  return context.certificate
}

function requireTls(session: FtpSession): void {
  requireCertificate(session)
  if (session.control.secureContext === null) throw new FtpError(503, 'send AUTH TLS first')
}
