import { readFile, stat } from 'node:fs/promises'
import { createSecureContext, type SecureContext } from 'node:tls'
import { messageOf, StartError } from '../../shared/contract/errors.ts'
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

/** The most that TLS 1.3 allows. A ticket is worth nothing without its session, which must not outlive it. */
const ticketSeconds = 7 * 24 * 3600

/**
 * The certificate and its key, read again when their files change, so that a renewed one needs no restart. Looked at
 * by time and not watched: renewals replace files, links and whole folders, also on NFS. A pair that doesn't
 * work, as between the writing of its two files, leaves the old one in force.
 */
export class Certificate implements Part {
  #pems: Pems
  readonly #files: CertificateFiles
  readonly #log: Logger
  readonly #timer: NodeJS.Timeout
  #version: string

  /** Throws a StartError that names the settings. */
  static async load(files: CertificateFiles, options: { pollMs: number; log: Logger }): Promise<Certificate> {
    const version = await versionOf(files)
    try {
      return new Certificate(files, options, { version, pems: await read(files) })
    } catch (error) {
      throw new StartError(`settings FTP_TLS_CERT and FTP_TLS_KEY: ${messageOf(error)}`, { cause: error })
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
   * For one session, with the certificate of the moment. Each context has keys of its own for session tickets, so a TLS
   * session that is resumed in it was begun in it: a data connection proves so that it belongs to its control connection.
   */
  newContext(): SecureContext {
    return createSecureContext({ ...this.#pems, sessionTimeout: ticketSeconds })
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
  }

  async #reloadIfChanged(): Promise<void> {
    const version = await versionOf(this.#files)
    if (version === this.#version) return
    this.#version = version
    try {
      this.#pems = await read(this.#files)
      this.#log.info('the FTP certificate was read again')
    } catch (error) {
      this.#log.warn(
        `the FTP certificate has changed but is not used, the one before stays: ${messageOf(error)}`,
      )
    }
  }
}

/** Throws where the two don't fit. */
async function read({ cert, key }: CertificateFiles): Promise<Pems> {
  const [certificate, privateKey] = await Promise.all([readPem(cert), readPem(key)])
  const pems = { cert: certificate, key: privateKey }
  try {
    createSecureContext(pems)
    return pems
  } catch (error) {
    throw new Error(`${cert} and ${key} are no certificate with its key: ${messageOf(error)}`, {
      cause: error,
    })
  }
}

async function readPem(path: string): Promise<Buffer> {
  try {
    return await readFile(path)
  } catch (error) {
    throw new Error(`can't read ${path}: ${messageOf(error)}`, { cause: error })
  }
}

/** Differs when the files do; a file that can't be read has one too. */
async function versionOf({ cert, key }: CertificateFiles): Promise<string> {
  const versions = [cert, key].map(async (path) => {
    const stats = await stat(path, { bigint: true }).catch(() => null)
    return stats === null
      ? 'none'
      : `${stats.dev}/${stats.ino}/${stats.size}/${stats.mtimeNs}/${stats.ctimeNs}`
  })
  return (await Promise.all(versions)).join(' ')
}
