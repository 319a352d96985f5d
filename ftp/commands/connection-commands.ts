import { isIPv4, isIPv6 } from 'node:net'
import { ActiveConnection, PassiveConnection } from '../connection/data-connection.ts'
import { FtpError, refusal } from '../ftp-error.ts'
import type { FtpSession, LoggedInSession } from '../session.ts'
import type { CommandDefinitions } from './command-table.ts'

/** The commands that say where the next transfer goes: RFC 959, RFC 2428. */
export const connectionCommands: CommandDefinitions = {
  PASV: {
    description: 'The client opens the data connection, over IPv4',
    async handler(session) {
      refuseAfterEpsvAll(session)
      const address = session.context.publicAddress ?? session.control.localAddress
      if (!isIPv4(address)) throw new FtpError(522, 'PASV works over IPv4 only; use EPSV')
      const port = await listenForData(session)
      const numbers = [...address.split('.'), port >> 8, port & 255].join(',')
      await session.reply(227, `Entering Passive Mode (${numbers})`)
    },
  },
  EPSV: {
    parameters: '[1|2|ALL]',
    description: 'The client opens the data connection, over IPv4 or IPv6',
    async handler(session, arg) {
      if (/^all$/i.test(arg ?? '')) {
        session.isExtendedPassiveOnly = true
        return session.reply(200, 'EPSV ALL accepted; use only EPSV from now on')
      }
      const family = protocolFamily(session.control.localAddress)
      if (arg !== null && !/^[12]$/.test(arg)) throw refusal(501, arg, 'use EPSV, EPSV 1, EPSV 2 or EPSV ALL')
      if (arg !== null && arg !== family)
        throw new FtpError(522, `network protocol ${arg} is not that of this connection, use (${family})`)
      return session.reply(229, `Entering Extended Passive Mode (|||${await listenForData(session)}|)`)
    },
  },
  PORT: {
    parameters: '<h1,h2,h3,h4,p1,p2>',
    description: 'The server opens the data connection, over IPv4',
    async handler(session, arg) {
      refuseAfterEpsvAll(session)
      const numbers = /^\d{1,3}(,\d{1,3}){5}$/.test(arg ?? '') ? (arg ?? '').split(',').map(Number) : []
      const [high, low] = numbers.slice(4)
      if (high === undefined || low === undefined || numbers.some((number) => number > 255))
        throw refusal(
          501,
          arg,
          'PORT needs six numbers from 0 to 255, four of the address and two of the port',
        )
      await connectForData(session, numbers.slice(0, 4).join('.'), high * 256 + low)
    },
  },
  EPRT: {
    parameters: '|<1|2>|<address>|<port>|',
    description: 'The server opens the data connection, over IPv4 or IPv6',
    async handler(session, arg) {
      refuseAfterEpsvAll(session)
      const [, , family, address, port] =
        /^([!-~])(\d{1,3})\1([\da-fA-F.:]{1,45})\1(\d{1,5})\1$/.exec(arg ?? '') ?? []
      if (address === undefined) throw refusal(501, arg, 'EPRT needs |protocol|address|port|')
      if (family !== '1' && family !== '2')
        throw new FtpError(522, `network protocol ${family ?? ''} is not supported, use (1,2)`)
      if (!(family === '1' ? isIPv4(address) : isIPv6(address)))
        throw new FtpError(501, `${address}: not an ${family === '1' ? 'IPv4' : 'IPv6'} address`)
      await connectForData(session, address, Number(port))
    },
  },
}

function refuseAfterEpsvAll(session: FtpSession): void {
  if (session.isExtendedPassiveOnly) throw new FtpError(503, 'after EPSV ALL only EPSV is possible')
}

const protocolFamily = (address: string): '1' | '2' => (isIPv4(address) ? '1' : '2')

async function listenForData(session: LoggedInSession): Promise<number> {
  const { account, context, control, interruption } = session
  session.replaceData(null)
  const passive = await context.ports.acquire(account.organizationId, interruption.sessionEnded)
  const waitMs = 2 * context.timeouts.dataConnectionMs
  session.replaceData(new PassiveConnection({ passive, peer: control.remoteAddress, waitMs }))
  if (control.destroyed) session.replaceData(null)
  return passive.port
}

/** Accepts only the client's own address: otherwise a client could have the server connect to any machine. */
async function connectForData(session: FtpSession, address: string, port: number): Promise<void> {
  const { remoteAddress, localAddress } = session.control
  session.replaceData(null)
  if (!isSameAddress(address, remoteAddress))
    throw new FtpError(504, `${address}: not the address of this connection, use ${remoteAddress}`)
  if (port < 1024 || port > 65535)
    throw new FtpError(504, `port ${port}: data connections need a port from 1024 to 65535`)
  session.replaceData(new ActiveConnection({ host: remoteAddress, port, localAddress }))
  await session.reply(200, `the server will connect to port ${port} of ${remoteAddress}`)
}

/** Compares IPv6 addresses as URLs spell them, because one address has several spellings. */
function isSameAddress(one: string, other: string): boolean {
  const normalize = (address: string) => (isIPv6(address) ? new URL(`http://[${address}]`).hostname : address)
  return normalize(one) === normalize(other)
}
