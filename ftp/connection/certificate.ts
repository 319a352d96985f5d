import { randomBytes } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { createSecureContext, type SecureContext } from 'node:tls'
import { errorMessage, StartError } from '../../shared/contract/errors.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { Part } from '../../shared/runtime/service.ts'

export interface CertificateFiles {
  /** Paths of PEM files. */
  cert: string
  key: string
}

interface Pems {
  cert: Buffer
  key: Buffer
}

/**
 * The maximum of TLS 1.3, so that a long session can open data connections to its end. A ticket works only in its own
 * session, so a long lifetime costs no security.
 */
const ticketLifetimeSeconds = 7 * 24 * 3600

/**
 * The certificate and its key, reloaded when their files change, so that a renewal needs no restart. Files are polled
 * and not watched, because renewals replace files, links and whole folders, on NFS too. A pair that doesn't fit leaves
 * the previous pair in use: one file may be written before the other.
 */
export class Certificate implements Part {
  #pems: Pems
  readonly #files: CertificateFiles
  readonly #log: Logger
  readonly #timer: NodeJS.Timeout
  #version: string

  /** Throws a StartError that names the settings. */
  static async load(files: CertificateFiles, options: { pollMs: number; log: Logger }): Promise<Certificate> {
    const version = await fileVersion(files)
    try {
      return new Certificate(files, options, { version, pems: await read(files) })
    } catch (error) {
      throw new StartError(`settings FTP_TLS_CERT and FTP_TLS_KEY: ${errorMessage(error)}`, { cause: error })
    }
  }

  private constructor(
    files: CertificateFiles,
    options: { pollMs: number; log: Logger },
    loaded: { version: string; pems: Pems },
  ) {
    this.#files = files
    this.#log = options.log
    this.#version = loaded.version
    this.#pems = loaded.pems
    this.#timer = setInterval(() => void this.#reloadIfChanged(), options.pollMs).unref()
  }

  /**
   * A context for one session, with the current certificate, for the client's first TLS message. Each context has its own ticket keys, so a TLS session can
   * be resumed only in the context that began it. A resumed data connection thereby belongs to its control connection.
   */
  newContext(hello: Buffer): SecureContext {
    const options = { ...this.#pems, sessionTimeout: ticketLifetimeSeconds }
    const isTls13Alone = offersTls13Alone(hello)
    if (!isTls13Alone && hello.includes(emptyTicket))
      return createSecureContext({ ...options, maxVersion: 'TLSv1.2' })
    const context = createSecureContext(options)
    if (isTls13Alone) renewTickets(context)
    return context
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
  }

  async #reloadIfChanged(): Promise<void> {
    const version = await fileVersion(this.#files)
    if (version === this.#version) return
    this.#version = version
    try {
      this.#pems = await read(this.#files)
      this.#log.info('the FTP certificate was reloaded')
    } catch (error) {
      this.#log.warn(
        `the FTP certificate has changed but is not used, the previous one stays in use: ${errorMessage(error)}`,
      )
    }
  }
}

/** A method of Node.js that its types and its documentation leave out. */
interface TicketContext {
  /** Its results: 1 accepts or makes a ticket, 2 accepts it and makes a new one, 0 makes a full handshake of it. */
  onticketkeycallback: (name: Buffer, iv: Buffer, isNew: boolean) => (number | Buffer)[]
  enableTicketKeyCallback: () => void
}

/**
 * The extension `session_ticket` without a ticket. A client that has it and TLS 1.2 gets TLS 1.2, in which it may resume a
 * session any number of times. In TLS 1.3 PHP uses a ticket once, so that every second transfer would be refused; and
 * where each data connection has a new ticket, curl and lftp leave it unread when they end an upload, which resets the
 * connection: 2 of 6 uploads of 1.5 MB failed. curl takes tickets only in TLS 1.3.
 */
const emptyTicket = Buffer.from([0, 35, 0, 0])

/** Whether the client offers no version but TLS 1.3: the extension `supported_versions` (RFC 8446, section 4.2.1). */
function offersTls13Alone(hello: Buffer): boolean {
  for (let at = hello.indexOf(versionsMark); at !== -1; at = hello.indexOf(versionsMark, at + 1)) {
    const length = hello[at + 4] ?? 0
    if (length < 2 || hello[at + 3] !== length + 1) continue
    const versions: string[] = hello.toString('hex', at + 5, at + 5 + length).match(/.{4}/g) ?? []
    return versions.includes('0304') && !versions.includes('0303')
  }
  return false
}

/** Type of the extension, and the first byte of its length. */
const versionsMark = Buffer.from([0, 43, 0])

/** Gives each resumed session a new ticket, which Node.js leaves out in TLS 1.3. */
function renewTickets(secure: SecureContext): void {
  const context = secure.context as TicketContext
  const [keyName, hmacKey, aesKey] = [randomBytes(16), randomBytes(16), randomBytes(16)]
  context.onticketkeycallback = (name, _iv, isNew) => {
    if (isNew) return [1, hmacKey, aesKey, keyName, randomBytes(16)]
    return [name.equals(keyName) ? 2 : 0, hmacKey, aesKey]
  }
  context.enableTicketKeyCallback()
}

/** Throws when the certificate and the key don't belong together. */
async function read({ cert, key }: CertificateFiles): Promise<Pems> {
  const [certificate, privateKey] = await Promise.all([readPem(cert), readPem(key)])
  const pems = { cert: certificate, key: privateKey }
  try {
    createSecureContext(pems)
    return pems
  } catch (error) {
    throw new Error(`${cert} and ${key} are not a certificate and its key: ${errorMessage(error)}`, {
      cause: error,
    })
  }
}

async function readPem(path: string): Promise<Buffer> {
  try {
    return await readFile(path)
  } catch (error) {
    throw new Error(`can't read ${path}: ${errorMessage(error)}`, { cause: error })
  }
}

/** A string that changes with either file. A missing file has a version too, so its return is a change. */
async function fileVersion({ cert, key }: CertificateFiles): Promise<string> {
  const versions = [cert, key].map(async (path) => {
    const stats = await stat(path, { bigint: true }).catch(() => null)
    return stats === null
      ? 'none'
      : `${stats.dev}/${stats.ino}/${stats.size}/${stats.mtimeNs}/${stats.ctimeNs}`
  })
  return (await Promise.all(versions)).join(' ')
}
