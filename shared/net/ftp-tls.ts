import type { ConnectionOptions } from 'node:tls'
import type { Client } from 'basic-ftp'
import { AddressGuard } from './address-guard.ts'

/** What tells an FTP connection's TLS which server it talks to. */
export interface FtpServerName {
  /** What the certificate must be for, a name or an address. */
  host: string
  /** What is connected to. */
  address: string
  port: number
}

/** The certificate must be the host's; TLS sends a server name only where the host is no address. */
export const ftpTlsOptions = ({
  host,
  address,
}: Pick<FtpServerName, 'host' | 'address'>): ConnectionOptions =>
  AddressGuard.literalOf(host) === null ? { servername: host, host: address } : { host: address }

/** Connects with TLS from the first byte. Throws an ERR_SSL_... error where the server answers in the clear. */
export const connectImplicitTls = (client: Client, server: FtpServerName): ReturnType<Client['connect']> =>
  client.connectImplicitTLS(server.address, server.port, ftpTlsOptions(server))

/** Whether the server's answer to a TLS handshake was no TLS, so that `AUTH TLS` is what it may have. */
export const answeredInTheClear = (error: unknown): boolean =>
  ((error as NodeJS.ErrnoException).code ?? '').startsWith('ERR_SSL_')
