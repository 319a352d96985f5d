import { writeSync } from 'node:fs'
import { pino, type Logger } from 'pino'
import { withoutData } from '../contract/errors.ts'

export type { Logger }

const bufferedLength = 8 * 1024
const bufferMs = 100

/**
 * One JSON line an event on standard error. Never give it an email, a key, a password or a URL that may hold one: ids
 * and counts are enough to find the rest. With `isBuffered`, lines of information are gathered for a moment: written one
 * by one, those of requests took a twelfth of the control plane's time. From a warning on they are written at once, and
 * the last line before an exit is there.
 */
export function createLogger(options: { process: string; level: string; isBuffered?: boolean }): Logger {
  const lines = new Lines(options.isBuffered === true)
  return pino(
    {
      hooks: {
        logMethod(args, method, level) {
          method.apply(this, args)
          if (level >= pino.levels.values['warn']!) lines.flush()
        },
      },
      level: options.level,
      base: { process: options.process, pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: errorWithoutData },
    },
    lines,
  )
}

/** Standard error. Its reader may be slow, or gone: then nobody waits for it. */
class Lines {
  readonly #isBuffered: boolean
  #text = ''
  #isBroken = false

  constructor(isBuffered: boolean) {
    this.#isBuffered = isBuffered
    if (!isBuffered) return
    setInterval(() => this.flush(), bufferMs).unref()
    process.once('exit', () => this.flush())
  }

  write(line: string): void {
    this.#text += line
    if (!this.#isBuffered || this.#text.length >= bufferedLength) this.flush()
  }

  flush(): void {
    let bytes = Buffer.from(this.#text)
    this.#text = ''
    for (let tries = 0; bytes.length > 0 && !this.#isBroken && tries < maxAttempts; tries += 1) {
      try {
        bytes = bytes.subarray(writeSync(2, bytes))
        tries = 0
      } catch (error) {
        // A full pipe; whatever else is wrong with it stays wrong.
        if ((error as NodeJS.ErrnoException).code === 'EAGAIN') pause(pauseMs)
        else this.#isBroken = true
      }
    }
  }
}

const pauseMs = 10
const maxAttempts = 100

const pause = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)

/** An error as it is logged: what it is and where it came from, without the data that messages of the database quote. */
function errorWithoutData(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { message: withoutData(String(error)) }
  const { code, codeName, cause } = error as Error & { code?: unknown; codeName?: unknown }
  return {
    type: error.name,
    message: withoutData(error.message),
    ...(code === undefined ? {} : { code }),
    ...(codeName === undefined ? {} : { codeName }),
    stack: withoutData(error.stack ?? ''),
    ...(cause === undefined ? {} : { cause: errorWithoutData(cause) }),
  }
}

/** The same URI with its password masked: for logs, the ready line, views and messages. */
export function maskPassword(uri: string): string {
  return uri.replace(/^([a-z][a-z\d+.-]*:\/\/[^/?#@:]*):[^/?#]*@/i, '$1:***@')
}
