import { fork } from 'node:child_process'
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

export interface PartnersReport {
  seconds: number
  /** SHA-256 of each partner's file, in the order of the keys. */
  hashes: string[]
  /** Of each 1 kB file with a connection, TLS and login of its own. */
  smallMs: number[]
  /** Of each 1 kB file within one session. */
  keptMs: number[]
}

export const largeFile = 'large.csv'

/** Runs them in a process of their own, whose work is not that of the server which is measured. */
export async function runPartners(order: PartnersOrder): Promise<PartnersReport> {
  const child = fork(fileURLToPath(new URL('./partners-process.ts', import.meta.url)))
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`the process of the partners ended with ${String(code)}`)
  })
  child.send(order)
  const answered = once(child, 'message').then(([report]) => report as PartnersReport)
  const report = await Promise.race([answered, ended])
  child.disconnect()
  return report
}
