import type { ConnectionOptions } from 'node:tls'
import type { Client } from 'basic-ftp'
import { AddressGuard } from './address-guard.ts'
import { errorCode } from '../contract/errors.ts'

/** The server of an FTP connection over TLS. */
interface FtpServerName {
  /** The name or address that the certificate must be valid for. */
  host: string
  /** The address of the connection. */
  address: string
  port: number
}

/** The certificate must be valid for the host. TLS sends a server name only for names, not for addresses. */
export const ftpTlsOptions = ({
  host,
  address,
}: Pick<FtpServerName, 'host' | 'address'>): ConnectionOptions =>
  AddressGuard.parseLiteral(host) === null ? { servername: host, host: address } : { host: address }

/** Connects with implicit TLS. Throws an ERR_SSL_... error where the server answers without TLS. */
export const connectImplicitTls = (client: Client, server: FtpServerName): ReturnType<Client['connect']> =>
  client.connectImplicitTLS(server.address, server.port, ftpTlsOptions(server))

/** Whether the server answered the TLS handshake without TLS. It may then support `AUTH TLS`. */
export const answeredInTheClear = (error: unknown): boolean => errorCode(error).startsWith('ERR_SSL_')
