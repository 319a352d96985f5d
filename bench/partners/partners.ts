import { Client } from 'basic-ftp'
import { startProgram } from '../program.ts'

export interface FtpAccount {
  host: string
  port: number
  /** Explicit TLS on control and data connections. */
  tls: boolean
  key: string
}

/** `large` is answered when all files are up, `small` after an `end`. */
export type PartnersOrder =
  | { kind: 'large'; accounts: FtpAccount[]; megabytes: number; seed: number }
  | { kind: 'small'; account: FtpAccount }
  | { kind: 'end' }

export interface LargeFiles {
  seconds: number
  /** SHA-256 of each account's file. */
  hashes: string[]
}

export interface SmallFiles {
  /** Milliseconds of each 1 kB upload that opens its own connection. */
  smallMs: number[]
  /** SHA-256 of the content, which is the same for all. */
  smallHash: string
}

export const largeFile = 'large.csv'

export async function connect({ host, port, tls, key }: FtpAccount): Promise<Client> {
  const client = new Client(60_000)
  const login = { user: 'api', password: key }
  // The certificate is made for this run.
  await client.access({ host, port, ...login, secure: tls, secureOptions: { rejectUnauthorized: false } })
  return client
}

/**
 * FTP clients in two processes, apart from the measured server: one makes and uploads the large files, the other small
 * ones meanwhile, so that their times contain no other work.
 */
export async function runPartners(
  accounts: FtpAccount[],
  small: FtpAccount,
  sizes: { megabytes: number; seed: number },
): Promise<LargeFiles & SmallFiles> {
  const program = new URL('./partners-process.ts', import.meta.url)
  const smallClients = startProgram<PartnersOrder, SmallFiles>(program)
  const largeClients = startProgram<PartnersOrder, LargeFiles>(program)
  try {
    smallClients.send({ kind: 'small', account: small })
    const smallFiles = smallClients.reply()
    largeClients.send({ kind: 'large', accounts, ...sizes })
    const ended = smallFiles.then(() =>
      Promise.reject(new Error('the small files ended before the large ones')),
    )
    const largeFiles = await Promise.race([largeClients.reply(), ended])
    ended.catch(() => undefined)
    smallClients.send({ kind: 'end' })
    return { ...largeFiles, ...(await smallFiles) }
  } finally {
    await Promise.all([smallClients.end(), largeClients.end()])
  }
}
