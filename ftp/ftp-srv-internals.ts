import type { EventEmitter } from 'node:events'
import { createRequire } from 'node:module'
import { FtpSrv } from 'ftp-srv'
import type { Logger } from '../shared/runtime/logger.ts'
import type { Command } from './connection/command-lines.ts'
import type { ControlConnection } from './connection/control-connection.ts'
import type { UploadDirectory } from './uploads/upload-directory.ts'

/**
 * The parts of ftp-srv 4.6.3 that it doesn't declare and that our layer needs: its session, its commands table, the
 * lines of a listing. It never listens and has no socket: connections are ours, and it gets one command at a time. The
 * version is pinned; the tests go through every one of these parts.
 */

export type ListedFile = Awaited<ReturnType<UploadDirectory['list']>>[number]

type Letter = string | { message: string; raw: true }

export interface FtpSrvSession extends EventEmitter {
  commands: { handle(command: Command): Promise<unknown> }
  username?: string | undefined
  authenticated?: boolean
  /** Set by the login (login.ts). Commands whose entry lacks `no_auth` run only after it, so theirs say `fs!`. */
  fs?: UploadDirectory
  /** Undefined for 0. */
  restByteCount: number | undefined
  renameFrom?: string | undefined
  /** One letter a line. Never throws; resolves when the client's system has it, or the connection is gone. */
  reply(code: number, ...letters: Letter[]): Promise<unknown>
  close(code?: number, message?: string): Promise<unknown>
}

export interface CommandEntry<Session> {
  handler(this: Session, context: { command: Command }): unknown
  /** For HELP. */
  syntax: string
  description: string
  flags?: { no_auth?: boolean }
}

const require = createRequire(import.meta.url)

export const commandTable = require('ftp-srv/src/commands/registry.js') as Record<
  string,
  CommandEntry<FtpSrvSession>
>

/** A line of `ls -l`. */
export const listingLine = require('ftp-srv/src/helpers/file-stat.js') as (file: ListedFile) => string

export const FtpSrvConnection = require('ftp-srv/src/connection.js') as new (
  server: FtpSrv,
  options: { socket: ControlConnection; log: Logger },
) => FtpSrvSession

/** What sessions of ftp-srv want to belong to. */
export function createFtpSrv(log: Logger): FtpSrv {
  return withoutSignalHandlers(() => new FtpSrv({ log: quiet(log) as never }))
}

/** ftp-srv logs every command and reply, with stacks for refusals; what is worth a line we say ourselves. */
export const quiet = (log: Logger): Logger => log.child({}, { level: 'silent' })

/** ftp-srv adds handlers that end the process on a signal, in the middle of our own orderly stop. */
function withoutSignalHandlers<T>(make: () => T): T {
  const signals = ['SIGTERM', 'SIGINT', 'SIGQUIT'] as const
  const before = new Map(signals.map((signal) => [signal, process.listeners(signal)]))
  const made = make()
  for (const signal of signals) {
    for (const listener of process.listeners(signal))
      if (!before.get(signal)!.includes(listener)) process.off(signal, listener)
  }
  return made
}
