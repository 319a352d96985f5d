import { pino, type Logger } from 'pino'

export type { Logger }

/**
 * One JSON line an event on standard error. Never give it an email, a key, a password or a URL that may
 * hold one: ids and counts are enough to find the rest. Written synchronously, so that the last line before
 * an exit is there.
 */
export function createLogger(options: { process: string; level: string }): Logger {
  return pino(
    {
      level: options.level,
      base: { process: options.process, pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: pino.stdSerializers.err },
    },
    pino.destination({ fd: 2, sync: true }),
  )
}

/** The same URI with its password masked: for logs, the ready line, views and messages. */
export function maskPassword(uri: string): string {
  return uri.replace(/^([a-z][a-z\d+.-]*:\/\/[^/?#@:]*):[^/?#]*@/i, '$1:***@')
}
