import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

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
  /** Milliseconds of each 1 kB upload within one session. */
  sessionMs: number[]
  /** SHA-256 of the content, which is the same for all. */
  smallHash: string
}

export const largeFile = 'large.csv'
/** The names that the session uses again and again. */
export const sessionFiles = 10

/**
 * FTP clients in two processes, apart from the measured server: one makes and uploads the large files, the other small
 * ones meanwhile, so that their times contain no other work.
 */
export async function runPartners(
  accounts: FtpAccount[],
  small: FtpAccount,
  { megabytes, seed }: { megabytes: number; seed: number },
): Promise<LargeFiles & SmallFiles> {
  const smallProcess = startProcess()
  const largeProcess = startProcess()
  try {
    const smallFiles = smallProcess.ask({ kind: 'small', account: small })
    smallFiles.catch(() => undefined)
    const order = { kind: 'large', accounts, megabytes, seed } as const
    const report = await Promise.race([largeProcess.ask(order), smallFiles])
    if (!('hashes' in report)) throw new Error('the small files ended before the large ones')
    smallProcess.send({ kind: 'end' })
    const ofSmall = await smallFiles
    if (!('smallMs' in ofSmall)) throw new Error('the process of the small files sent another report')
    return { ...report, ...ofSmall }
  } finally {
    smallProcess.end()
    largeProcess.end()
  }
}

function startProcess() {
  const child = fork(fileURLToPath(new URL('./partners-process.ts', import.meta.url)))
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`the process of the FTP clients ended with ${String(code)}`)
  })
  ended.catch(() => undefined)
  const send = (order: PartnersOrder) => child.send(order)
  return {
    send,
    ask(order: PartnersOrder): Promise<LargeFiles | SmallFiles> {
      send(order)
      const answered = new Promise<LargeFiles | SmallFiles>((resolve) => child.once('message', resolve))
      return Promise.race([answered, ended])
    },
    end: () => {
      if (child.connected) child.disconnect()
    },
  }
}
