import { readFile, stat } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import { errorMessage, StartError } from '../../shared/contract/errors.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { Part } from '../../shared/runtime/service.ts'
import { SessionTls } from './session-tls.ts'

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

  /** TLS for one session, with the current certificate. `hello` is the client's first TLS message. */
  sessionTls(hello: Buffer): SessionTls {
    return new SessionTls(this.#pems, hello)
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
