import { Client } from 'basic-ftp'

/** Connects and logs in; the certificate is made for this run. */
export async function connect({ host, port, tls, key }: FtpAccount): Promise<Client> {
  const client = new Client(60_000)
  await client.access({
    host,
    port,
    user: 'api',
    password: key,
    secure: tls,
    secureOptions: { rejectUnauthorized: false },
  })
  return client
}

export interface FtpAccount {
  host: string
  port: number
  /** Explicit TLS on control and data connections. */
  tls: boolean
  key: string
}
