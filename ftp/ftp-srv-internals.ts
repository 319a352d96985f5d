import type { EventEmitter } from 'node:events'
import { createRequire } from 'node:module'
import { FtpSrv } from 'ftp-srv'
import type { Logger } from '../shared/runtime/logger.ts'
import type { Command } from './connection/command-lines.ts'
import type { ControlConnection } from './connection/control-connection.ts'
import type { FtpDirectory, ListedFile } from './ftp-directory.ts'
import type { FtpSession } from './session.ts'

/**
 * The undeclared parts of ftp-srv 4.6.3 that the server needs: its session, its command table and its listing lines.
 * ftp-srv never listens and owns no socket: the connections are ours, and it receives one command at a time. Its
 * version is pinned, and tests cover each of these parts.
 */

/** `raw`: without the reply code in front. */
export type ReplyLine = string | { message: string; raw: true }

interface FtpSrvSession extends EventEmitter {
  commands: { handle(command: Command): Promise<unknown> }
  username?: string | undefined
  authenticated?: boolean
  /** The login sets it. */
  fs?: FtpDirectory
  /** Undefined means 0. */
  restByteCount: number | undefined
  renameFrom?: string | undefined
  /** Never throws. Resolves when the operating system has the reply, or when the connection is gone. */
  reply(code: number, ...lines: ReplyLine[]): Promise<unknown>
  close(code?: number, message?: string): Promise<unknown>
}

export interface CommandEntry {
  handler(this: FtpSession, context: { command: Command }): unknown
  /** For HELP. */
  syntax: string
  description: string
  /** `no_auth`: the command is possible before the login. */
  flags?: { no_auth?: boolean }
}

const require = createRequire(import.meta.url)

export const commandTable = require('ftp-srv/src/commands/registry.js') as Record<string, CommandEntry>

/** A line of `ls -l`. */
export const listingLine = require('ftp-srv/src/helpers/file-stat.js') as (file: ListedFile) => string

export const FtpSrvConnection = require('ftp-srv/src/connection.js') as new (
  server: FtpSrv,
  options: { socket: ControlConnection; log: Logger },
) => FtpSrvSession

/**
 * The server object that each of ftp-srv's sessions requires. The signal handlers that ftp-srv adds are removed: they
 * would end the process in the middle of its orderly stop.
 */
export function createFtpSrv(log: Logger): FtpSrv {
  const signals = (['SIGTERM', 'SIGINT', 'SIGQUIT'] as const).map((signal) => ({
    signal,
    before: process.listeners(signal),
  }))
  const server = new FtpSrv({ log: quiet(log) as never })
  for (const { signal, before } of signals) {
    for (const listener of process.listeners(signal))
      if (!before.includes(listener)) process.off(signal, listener)
  }
  return server
}

/** Silences ftp-srv, which logs every command and reply, and a stack for each refusal. We log what matters. */
export const quiet = (log: Logger): Logger => log.child({}, { level: 'silent' })
