import { randomBytes } from 'node:crypto'
import { Client, FTPError } from 'basic-ftp'
import { errorMessage } from '../../shared/contract/errors.ts'
import type { ClientSettings } from '../../shared/runtime/config.ts'
import { answeredInTheClear, connectImplicitTls, ftpTlsOptions } from '../../shared/net/ftp-tls.ts'
import { certificateHint, CommandFailure, isCertificateProblem } from './failures.ts'
import { fileChanged, type SourceFile } from './source-file.ts'
import { uploadName } from './upload-name.ts'

/**
 * `ftp:` uses TLS if the server has `AUTH TLS`. `ftps:` always uses TLS, from the first byte and by default on port 990.
 * It uses `AUTH TLS` on port 21, and when the server answers in clear text.
 */
export interface FtpAddress {
  protocol: 'ftp:' | 'ftps:'
  hostname: string
  port: number
}

export interface FtpTarget {
  address: FtpAddress
  /** The API key, which is the password. */
  key: string
}

export const ftpAddress = ({ ROLLCALL_URL, ROLLCALL_FTP }: ClientSettings): FtpAddress =>
  readFtpAddress(ROLLCALL_FTP ?? `ftp://${new URL(ROLLCALL_URL).hostname}`, 2121)

/** Reads `ftp://HOST:PORT`. `defaultPort` is that of `ftp:`. */
export function readFtpAddress(text: string, defaultPort: number): FtpAddress {
  const { protocol, hostname } = new URL(text)
  // URL drops the port 21 of ftp.
  const port = /^\w+:\/\/[^/?#]*:(\d+)(?:[/?#]|$)/.exec(text)?.[1]
  return protocol === 'ftps:'
    ? { protocol, hostname, port: Number(port ?? 990) }
    : { protocol: 'ftp:', hostname, port: Number(port ?? defaultPort) }
}

/** Whether the server offers TLS; null when none answers there within 5 s. It isn't logged in to. */
export async function offersTls(address: FtpAddress): Promise<boolean | null> {
  const client = new Client(5_000)
  try {
    return await connect(client, address)
  } catch (error) {
    // A certificate that isn't trusted here is one all the same.
    return isCertificateProblem(error) ? true : null
  } finally {
    client.close()
  }
}

/** Uploads a file under a unique name, and resolves to that name. */
export async function uploadByFtp(
  target: FtpTarget,
  file: SourceFile,
  onProgress: (bytes: number) => void,
): Promise<string> {
  const name = uploadName(file.name, randomBytes(4).toString('hex'))
  await withConnection(target, async (client) => {
    client.trackProgress(({ bytes }) => onProgress(bytes))
    await client.uploadFrom(file.bytes(0), name)
  })
  if (!(await file.hasChanged())) return name
  await removeByFtp(target, name)
  throw fileChanged(file)
}

/** Removes an upload. A missing one is no error. */
export async function removeByFtp(target: FtpTarget, name: string): Promise<void> {
  await withConnection(target, async (client) => {
    await client.remove(name, true)
  })
}

async function withConnection(target: FtpTarget, use: (client: Client) => Promise<void>): Promise<void> {
  const { address, key } = target
  const client = new Client(60_000)
  try {
    const isEncrypted = await connect(client, address)
    await client.login('api', key)
    if (isEncrypted) await client.useDefaultSettings()
    else await client.send('TYPE I')
    await use(client)
  } catch (error) {
    const { protocol, hostname, port } = address
    throw new CommandFailure(
      `the upload to ${protocol}//${hostname}:${port} failed: ${errorMessage(error)}`,
      {
        hint: hintFor(error),
      },
    )
  } finally {
    client.close()
  }
}

/** The server explains its refusals itself, except that of a wrong key. */
function hintFor(error: unknown): string | null {
  if (error instanceof FTPError)
    return error.code === 530 ? 'check ROLLCALL_API_KEY: the FTP server takes the same key as the API' : null
  return isCertificateProblem(error)
    ? certificateHint
    : 'check that the FTP server runs and that ROLLCALL_FTP is its address. Without --via ftp the file is sent over HTTP'
}

/** Resolves to whether the connection is encrypted. */
async function connect(client: Client, { protocol, hostname, port }: FtpAddress): Promise<boolean> {
  const host = hostname.replace(/^\[|\]$/g, '')
  const isFtps = protocol === 'ftps:'
  const server = { host, address: host, port }
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
    // Only a server that refuses TLS may get the key in clear text; after any other failure it must not.
    const hasNone = error instanceof FTPError && error.code >= 500
    if (hasNone && !isFtps) return false
    throw error
  }
}
