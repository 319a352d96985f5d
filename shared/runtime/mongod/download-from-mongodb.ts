import { fork } from 'node:child_process'
import { clock } from '../clock.ts'
import type { MongodDownload } from './find-mongod.ts'
import { decimalMegabyte } from '../../values/byte-sizes.ts'

const firstByteTimeoutMs = 9_000
const stallTimeoutMs = 30_000

export interface DownloadReport {
  bytes?: number
  binary?: string
  error?: string
}

/**
 * Downloads with mongodb-memory-server. It runs in a child process, because the library can't cancel a request that
 * hangs, but a process can be killed.
 */
export const downloadFromMongoDB: MongodDownload = (folder, { log, signal }) =>
  new Promise((resolve, reject) => {
    const child = fork(new URL('./download-from-mongodb-child.ts', import.meta.url), [folder], {
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    })
    let received = 0
    let loggedAt = clock.monotonicMs()
    let watchdog: NodeJS.Timeout
    const expectBytesWithin = (ms: number) => {
      clearTimeout(watchdog)
      watchdog = setTimeout(() => fail(`no answer within ${ms / 1000} s`), ms)
    }
    const end = () => {
      clearTimeout(watchdog)
      child.kill('SIGKILL')
    }
    const fail = (reason: string) => {
      end()
      reject(new Error(reason))
    }

    expectBytesWithin(firstByteTimeoutMs)
    signal.addEventListener('abort', () => fail('stopped'))
    child.on('message', (report: DownloadReport) => {
      if (report.error !== undefined) fail(report.error)
      if (report.bytes !== undefined && report.bytes > received) {
        received = report.bytes
        expectBytesWithin(stallTimeoutMs)
        if (clock.monotonicMs() - loggedAt > 5_000) {
          loggedAt = clock.monotonicMs()
          log.info(`embedded MongoDB: ${Math.round(received / decimalMegabyte)} MB received`)
        }
      }
      if (report.binary !== undefined) {
        end()
        resolve(report.binary)
      }
    })
    child.on('error', (error) => fail(error.message))
    child.on('exit', (code) => fail(`the download ended with exit code ${code}`))
  })
