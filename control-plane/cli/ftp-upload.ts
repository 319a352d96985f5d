import { randomBytes } from 'node:crypto'
import path from 'node:path'
import { Client, FTPError } from 'basic-ftp'
import { messageOf } from '../../shared/contract/errors.ts'
import { answeredInTheClear, connectImplicitTls, ftpTlsOptions } from '../../shared/net/ftp-tls.ts'
import { CommandFailure, isCertificateProblem } from './failures.ts'
import type { SourceFile } from './source-file.ts'

export interface FtpTarget {
  /**
   * `ftp://HOST:PORT`: over TLS where the server has `AUTH TLS`. `ftps://HOST:PORT`: only over TLS, from the first byte
   * (port 990 where none is given), or by `AUTH TLS` on port 21 and where the server answers in the clear.
   */
  url: URL
  /** The API key, which is the password. */
  key: string
}

/** Uploads under a name that no other upload has; resolves to it. */
export async function uploadByFtp(
  target: FtpTarget,
  file: SourceFile,
  onProgress: (bytes: number) => void,
): Promise<string> {
  const name = uniqueName(file.name)
  await withConnection(target, async (client) => {
    client.trackProgress(({ bytes }) => {
      onProgress(bytes)
    })
    await client.uploadFrom(file.bytes(), name)
  })
  return name
}

/** What isn't there is no error. */
export async function removeByFtp(target: FtpTarget, name: string): Promise<void> {
  await withConnection(target, async (client) => {
    await client.remove(name, true)
  })
}

async function withConnection(target: FtpTarget, use: (client: Client) => Promise<void>): Promise<void> {
  const { url, key } = target
  const client = new Client(60_000)
  try {
    const isSafe = await connect(client, url)
    await client.login('api', key)
    if (isSafe) await client.useDefaultSettings()
    else await client.send('TYPE I')
    await use(client)
  } catch (error) {
    throw new CommandFailure(`the upload to ${url.protocol}//${url.host} failed: ${messageOf(error)}`, {
      hint: hintFor(error),
    })
  } finally {
    client.close()
  }
}

/** What the server refused it explains itself. */
function hintFor(error: unknown): string | null {
  if (error instanceof FTPError)
    return error.code === 530
      ? 'the FTP server takes the same key as the API: is ROLLCALL_API_KEY right?'
      : null
  return isCertificateProblem(error)
    ? 'name a certificate that is not publicly trusted in NODE_EXTRA_CA_CERTS'
    : 'does the FTP server run, and does ROLLCALL_FTP say where? A file up to 64 MB can go without FTP: --via inline'
}

/** Resolves to whether the connection is encrypted. */
async function connect(client: Client, url: URL): Promise<boolean> {
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const isFtps = url.protocol === 'ftps:'
  const server = { host, address: host, port: Number(url.port || (isFtps ? 990 : 2121)) }
  if (isFtps && server.port !== 21) {
    try {
      await connectImplicitTls(client, server)
      return true
    } catch (error) {
      if (!answeredInTheClear(error)) throw error
    }
  }
  await client.connect(host, server.port)
  try {
    await client.useTLS(ftpTlsOptions(server))
    return true
  } catch (error) {
    // It has none, and says so; whatever goes wrong after that is no reason to send the key in the clear.
    const hasNone = error instanceof FTPError && error.code >= 500
    if (hasNone && url.protocol === 'ftp:') return false
    throw error
  }
}

/** In the upload directory, which all keys of an organization share. */
function uniqueName(name: string): string {
  const plain = name.replaceAll(/[\0-\x1f\x7f/\\]/g, '_').replace(/^\.+/, '')
  const extensions = /(\.[A-Za-z0-9]{1,8}){0,2}$/.exec(plain)![0]
  const stem = Array.from(path.basename(plain, extensions)).slice(0, 40).join('')
  return `${stem === '' ? 'subscribers' : stem}-${randomBytes(4).toString('hex')}${extensions}`
}
