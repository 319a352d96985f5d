import { isIPv4, isIPv6 } from 'node:net'
import { ActiveConnection, PassiveConnection, type DataConnection } from '../connection/data-connection.ts'
import { FtpError } from '../ftp-error.ts'
import type { FtpSession } from '../session.ts'
import type { OwnCommands } from './command-table.ts'

/** Where the next transfer goes: RFC 959, RFC 2428. */
export const connectionCommands: OwnCommands = {
  PASV: {
    description: 'The client opens the data connection, by IPv4',
    async handler(session) {
      refuseAfterEpsvAll(session)
      const address = session.context.publicAddress ?? session.control.localAddress
      if (!isIPv4(address)) throw new FtpError(522, 'PASV is for IPv4, use EPSV')
      const port = await listenForData(session)
      const numbers = [...address.split('.'), port >> 8, port & 255].join(',')
      await session.reply(227, `Entering Passive Mode (${numbers})`)
    },
  },
  EPSV: {
    parameters: '[1|2|ALL]',
    description: 'The client opens the data connection',
    async handler(session, arg) {
      if (/^all$/i.test(arg ?? '')) {
        session.isExtendedPassiveOnly = true
        return session.reply(200, 'then EPSV only')
      }
      const own = familyOf(session.control.localAddress)
      if (arg !== null && !/^[12]$/.test(arg))
        throw new FtpError(501, 'there is EPSV, EPSV 1, EPSV 2 and EPSV ALL')
      if (arg !== null && arg !== own)
        throw new FtpError(522, `this connection is of another kind, use (${own})`)
      return session.reply(229, `Entering Extended Passive Mode (|||${await listenForData(session)}|)`)
    },
  },
  PORT: {
    parameters: '<h1,h2,h3,h4,p1,p2>',
    description: 'The server opens the data connection, by IPv4',
    async handler(session, arg) {
      refuseAfterEpsvAll(session)
      if (!/^\d{1,3}(,\d{1,3}){5}$/.test(arg ?? '')) throw new FtpError(501, 'that is no address and port')
      const numbers = arg!.split(',').map(Number)
      if (numbers.some((number) => number > 255)) throw new FtpError(501, 'that is no address and port')
      const [high, low] = numbers.slice(4) as [number, number]
      await dialForData(session, numbers.slice(0, 4).join('.'), high * 256 + low)
    },
  },
  EPRT: {
    parameters: '|<1|2>|<address>|<port>|',
    description: 'The server opens the data connection',
    async handler(session, arg) {
      refuseAfterEpsvAll(session)
      const [, , family, address, port] =
        /^([!-~])(\d{1,3})\1([\da-fA-F.:]{1,45})\1(\d{1,5})\1$/.exec(arg ?? '') ?? []
      if (address === undefined) throw new FtpError(501, 'that is no address and port')
      if (family !== '1' && family !== '2') throw new FtpError(522, 'that protocol is not known, use (1,2)')
      if (!(family === '1' ? isIPv4(address) : isIPv6(address)))
        throw new FtpError(501, 'that is no address of the protocol')
      await dialForData(session, address, Number(port))
    },
  },
}

function refuseAfterEpsvAll(session: FtpSession): void {
  if (session.isExtendedPassiveOnly) throw new FtpError(503, 'after EPSV ALL there is EPSV only')
}

const familyOf = (address: string): '1' | '2' => (isIPv4(address) ? '1' : '2')

async function listenForData(session: FtpSession): Promise<number> {
  const { context, control, interruption } = session
  replaceData(session, null)
  const passive = await context.ports.take(session.account!.organizationId, interruption.ofSession)
  const keepMs = 2 * context.timeouts.dataConnectionMs
  replaceData(session, new PassiveConnection({ passive, peer: control.remoteAddress, keepMs }))
  if (control.destroyed) replaceData(session, null)
  return passive.port
}

/** No other target than the client itself: else it would have us connect to whomever it likes. */
async function dialForData(session: FtpSession, address: string, port: number): Promise<void> {
  const { remoteAddress, localAddress } = session.control
  replaceData(session, null)
  if (!isSameAddress(address, remoteAddress)) throw new FtpError(504, 'the address is not yours')
  if (port < 1024 || port > 65535) throw new FtpError(504, 'the port must be from 1024 to 65535')
  replaceData(session, new ActiveConnection({ host: remoteAddress, port, localAddress }))
  await session.reply(200, 'the data connection will go there')
}

/** IPv6 addresses have more than one spelling; URLs know one. */
function isSameAddress(one: string, other: string): boolean {
  const spelled = (address: string) => (isIPv6(address) ? new URL(`http://[${address}]`).hostname : address)
  return spelled(one) === spelled(other)
}

function replaceData(session: FtpSession, data: DataConnection | null): void {
  session.data?.close()
  session.data = data
}
