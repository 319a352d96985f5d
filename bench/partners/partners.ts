import { fork, type Serializable } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** What the partners are to do; they end when all large files are up. */
export interface PartnersOrder {
  host: string
  port: number
  /** Explicit TLS on control and data connections. */
  tls: boolean
  /** A key for each partner's account. */
  keys: string[]
  /** Account of the one who uploads small files meanwhile. */
  smallKey: string
  megabytes: number
  seed: number
}

export interface LargeFilesReport {
  seconds: number
  /** SHA-256 of each partner's file, in the order of the keys. */
  hashes: string[]
}

export interface SmallFilesReport {
  /** Of each 1 kB file with a connection, TLS and login of its own. */
  smallMs: number[]
  /** Of each 1 kB file within one session. */
  keptMs: number[]
  /** SHA-256 of each of these files: they are all the same. */
  smallHash: string
}

export type PartnersReport = LargeFilesReport & SmallFilesReport

export const largeFile = 'large.csv'
/** Names that take turns within one session. */
export const keptFiles = 10

/**
 * Runs them in processes of their own, whose work is not that of the server which is measured; the small files have
 * another one, so that their time isn't that of making the large ones.
 */
export async function runPartners(order: PartnersOrder): Promise<PartnersReport> {
  const { host, port, tls, smallKey: key } = order
  const small = startProcess('./small-files-process.ts')
  const smallReport = small.ask<SmallFilesReport>({ host, port, tls, key })
  const large = startProcess('./partners-process.ts')
  const largeReport = await Promise.race([large.ask<LargeFilesReport>(order), smallReport])
  if (!('hashes' in largeReport)) throw new Error('the small files ended before the large ones')
  small.tell('end')
  const report = { ...largeReport, ...(await smallReport) }
  for (const process of [small, large]) process.end()
  return report
}

function startProcess(file: string) {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)))
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`${file} ended with ${String(code)}`)
  })
  ended.catch(() => undefined)
  return {
    tell: (message: Serializable) => child.send(message),
    ask<T>(message: Serializable): Promise<T> {
      child.send(message)
      return Promise.race([once(child, 'message').then(([report]) => report as T), ended])
    },
    end: () => child.disconnect(),
  }
}
